package tls

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// unlimited does not count the frames of a connection.
var unlimited = rig.Weakness{
	File: "internal/server/http2.go",
	Old:  "\treturn c.tokens >= 0\n",
	New:  "\treturn c.tokens < http2FramesBurst+1\n",
}

const (
	frameHeaders, frameReset, frameSettings, framePing, frameContinuation = 1, 3, 4, 6, 9
	flagEndStream, flagEndHeaders                                         = 1, 4

	framesPerWrite = 100
)

// flood has the frames that a client sends over and over.
type flood func(to []byte, stream *uint32) []byte

// floods are the attacks on HTTP/2. Their requests have no credential.
var floods = map[string]flood{
	"rapid reset": func(to []byte, stream *uint32) []byte { // CVE-2023-44487
		to = frame(to, frameHeaders, flagEndStream|flagEndHeaders, *stream, request)
		to = frame(to, frameReset, 0, *stream, []byte{0, 0, 0, 8})
		*stream += 2
		return to
	},
	"continuation": func(to []byte, stream *uint32) []byte { // CVE-2024-27316
		if *stream == 1 {
			to = frame(to, frameHeaders, flagEndStream, *stream, request)
			*stream += 2
		}
		return frame(to, frameContinuation, 0, 1, nil)
	},
	"settings": func(to []byte, _ *uint32) []byte { return frame(to, frameSettings, 0, 0, nil) },
	"ping":     func(to []byte, _ *uint32) []byte { return frame(to, framePing, 0, 0, make([]byte, 8)) },
}

func frame(to []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	to = append(to, byte(len(payload)>>16), byte(len(payload)>>8), byte(len(payload)), kind, flags)
	return append(binary.BigEndian.AppendUint32(to, stream), payload...)
}

// request is the header block of a request to /plants (RFC 7541 appendix A).
var request = append([]byte{
	0x83, // :method: POST
	0x87, // :scheme: https
	0x04, byte(len("/plants")),
}, "/plants\x01\x01a"...) // :path, then :authority: a

// attack floods the server from a process of its own, over some connections, and over new ones when the server closes
// them. The process has the lowest priority, as if it ran on another machine. stop ends it.
func (s *target) attack(t *testing.T, name string) (stop func()) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAttacker$")
	command.Env = append(os.Environ(), "FLOOD="+name, "FLOOD_ADDRESS="+s.address, "FLOOD_CA="+s.caFile)
	command.Stderr = os.Stderr
	input, err := command.StdinPipe() // its end ends the attacker
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(output)
	if line, err := lines.ReadString('\n'); line != "flooding\n" {
		t.Fatalf("attacker: %q, %v", line, err)
	}
	return func() {
		_ = input.Close()
		_, _ = io.Copy(io.Discard, lines)
		if err := command.Wait(); err != nil {
			t.Fatalf("attacker: %v", err)
		}
	}
}

// TestAttacker is the process of attack.
func TestAttacker(t *testing.T) {
	name := os.Getenv("FLOOD")
	if name == "" {
		t.Skip("attack runs it as a process")
	}
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19); err != nil {
		t.Fatal(err)
	}
	s := &target{address: os.Getenv("FLOOD_ADDRESS"), authority: x509.NewCertPool()}
	pem, err := os.ReadFile(os.Getenv("FLOOD_CA"))
	if err != nil || !s.authority.AppendCertsFromPEM(pem) {
		t.Fatalf("authority: %v", err)
	}
	const attackers = 4
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	first := sync.OnceFunc(func() { _, _ = os.Stdout.WriteString("flooding\n") })
	for range attackers {
		running.Go(func() {
			for ctx.Err() == nil {
				s.floodOnce(ctx, floods[name], first)
			}
		})
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
	cancel()
	running.Wait()
}

// floodOnce floods the server over one connection until the server closes it or the context ends. It calls first after
// each write.
func (s *target) floodOnce(ctx context.Context, f flood, first func()) {
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: time.Minute}, Config: s.config("h2")}
	c, err := d.DialContext(ctx, "tcp", s.address)
	if err != nil {
		return
	}
	defer c.Close()
	ended := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer ended()
	go func() { _, _ = io.Copy(io.Discard, c) }() // ends with the connection
	stream := uint32(1)
	out := frame([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), frameSettings, 0, 0, nil)
	for stream < 1<<31 {
		for range framesPerWrite {
			out = f(out, &stream)
		}
		if _, err := c.Write(out); err != nil {
			return
		}
		first()
		out = out[:0]
	}
}

// measure sends plants one at a time for a time, and returns their response times.
func (s *target) measure(t *testing.T, post func() error, lasts time.Duration) (times []time.Duration) {
	t.Helper()
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		started := time.Now()
		if err := post(); err != nil {
			t.Fatalf("the well-behaved client: %v", err)
		}
		times = append(times, time.Since(started))
	}
	return times
}

func p99(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)*99/100]
}

// compare measures a well-behaved client of HTTP/2 alone and beside a flood, in turns. It returns the ratio of the 99th
// percentiles.
func (s *target) compare(t *testing.T, name string, id *int64) float64 {
	t.Helper()
	rounds, lasts := 1, 500*time.Millisecond
	if *long {
		rounds, lasts = 10, 2*time.Second
	}
	c := s.client(t, true)
	post := func() error { *id++; return s.post(t.Context(), c, *id) }
	var alone, beside []time.Duration
	for range rounds {
		alone = append(alone, s.measure(t, post, lasts)...)
		stop := s.attack(t, name)
		beside = append(beside, s.measure(t, post, lasts)...)
		stop()
	}
	t.Logf("alone: p99 %s of %d; beside the flood: %s of %d", p99(alone), len(alone), p99(beside), len(beside))
	return float64(p99(beside)) / float64(p99(alone))
}

// TestFloods measures a well-behaved client beside each flood. The server disconnects the clients that flood it; the
// control does not.
func TestFloods(t *testing.T) {
	s, control := start(t, rig.Build(t)), start(t, rig.Build(t, unlimited))
	var id int64
	for name := range floods {
		without, ratio := control.compare(t, name, &id), s.compare(t, name, &id)
		t.Logf("%s: p99 beside it is %.2f times that alone; %.2f times in the control", name, ratio, without)
		if *long && ratio > 2 {
			t.Errorf("%s: p99 beside the flood is %.2f times that alone, want at most 2", name, ratio)
		}
	}
	const line = `msg="HTTP/2 connection closed"`
	if got := strings.Count(s.Log(), line); got < len(floods) {
		t.Errorf("the server closed %d connections, want at least %d:\n%s", got, len(floods), s.Log())
	}
	if strings.Contains(control.Log(), line) {
		t.Errorf("the control closed connections:\n%s", control.Log())
	}
	s.stop(t)
	control.stop(t)
}
