// Package rig builds and runs Plant Store and sends plants to it, for the harnesses. It also builds the program with a
// weakness, so that a control test can show that a harness detects it.
package rig

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"plantstore/client"
)

// CitusVariable names a database with the extension Citus, on the coordinator of a cluster.
const CitusVariable = "PLANTSTORE_TEST_CITUS"

// Citus is the value of CitusVariable, which init removes.
var Citus = os.Getenv(CitusVariable)

// init removes the program's settings and libpq's variables from the environment that the processes of a harness
// inherit.
func init() {
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "PLANTSTORE_") || strings.HasPrefix(name, "PG") {
			_ = os.Unsetenv(name) // fails only for an invalid name
		}
	}
}

// root is the product's root, relative to a package of this module.
const root = "../.."

// Weakness is a change of one source file that breaks a guarantee.
type Weakness struct {
	File     string // relative to the product's root
	Old, New string // the file must contain Old exactly once; if Old is empty, New is a new file
}

// Weaknesses that several harnesses must detect.
var (
	// NormalSync commits without a sync: SQLite's synchronous = NORMAL.
	NormalSync = Weakness{"internal/sqlite/engine.go", "PRAGMA synchronous = FULL;", "PRAGMA synchronous = NORMAL;"}
	// EarlyAnswer sends responses before the commit.
	EarlyAnswer = Weakness{
		"internal/writepath/writer.go",
		"\toutcomes, err := w.engine.Insert(ctx, b.creates)\n",
		"\tb.outcomes = make([]store.Outcome, len(b.creates))\n\tclose(b.done)\n\tb.done = make(chan struct{})\n" +
			"\toutcomes, err := w.engine.Insert(ctx, b.creates)\n",
	}
)

// HastyMerges merges the segments of each second, and with --backup-sync of each fifth of a second. It does not weaken
// the program.
var HastyMerges = []Weakness{
	{"internal/backup/merge.go", "\treturn time.Minute\n", "\treturn time.Second\n"},
	{"internal/backup/merge.go", "\t\treturn 5 * time.Second\n", "\t\treturn time.Second / 5\n"},
}

// Killer adds the function failpoint to the package in a directory, for calls that other weaknesses insert. The
// variable FAILPOINT is NAME:COUNT: the program kills itself when it reaches that failpoint for the COUNT-th time.
func Killer(dir string) Weakness {
	return Weakness{File: dir + "/failpoint.go", New: "package " + path.Base(dir) + `

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

var reached atomic.Int64

func failpoint(name string) {
	enabled, count, _ := strings.Cut(os.Getenv("FAILPOINT"), ":")
	if enabled != name {
		return
	}
	if n, _ := strconv.ParseInt(count, 10, 64); reached.Add(1) == n {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
`}
}

// Build builds the program with any weaknesses and returns its path.
func Build(t testing.TB, weak ...Weakness) string {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "plantstore")
	args := []string{"build", "-C", root, "-buildvcs=false", "-ldflags=-s -w", "-o", program} // half of the time to link
	if len(weak) > 0 {
		args = append(args, "-overlay", overlay(t, dir, weak))
	}
	command := exec.CommandContext(t.Context(), "go", append(args, "./cmd/plantstore")...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return program
}

