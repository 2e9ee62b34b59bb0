package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"plantstore/internal/auth"
	"plantstore/internal/config"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/writepath"
)

var counts = flag.Bool("counts", false, "compare the counts of TestCounts, which needs the process for itself")

// countsFile has the counts of a create that the last accepted change needed.
const countsFile = "testdata/counts.txt"

// differenceMax is the part by which a count may differ from its value in countsFile.
const differenceMax = 0.02

// TestCounts compares what a create needs with countsFile: system calls, syncs, wake-ups, allocations, bytes of the WAL
// and of the connection. A busy machine changes a rate, but not these. -update writes the file.
//
// Each run is in a bubble of testing/synctest whose clock stands still: a goroutine always waits for a connection, or
// the test waits for all goroutines. So nothing runs in the background, and no wait ends early.
func TestCounts(t *testing.T) {
	if !*counts {
		t.Skip("make check runs it alone, with -args -counts")
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGURG) // starts the goroutine of package signal outside the bubbles
	runtime.GOMAXPROCS(1)                                  // so that goroutines run in the same order on a busy machine
	debug.SetGCPercent(-1)                                 // which would empty pools at any time
	runtime.SetBlockProfileRate(1)
	got := map[string]float64{}
	t.Run("one client", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { countOneClient(t, got) })
	})
	t.Run("batches of 32", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { countBatches(t, got) })
	})
	if t.Failed() {
		return
	}
	if *update {
		writeCounts(t, got)
	}
	want := readCounts(t)
	all := maps.Clone(want)
	maps.Copy(all, got)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if math.Abs(got[name]-want[name]) > differenceMax*want[name] {
			t.Errorf("%s: %.4f a create, but %.4f in %s; find out why, then store it: "+
				"go test ./cmd/plantstore -run TestCounts -args -counts -update", name, got[name], want[name], countsFile)
		}
	}
}

func writeCounts(t *testing.T, got map[string]float64) {
	t.Helper()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(got)) {
		fmt.Fprintf(&text, "%s: %.4f\n", name, got[name])
	}
	if err := os.WriteFile(countsFile, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readCounts(t *testing.T) map[string]float64 {
	t.Helper()
	text, err := os.ReadFile(countsFile)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if want[name], err = strconv.ParseFloat(value, 64); err != nil {
			t.Fatalf("%s: %q: %v", countsFile, line, err)
		}
	}
	return want
}

// meter counts what creates need.
type meter struct {
	t    *testing.T
	name string
	db   string
	got  map[string]float64 // by name, a create
}

// count calls load, which does a number of creates.
func (m meter) count(load func(creates int)) {
	const warmUp, creates, traced = 320, 1600, 640
	var before, after runtime.MemStats
	load(warmUp)
	wal := m.walBytes()
	wakeUps, reads := m.waits()
	runtime.ReadMemStats(&before)
	load(creates)
	runtime.ReadMemStats(&after)
	wakeUpsAfter, readsAfter := m.waits()
	m.set("allocations", int(after.Mallocs-before.Mallocs)-allocationsOfRead*(readsAfter-reads), creates)
	m.set("wake-ups", wakeUpsAfter-wakeUps, creates)
	m.set("bytes of the WAL", m.walBytes()-wal, creates)
	for name, calls := range m.trace(func() { load(traced) }) {
		m.set("system call "+name, calls, traced)
	}
}

func (m meter) set(name string, sum, creates int) {
	m.got[m.name+", "+name] = float64(sum) / float64(creates)
}

// allocationsOfRead is how often net/http allocates while it waits for its background read.
const allocationsOfRead = 2

// waits returns how often goroutines have waited for a channel, a lock or another goroutine. reads are the waits of
// net/http for its read in the background: whether it has to is a matter of time, so they don't count.
func (m meter) waits() (wakeUps, reads int) {
	records := make([]runtime.BlockProfileRecord, 10_000)
	n, ok := runtime.BlockProfile(records)
	if !ok {
		m.t.Fatalf("%d stacks that wait", n)
	}
	for _, record := range records[:n] {
		if waitsForRead(record.Stack()) {
			reads += int(record.Count)
		} else {
			wakeUps += int(record.Count)
		}
	}
	return wakeUps, reads
}

