package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// managed starts servers as systemd does: with sockets that stay open, and a socket for notifications.
type managed struct {
	args, environ []string
	files         []*os.File // the sockets
	url           string     // the public listener's
	states        chan string
}

// newManaged opens the sockets. names are those of LISTEN_FDNAMES.
func newManaged(t *testing.T, names ...string) *managed {
	t.Helper()
	dir := t.TempDir()
	m := &managed{args: []string{"serve", "--db", filepath.Join(dir, "a.db")}, states: make(chan string, 1000)}
	for _, name := range names {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if name == "public" {
			m.url = "http://" + l.Addr().String()
		}
		file, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close() // the file keeps the socket open
		t.Cleanup(func() { _ = file.Close() })
		m.files = append(m.files, file)
	}
	at := &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"}
	notify, err := net.ListenUnixgram(at.Net, at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = notify.Close() })
	go func() { // ends with the socket
		for state := make([]byte, 100); ; {
			n, err := notify.Read(state)
			if err != nil {
				return
			}
			got := string(state[:n])
			if got == "WATCHDOG=1" && len(m.states) > 0 {
				continue // a server that the test does not watch must not wait for the socket
			}
			m.states <- got
		}
	}()
	m.environ = append(cleanEnviron(), "NOTIFY_SOCKET="+at.Name, "WATCHDOG_USEC=20000",
		"LISTEN_FDS="+strconv.Itoa(len(names)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	return m
}

// start starts a server. The shell sets LISTEN_PID, the process number that the server has after exec.
func (m *managed) start(t *testing.T, args ...string) *process {
	t.Helper()
	p, err := newProcess(t.TempDir(), m.environ, slices.Concat(m.args, args)...)
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Args = slices.Concat([]string{"sh", "-c", `LISTEN_PID=$$ exec "$0" "$@"`, p.cmd.Path}, p.cmd.Args[1:])
	p.cmd.Path = "/bin/sh"
	p.cmd.ExtraFiles = m.files
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p
}

// standStill stops a process for a time, as a busy machine does.
func (p *process) standStill(t *testing.T, d time.Duration) {
	t.Helper()
	stopped := p.cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(d) //nolint:forbidigo // it is the fault
	for _, err := range []error{stopped, p.cmd.Process.Signal(syscall.SIGCONT)} {
		if err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Error(err)
		}
	}
}

// await waits for a notification.
func (m *managed) await(t *testing.T, want string) {
	t.Helper()
	for late := time.After(waitMax); ; {
		select {
		case got := <-m.states:
			if got == want {
				return
			}
		case <-late:
			t.Fatalf("no %s within %s", want, waitMax)
		}
	}
}

// TestRestartRefusesNoConnection restarts a server under load whose clients open a connection for each request. Every
// request gets a response, even if the server stands still for a moment: the sockets stay open. Only a server that logs
// that it closed connections, because its last responses took too long, may leave requests without one.
func TestRestartRefusesNoConnection(t *testing.T) {
	t.Parallel()
	const clients, restarts = 16, 3
	m := newManaged(t, "admin", "public")
	secret := strings.TrimSpace(plantstore(t,
		"token", "create", "web-shop", "--no-expiry", "--create", "--db", m.args[2]))
	p := m.start(t)
	m.await(t, "READY=1")
	var load sync.WaitGroup
	var created, cut, stop atomic.Int64
	var longest atomic.Int64 // nanoseconds
	once := &http.Client{Timeout: waitMax, Transport: &http.Transport{DisableKeepAlives: true}}
	for range clients {
		load.Go(func() {
			for stop.Load() == 0 {
				body, began := fmt.Sprintf(`{"id":%d,"name":"fern"}`, created.Add(1)), time.Now()
				status, text, err := post(t.Context(), once, m.url, secret, body)
				for err != nil || status == http.StatusServiceUnavailable {
					if err != nil {
						t.Logf("%s: %v", body, err)
						cut.Add(1)
					}
					status, text, err = post(t.Context(), once, m.url, secret, body)
				}
				if status != http.StatusOK {
					t.Errorf("%s: status %d, %s", body, status, text)
				}
				for took := int64(time.Since(began)); ; {
					if old := longest.Load(); took <= old || longest.CompareAndSwap(old, took) {
						break
					}
				}
			}
		})
	}
	late := false // a server closed connections
	for range restarts {
		m.await(t, "WATCHDOG=1")
		before := created.Load()
		if err := poll("load", func() bool { return created.Load() > before+10*clients }); err != nil {
			t.Error(err)
		}
		if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		m.await(t, "STOPPING=1")
		p.standStill(t, 1200*time.Millisecond) // longer than the server waits for a request that does not arrive
		if code, err := p.wait(); err != nil || code != exitOK {
			t.Errorf("the server ended with %d, %v, want 0; its log:\n%s", code, err, p.stderr)
		}
		late = late || strings.Contains(p.stderr.String(), "closed connections with incomplete requests")
		p = m.start(t)
		m.await(t, "READY=1")
	}
	stop.Store(1)
	load.Wait()
	if n := cut.Load(); n > 0 && !late {
		t.Errorf("%d requests received no response", n)
	}
	t.Logf("%d plants by %d clients, %d restarts: the longest request took %s",
		created.Load(), clients, restarts, time.Duration(longest.Load()))
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, err := p.wait(); err != nil || code != exitOK {
		t.Errorf("the server ended with %d, %v, want 0; its log:\n%s", code, err, p.stderr)
	}
	out := plantstore(t, "verify", m.args[2])
	if want := fmt.Sprintf("%d plants", created.Load()); !strings.Contains(out, want) {
		t.Errorf("verify: got %s, want %s", out, want)
	}
}