func overlay(t testing.TB, dir string, weak []Weakness) string {
	t.Helper()
	replace := map[string]string{}
	for i, w := range weak {
		path, err := filepath.Abs(filepath.Join(root, w.File))
		if err != nil {
			t.Fatal(err)
		}
		from := path
		if replace[path] != "" {
			from = replace[path] // an earlier weakness changed the same file
		}
		text, err := os.ReadFile(from)
		switch {
		case w.Old == "":
			text = nil
		case err != nil:
			t.Fatal(err)
		case strings.Count(string(text), w.Old) != 1:
			t.Fatalf("%s must contain %q exactly once; adapt the weakness to the source", w.File, w.Old)
		}
		replace[path] = filepath.Join(dir, fmt.Sprintf("weak%d.go", i))
		if err := os.WriteFile(replace[path], []byte(strings.Replace(string(text), w.Old, w.New, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Server is a running server.
type Server struct {
	URL, Admin string // addresses of the public and the admin listener, without a path
	Command    *exec.Cmd

	log   logBuffer
	ready chan struct{} // closed when the server logs that it is ready, not as a standby
	ended chan struct{} // closed when the process has ended and Command.ProcessState is set
}

// ErrEnded is the error of a server that ended before it was ready.
var ErrEnded = errors.New("the server ended before it was ready")

// Start starts a server on the store db and waits until it is ready. If before is not empty, it is a command line that
// runs the program, such as strace. The end of the test kills the server.
func Start(t testing.TB, program, db string, before []string, flags ...string) (*Server, error) {
	t.Helper()
	s := Launch(t, program, db, before, flags...)
	select {
	case <-s.ready:
		return s, nil
	case <-s.ended:
		return s, fmt.Errorf("%w, with code %d:\n%s", ErrEnded, s.ExitCode(), s.Log())
	case <-time.After(time.Minute):
		s.Kill()
		return s, fmt.Errorf("the server was not ready within a minute:\n%s", s.Log())
	}
}

// Launch is Start for a server that may become ready at any time, or never, such as a standby. The caller sets its
// addresses by flags.
func Launch(t testing.TB, program, db string, before []string, flags ...string) *Server {
	t.Helper()
	args := append(before[:len(before):len(before)], program, "serve", "--db", db,
		"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-level", "info")
	args = append(args, flags...)
	command := exec.Command(args[0], args[1:]...) //nolint:noctx // Cleanup kills it
	s := &Server{Command: command, ready: make(chan struct{}), ended: make(chan struct{})}
	s.Command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := s.Command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	go func() { // ends with the process; Kill waits for it
		defer close(s.ended)
		s.read(pipe)
		_ = s.Command.Wait() // ExitCode returns the result
	}()
	return s
}

// read stores the log, and closes ready when the server logs that it is ready.
func (s *Server) read(from io.Reader) {
	ready := s.ready
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		line := lines.Text()
		s.log.add(line)
		if ready != nil && strings.Contains(line, " msg=ready ") {
			s.URL, s.Admin = "http://"+field(line, "listen"), field(line, "admin")
			close(ready)
			ready = nil
		}
	}
}

func field(line, name string) string {
	_, rest, _ := strings.Cut(line, " "+name+"=")
	value, _, _ := strings.Cut(rest, " ")
	return strings.Trim(value, `"`)
}

// Log returns the last lines of the server's log.
func (s *Server) Log() string { return s.log.String() }

// Kill kills the server and its child processes, and waits for its end.
func (s *Server) Kill() {
	select {
	case <-s.ended: // its process id may belong to another process by now
	default:
		_ = syscall.Kill(-s.Command.Process.Pid, syscall.SIGKILL) // fails if the server just ended
		<-s.ended
	}
}

// Stop shuts the server down and returns its exit code.
func (s *Server) Stop() int {
	_ = s.Command.Process.Signal(syscall.SIGTERM)
	<-s.ended
	return s.ExitCode()
}

// Ended returns a channel that is closed when the process has ended.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// ExitCode returns the exit code of an ended server; -1 after a signal.
func (s *Server) ExitCode() int { return s.Command.ProcessState.ExitCode() }

// logBuffer stores the last lines of a log.
type logBuffer struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (b *logBuffer) add(line string) {
	const linesMax = 200
	b.mu.Lock()
	defer b.mu.Unlock()
	isFault := strings.Contains(line, "status=5") && !strings.Contains(line, "error_code=50304") // a standby's responses
	if strings.Contains(line, " msg=request ") && !isFault {
		return
	}
	if b.lines = append(b.lines, line); len(b.lines) > linesMax {
		b.lines = b.lines[1:]
	}
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(b.lines, "\n")
}

// Metrics returns the metrics of the server, for a token of Token.
func (s *Server) Metrics(ctx context.Context, token string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Admin+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("metrics: status %d: %s", response.StatusCode, text)
	}
	return text, err
}

// Post sends a request of an operator to the admin API, with a token of Token, and returns the status and the body of
// the response.
func (s *Server) Post(ctx context.Context, token, path string, body any) (status int, text []byte, err error) {
	text, err = json.Marshal(body)
	if err != nil {
		return 0, nil, err
	}
	url := s.Admin + "/api/v1" + path
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer response.Body.Close()
	text, err = io.ReadAll(response.Body)
	return response.StatusCode, text, err
}

// Token creates a token in the store db, with or without a running server. It creates plants, reads the metrics, and
// uses the admin API.
func Token(t testing.TB, program, db, name string) string {
	t.Helper()
	var faults bytes.Buffer
	command := exec.CommandContext(t.Context(), program, "token", "create", name, "--no-expiry", "--create",
		"--scope", "plants:create,metrics,admin", "--db", db)
	command.Stderr = &faults
	out, err := command.Output()
	if err != nil {
		t.Fatalf("token create: %v\n%s", err, &faults)
	}
	return strings.TrimSpace(string(out))
}

// Client creates plants with a token, by the Go client without its retries.
type Client struct {
	Token   string
	Timeout time.Duration // for a request; 0: the Go client's

	mu    sync.Mutex
	byURL map[string]*client.Client // guarded by mu
}

// of returns the client of a server.
func (c *Client) of(url string) *client.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.byURL[url]; known != nil {
		return known
	}
	options := []client.Option{client.WithToken(c.Token), client.WithRetryFor(0)}
	if c.Timeout > 0 {
		options = append(options, client.WithAttemptTimeout(c.Timeout))
	}
	made, err := client.New(url, options...)
	if err != nil {
		panic(err) // a server of the harness has a valid URL
	}
	if c.byURL == nil {
		c.byURL = map[string]*client.Client{}
	}
	c.byURL[url] = made
	return made
}

// Close closes the connections that no request uses.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, known := range c.byURL {
		known.Close()
	}
}