func waitsForRead(stack []uintptr) bool {
	frames := runtime.CallersFrames(stack)
	for {
		frame, more := frames.Next()
		if frame.Function == "net/http.(*connReader).abortPendingRead" {
			return true
		}
		if !more {
			return false
		}
	}
}

func (m meter) walBytes() int {
	info, err := os.Stat(m.db + "-wal")
	if err != nil {
		m.t.Fatal(err)
	}
	return int(info.Size())
}

// tracedCalls are the system calls on files and connections.
const tracedCalls = "read,write,readv,writev,pread64,pwrite64,preadv,pwritev,sendto,recvfrom,sendmsg,recvmsg," +
	"setsockopt,open,openat,close,stat,fstat,lstat,newfstatat,statx,lseek,ftruncate,fallocate,unlink,unlinkat," +
	"rename,renameat,renameat2,fcntl,flock,fsync,fdatasync,sync_file_range"

var tracedCall = regexp.MustCompile(`(?m)^\d+ +(\w+)\((?:\d+<([^>]*)>)?`)

// trace returns the number of each system call of f that succeeded: a read of a connection without data is a matter of
// time. It leaves out the calls by which the threads of the Go runtime wake each other.
func (m meter) trace(f func()) map[string]int {
	path, mark := filepath.Join(m.t.TempDir(), "trace"), m.marker()
	strace := exec.Command("strace", "-f", "-qq", "-y", "-z", "-s", "0", "-o", path, "-e", "trace="+tracedCalls,
		"-p", strconv.Itoa(os.Getpid()))
	const setTracer = 0x59616d61 // PR_SET_PTRACER, for kernels where only a parent may trace; it fails on others
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTracer, ^uintptr(0), 0)
	if err := strace.Start(); err != nil {
		m.t.Fatal(err)
	}
	for !traced(m.t) {
		runtime.Gosched()
	}
	mark()
	f()
	mark()
	if err := strace.Process.Signal(os.Interrupt); err != nil {
		m.t.Fatal(err)
	}
	_ = strace.Wait() // the signal ended it
	text, err := os.ReadFile(path)
	if err != nil {
		m.t.Fatal(err)
	}
	_, calls, _ := strings.Cut(string(text), marker)
	calls, _, _ = strings.Cut(calls, marker)
	calls = calls[:strings.LastIndexByte(calls, '\n')+1] // without the call of the second mark
	sums := map[string]int{}
	for _, match := range tracedCall.FindAllStringSubmatch(calls, -1) {
		if !strings.Contains(match[2], "eventfd") {
			sums[match[1]]++
		}
	}
	return sums
}

// marker is the end of the name of a file on which nothing but the mark in a trace calls lseek.
const marker = "/marker>"

// marker returns a function that puts a mark into the trace.
func (m meter) marker() func() {
	f, err := os.Create(filepath.Join(m.t.TempDir(), strings.Trim(marker, "/>")))
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = f.Close() })
	return func() {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			m.t.Fatal(err)
		}
	}
}

// traced reports whether a tracer is attached to all threads of this process.
func traced(t *testing.T) bool {
	t.Helper()
	threads, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		t.Fatal(err)
	}
	return !slices.ContainsFunc(threads, func(path string) bool {
		status, err := os.ReadFile(path)
		return err == nil && bytes.Contains(status, []byte("TracerPid:\t0\n"))
	})
}

// countOneClient counts the creates of a client that sends one after the other to the program.
func countOneClient(t *testing.T, got map[string]float64) {
	dir := t.TempDir()
	m := meter{t, "one client", filepath.Join(dir, "plants.db"), got}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close() // the server takes the port
	ctx, stop := context.WithCancel(t.Context())
	var token strings.Builder
	environ := append(cleanEnviron(), "GOMAXPROCS=1", "GOGC=off") // else a server sets them
	command := func(stdout io.Writer, args ...string) int {
		return run(ctx, append(args, "--db", m.db), config.NewEnvironment(environ), strings.NewReader(""), stdout, log)
	}
	if code := command(&token, "token", "create", "counts", "--no-expiry", "--create"); code != exitOK {
		t.Fatalf("token create ended with %d", code)
	}
	ended := make(chan int, 1)
	go func() { ended <- command(io.Discard, "serve", "--listen", address, "--admin-listen", "127.0.0.1:0") }()
	defer func() {
		stop()
		if code := <-ended; code != exitOK {
			text, _ := os.ReadFile(log.Name())
			t.Errorf("the server ended with %d; its log:\n%s", code, text)
		}
	}()
	c := newRawClient(t, address, strings.TrimSpace(token.String()))
	defer c.conn.Close()
	m.count(c.create)
	m.set("bytes of the connection", c.bytes, c.created)
}