// TestSockets tests sockets that the server refuses, and an address that a socket replaces.
func TestSockets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		names []string
		want  string // in the log
	}{
		{
			[]string{"public", "plantstore.socket"},
			`systemd: a socket has the name "plantstore.socket"; set FileDescriptorName=public or admin in its unit`,
		},
		{
			[]string{"public", "public"},
			`systemd: two sockets have the name "public"; use one ListenStream for each name`,
		},
	} {
		p := newManaged(t, tt.names...).start(t)
		code, err := p.wait()
		if got := strings.TrimSpace(p.stderr.String()); err != nil || code != exitUsage || got != "plantstore: "+tt.want {
			t.Errorf("%q: exit code %d, %v, %s; want %d, %s", tt.names, code, err, got, exitUsage, tt.want)
		}
	}

	at := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "stream"), Net: "unix"}
	stream, err := net.ListenUnix(at.Net, at)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	datagram, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer datagram.Close()
	for want, socket := range map[string]interface{ File() (*os.File, error) }{
		`systemd: the socket "public" is not a TCP socket; use ListenStream=HOST:PORT`:           stream,
		`systemd: the socket "public" does not accept connections; use ListenStream=HOST:PORT: `: datagram,
	} {
		m := newManaged(t, "public")
		file, err := socket.File()
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		m.files = []*os.File{file}
		p := m.start(t)
		code, err := p.wait()
		if got := p.stderr.String(); err != nil || code != exitUsage || !strings.HasPrefix(got, "plantstore: "+want) {
			t.Errorf("%T: exit code %d, %v, %s; want %d, %s", socket, code, err, got, exitUsage, want)
		}
	}

	m := newManaged(t, "public")
	p := m.start(t, "--listen", "127.0.0.1:1", "--admin-listen", "127.0.0.1:0")
	match, err := p.await(p.stderr, readyLine)
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(m.url, "http://")
	warning := `level=WARN msg="the socket of systemd replaces a setting; change ListenStream of its unit" ` +
		"setting=listen value=127.0.0.1:1 socket=" + address + "\n"
	if match[1] != address || !strings.Contains(p.stderr.String(), warning) {
		t.Errorf("listen=%s, want %s; log:\n%s; want %s", match[1], address, p.stderr, warning)
	}
}

// TestTryIgnoresSystemd runs try in the environment of a unit with sockets: it opens its own, and notifies no manager.
func TestTryIgnoresSystemd(t *testing.T) {
	t.Parallel()
	m := newManaged(t, "public", "admin")
	i := slices.IndexFunc(m.environ, func(v string) bool { return strings.HasPrefix(v, "NOTIFY_SOCKET=") })
	notify := strings.TrimPrefix(m.environ[i], "NOTIFY_SOCKET=")
	m.args, m.environ = []string{"try"}, append(m.environ, "TMPDIR="+t.TempDir())
	p := m.start(t)
	url, err := p.await(p.stdout, `^curl -i (http://127\.0\.0\.1:\d+)/plants `)
	if err != nil {
		t.Fatal(err)
	}
	if url[1] == m.url {
		t.Errorf("try listens on the socket of systemd, %s", m.url)
	}
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code, err := p.wait(); err != nil || code != exitOK {
		t.Errorf("try ended with %d, %v, want 0", code, err)
	}
	const last = "the last message"
	end, err := net.Dial("unixgram", notify)
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	if _, err := end.Write([]byte(last)); err != nil {
		t.Fatal(err)
	}
	if state := <-m.states; state != last {
		t.Errorf("try sent the notification %q", state)
	}
}
