package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"plantstore/internal/config"
	"plantstore/internal/store"
)

// waitMax limits every wait of a test. It is far longer than any event takes, so it only ends a hanging test.
const waitMax = 2 * time.Minute

// pollEvery is the interval of checks for events without a notification, such as a new file.
const pollEvery = 5 * time.Millisecond

// poll waits until happened returns true. The error names the event.
func poll(event string, happened func() bool) error {
	deadline := time.After(waitMax)
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-deadline:
			return fmt.Errorf("no %s within %s", event, waitMax)
		}
	}
	return nil
}

// process is a process of the program under test.
type process struct {
	cmd            *exec.Cmd
	stdin          io.WriteCloser
	stdout, stderr *stream
	ended          chan struct{} // closed when the process has ended and its output is complete
}

// startProcess starts the program with an open pipe as its standard input.
func startProcess(dir string, environ []string, args ...string) (*process, error) {
	p, err := newProcess(dir, environ, args...)
	if err == nil {
		err = p.start()
	}
	return p, err
}

// newProcess returns a process to start with start. The caller may change the streams of its cmd first.
func newProcess(dir string, environ []string, args ...string) (*process, error) {
	path, err := exec.LookPath("plantstore") // testscript.Main puts it there
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(path, args...), stdout: newStream(), stderr: newStream(), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = dir, environ, p.stdout, p.stderr
	p.stdin, err = p.cmd.StdinPipe()
	return p, err
}

func (p *process) start() error {
	if err := p.cmd.Start(); err != nil {
		return err
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // ProcessState has the outcome
	}()
	return nil
}

// wait waits for the end of the process and returns the exit code as a shell does.
func (p *process) wait() (int, error) {
	select {
	case <-p.ended:
		return exitStatus(p.cmd.ProcessState), nil
	case <-time.After(waitMax):
		return 0, fmt.Errorf("the process did not end in %s; its standard error:\n%s", waitMax, p.stderr)
	}
}

// kill ends the process if it still runs.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // or it has ended
	<-p.ended
}

// exitStatus returns 128 plus the signal's number for a process that a signal ended.
func exitStatus(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return state.ExitCode()
}

// stream stores the output of a process, and notifies readers of more output.
type stream struct {
	mu   sync.Mutex
	text []byte        // guarded by mu
	grew chan struct{} // closed and replaced when text grows; guarded by mu
}

func newStream() *stream { return &stream{grew: make(chan struct{})} }

// Write implements io.Writer.
func (s *stream) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, p...)
	close(s.grew)
	s.grew = make(chan struct{})
	return len(p), nil
}

func (s *stream) String() string {
	text, _ := s.snapshot()
	return text
}

// snapshot returns the output up to now, and a channel that is closed when there is more.
func (s *stream) snapshot() (string, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text), s.grew
}

// await waits until a stream of the process has a match, and returns it with its groups.
func (p *process) await(s *stream, pattern string) ([]string, error) {
	re, err := regexp.Compile("(?m)" + pattern)
	if err != nil {
		return nil, err
	}
	deadline := time.After(waitMax)
	for {
		text, grew := s.snapshot()
		if match := re.FindStringSubmatch(text); match != nil {
			return match, nil
		}
		select {
		case <-grew:
		case <-p.ended:
			if match := re.FindStringSubmatch(s.String()); match != nil {
				return match, nil
			}
			return nil, fmt.Errorf("the process ended with %d without %q; its standard error:\n%s",
				exitStatus(p.cmd.ProcessState), pattern, p.stderr)
		case <-deadline:
			return nil, fmt.Errorf("no %q within %s; standard error:\n%s", pattern, waitMax, p.stderr)
		}
	}
}

// readyLine matches the log line of a started server. Its groups are the address of the public listener, and the URLs
// of both listeners.
const readyLine = `msg=(?:ready|"ready as a standby") listen=(\S+) public=(\S+) admin=(\S+)`