// rawClient creates plants without an HTTP client, which would allocate.
type rawClient struct {
	t             *testing.T
	conn          net.Conn
	head          string
	ids           *rand.Rand
	created       int
	bytes         int // sent and received
	out, response []byte
}

func newRawClient(t *testing.T, address, token string) *rawClient {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	for errors.Is(err, syscall.ECONNREFUSED) { // the server has not started yet
		runtime.Gosched()
		conn, err = net.Dial("tcp", address)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &rawClient{
		t: t, conn: conn, ids: rand.New(rand.NewPCG(1, 2)), response: make([]byte, 4096),
		head: "POST /plants HTTP/1.1\r\nHost: " + address + "\r\nAuthorization: Bearer " + token +
			"\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(6+19+len(afterID)) + "\r\n\r\n{\"id\":",
	}
}

const afterID = `,"name":"Made for counting","tag":"made"}`

// create creates plants, each when the response to the previous one has arrived.
func (c *rawClient) create(creates int) {
	for range creates {
		c.out = strconv.AppendInt(append(c.out[:0], c.head...), 1e18+c.ids.Int64N(1e18), 10) // 19 digits
		c.out = append(c.out, afterID...)
		if _, err := c.conn.Write(c.out); err != nil {
			c.t.Fatal(err)
		}
		n, err := c.conn.Read(c.response)
		if err != nil || !bytes.HasPrefix(c.response, []byte("HTTP/1.1 200 ")) {
			c.t.Fatalf("%v: %s", err, c.response[:n])
		}
		c.created++
		c.bytes += len(c.out) + n
	}
}

// countBatches counts the creates of 64 clients of a store, half of which wait for the running commit and half for the
// next one, as under load.
func countBatches(t *testing.T, got map[string]float64) {
	const batch = 32
	m := meter{t, "batches of 32", filepath.Join(t.TempDir(), "plants.db"), got}
	engine, err := sqlite.Open(t.Context(), sqlite.Config{Path: m.db, Server: true})
	if err != nil {
		t.Fatal(err)
	}
	held := &heldEngine{Engine: engine, release: make(chan struct{})}
	s, err := writepath.New(t.Context(), writepath.Config{Engine: held})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		s.Close()
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	}()
	ids, turns := rand.New(rand.NewPCG(1, 2)), make(chan int64)
	defer close(turns)
	for range 2 * batch {
		go func() { // ends with turns
			for id := range turns {
				_, err := s.Create(nil, auth.Principal{TokenID: 1}, plant.NewPlant{
					ID: id, Plant: plant.Plant{Name: "Made for counting", Tag: plant.Tagged("made")},
				})
				if err != nil {
					t.Error(err)
				}
			}
		}()
	}
	turns <- 0 // is in the first commit alone
	synctest.Wait()
	m.count(func(creates int) {
		for range creates / batch {
			for range batch {
				turns <- ids.Int64N(1e18) + 1
			}
			synctest.Wait()
			held.release <- struct{}{}
			synctest.Wait()
			if held.batch != batch {
				t.Fatalf("a commit has %d plants", held.batch)
			}
		}
	})
	held.release <- struct{}{}
	synctest.Wait()
}

// heldEngine commits a batch when it is released.
type heldEngine struct {
	*sqlite.Engine

	release chan struct{}
	batch   int // plants of the commit that waits
}

func (e *heldEngine) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	e.batch = len(batch)
	<-e.release
	return e.Engine.Insert(ctx, batch)
}