// Outcome is the result of one request for a plant, as the client can see it.
type Outcome int

// The outcomes.
const (
	Unknown  Outcome = iota // no response, or 503 with 50303: the outcome is unknown
	Stored                  // 200: the plant is stored with this content
	Refused                 // 4xx: the request did not store the plant
	Conflict                // 400 with 40041: another plant has the id
	Busy                    // 503 or 507: the request did not store the plant
)

// Create sends one plant. The status is 0 without a response.
func (c *Client) Create(ctx context.Context, url string, id int64, name string) (o Outcome, status int) {
	p, err := c.of(url).Create(ctx, client.NewPlant{ID: id, Name: name})
	if err == nil && p.Name != name {
		return Refused, http.StatusOK // a server must not respond with another plant
	}
	e, ok := errors.AsType[*client.Error](err)
	switch {
	case !ok:
		return Stored, http.StatusOK
	case e.Status == 0, e.Code == client.OutcomeUnknown:
		return Unknown, e.Status
	case e.Code == client.ExistsWithDifferentName:
		return Conflict, e.Status
	case e.Status >= http.StatusInternalServerError:
		return Busy, e.Status
	}
	return Refused, e.Status
}

// Export returns the names of all plants of a store by id, with or without a running server.
func Export(t testing.TB, program, db string) (map[int64]string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), program, "export", "--db", db, "--format", "jsonl")
	var faults bytes.Buffer
	command.Stderr = &faults
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("export: %w\n%s", err, &faults)
	}
	plants := map[int64]string{}
	lines := json.NewDecoder(bytes.NewReader(out))
	for lines.More() {
		var p struct {
			ID   int64
			Name string
		}
		if err := lines.Decode(&p); err != nil {
			return nil, err
		}
		if _, duplicate := plants[p.ID]; duplicate {
			return nil, fmt.Errorf("export has plant %d twice", p.ID)
		}
		plants[p.ID] = p.Name
	}
	return plants, nil
}

// Seed returns the given seed, or a random one if that is 0, and logs it.
func Seed(t testing.TB, given uint64) uint64 {
	t.Helper()
	if given == 0 {
		given = rand.Uint64() >> 1 //nolint:gosec // not a secret
	}
	t.Logf("seed %d; repeat the run with -seed %[1]d", given)
	return given
}