// cleanEnviron returns the environment of the test without the variables of the program, of libpq and of OpenTelemetry.
func cleanEnviron() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, config.VariablePrefix) || strings.HasPrefix(entry, "PG") ||
			strings.HasPrefix(entry, "OTEL_")
	})
}

// testServer is a server on a store of its own.
type testServer struct {
	*process
	url string // the public listener's
	db  string
}

// startServer starts a server and waits until it is ready. It is killed at the end of the test if it still runs.
func startServer(t *testing.T, db string, args ...string) *testServer {
	t.Helper()
	return startServerIn(t, cleanEnviron(), db, args...)
}

// startServerIn is startServer with the environment of the server.
func startServerIn(t *testing.T, environ []string, db string, args ...string) *testServer {
	t.Helper()
	args = append([]string{
		"serve", "--db", db, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
	}, args...)
	p, err := startProcess(t.TempDir(), environ, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	match, err := p.await(p.stderr, readyLine)
	if err != nil {
		t.Fatal(err)
	}
	return &testServer{process: p, url: match[2], db: db}
}

// creator returns the secret of a new token that creates plants.
func (s *testServer) creator(t *testing.T) string { return s.newToken(t, "first", "plants:create") }

// operator returns the secret of a new token for the admin listener.
func (s *testServer) operator(t *testing.T) string {
	return s.newToken(t, "first-admin", "plants:read,admin,metrics")
}

func (s *testServer) newToken(t *testing.T, name, scopes string) string {
	t.Helper()
	return strings.TrimSpace(plantstore(t, "token", "create", name, "--no-expiry", "--scope", scopes, "--db", s.db))
}

// stop sends SIGTERM to the server and waits for exit code 0.
func (s *testServer) stop(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code, err := s.wait(); err != nil || code != exitOK {
		t.Fatalf("the server ended with %d, %v, want 0; its log:\n%s", code, err, s.stderr)
	}
}

// plantstore runs a command in the process of the test and returns its standard output. Another exit code than 0 fails
// the test, and a command that does not end. It runs the command again while a stopped process has the store locked.
func plantstore(t *testing.T, args ...string) string {
	t.Helper()
	var code int
	var out, message string
	_ = within(waitMax, func() (bool, error) {
		code, out, message = inProcess(t, cleanEnviron(), args)
		return !strings.Contains(message, store.ErrBusy.Error()), nil
	})
	if code != exitOK {
		t.Fatalf("plantstore %s: %d\n%s", strings.Join(args, " "), code, message)
	}
	return out
}

// httpClient returns a client with a connection for each of the clients of a test.
func httpClient(clients int) *http.Client {
	return &http.Client{Timeout: waitMax, Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
}

// newCreate returns a request to create a plant.
func newCreate(ctx context.Context, url, token, body string) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/plants", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	return r, nil
}

// post sends a plant and returns the status and body of the response, like send.
func post(ctx context.Context, c *http.Client, url, token, body string) (status int, text string, err error) {
	r, err := newCreate(ctx, url, token, body)
	if err != nil {
		return 0, "", err
	}
	got, err := send(c, r)
	return got.status, got.body, err
}

// send sends a create and returns the response. It repeats the request while the response asks for that, as a client
// does: the disk of a busy machine can take longer than the answer timeout.
func send(c *http.Client, r *http.Request) (got reply, err error) {
	err = within(waitMax, func() (_ bool, err error) {
		got, err = sendOnce(c, r)
		return !asksAgain(got.body), err
	})
	return got, err
}

func sendOnce(c *http.Client, r *http.Request) (got reply, err error) {
	if r.Body, err = r.GetBody(); err != nil {
		return got, err
	}
	res, err := c.Do(r)
	if err != nil {
		return got, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(body)}, err
}

// asksAgain reports whether the body of a response asks for the same request again.
func asksAgain(body string) bool { return strings.Contains(body, "send it again") }

func writeFileText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
