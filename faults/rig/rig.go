// Package rig builds Plant Store, runs it, and sends plants to it, for harnesses
// that do it harm. It also builds it weakened, to see that a harness notices.
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
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// init removes the program's settings and libpq's variables from the environment
// that the processes of a harness inherit.
func init() {
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "PLANTSTORE_") || strings.HasPrefix(name, "PG") {
			_ = os.Unsetenv(name) // fails only for a name that no variable can have
		}
	}
}

// root is the directory of the product's sources, seen from a package of this module.
const root = "../.."

// Weakness is a change of one source file that takes a promise away.
type Weakness struct {
	File     string // below the product's root
	Old, New string // Old must be there exactly once; if it is empty, New is a file that is added
}

// The weaknesses that harnesses must notice.
var (
	// NormalSync commits without a sync: SQLite's synchronous = NORMAL.
	NormalSync = Weakness{"internal/sqlite/engine.go", "PRAGMA synchronous = FULL;", "PRAGMA synchronous = NORMAL;"}
	// EarlyAnswer answers before the commit.
	EarlyAnswer = Weakness{
		"internal/store/writer.go",
		"\toutcomes, err := w.engine.Insert(ctx, b.creates)\n",
		"\tb.outcomes = make([]Outcome, len(b.creates))\n\tclose(b.done)\n\tb.done = make(chan struct{})\n" +
			"\toutcomes, err := w.engine.Insert(ctx, b.creates)\n",
	}
)

// Build builds the program, weakened or not, and returns its path.
func Build(t testing.TB, weak ...Weakness) string {
	t.Helper()
	dir := t.TempDir()
	program := filepath.Join(dir, "plantstore")
	args := []string{"build", "-C", root, "-o", program}
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
			from = replace[path] // a second change of the same file
		}
		text, err := os.ReadFile(from)
		switch {
		case w.Old == "":
			text = nil
		case err != nil:
			t.Fatal(err)
		case strings.Count(string(text), w.Old) != 1:
			t.Fatalf("%s has %q not exactly once: the weakness is out of date", w.File, w.Old)
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
	URL, Admin string // of its doors, without a path
	Command    *exec.Cmd

	log   logBuffer
	ended chan struct{} // closed when the process has ended; Command.ProcessState is set then
}

// ErrEnded means that a server ended before it was ready.
var ErrEnded = errors.New("the server ended before it was ready")

// Start starts a server on the store db and waits until it is ready. Before,
// if it is not empty, is a command line that runs the program. The server is
// killed when the test ends.
func Start(t testing.TB, program, db string, before []string, flags ...string) (*Server, error) {
	t.Helper()
	args := append(append(before[:len(before):len(before)], program, "serve", "--db", db, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--log-level", "info"), flags...)
	s := &Server{Command: exec.Command(args[0], args[1:]...), ended: make(chan struct{})} //nolint:noctx // killed by Cleanup
	s.Command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	pipe, err := s.Command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Kill)
	ready := make(chan struct{})
	go func() { // ends with the process, of which Kill waits for the end
		defer close(s.ended)
		s.read(pipe, ready)
		_ = s.Command.Wait() // ExitCode tells
	}()
	select {
	case <-ready:
		return s, nil
	case <-s.ended:
		return s, fmt.Errorf("%w, with code %d:\n%s", ErrEnded, s.ExitCode(), s.Log())
	case <-time.After(time.Minute):
		s.Kill()
		return s, fmt.Errorf("the server is not ready after a minute:\n%s", s.Log())
	}
}

// read keeps the log, and closes ready at the line that says so.
func (s *Server) read(from io.Reader, ready chan<- struct{}) {
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

// Log is the end of what the server wrote to standard error.
func (s *Server) Log() string { return s.log.String() }

// Kill ends the server at once, with everything that it started, and waits.
func (s *Server) Kill() {
	select {
	case <-s.ended: // its number may be another's by now
	default:
		_ = syscall.Kill(-s.Command.Process.Pid, syscall.SIGKILL) // it may end by itself just now
		<-s.ended
	}
}

// Stop ends the server in order and returns its exit code.
func (s *Server) Stop() int {
	_ = s.Command.Process.Signal(syscall.SIGTERM)
	<-s.ended
	return s.ExitCode()
}

// Ended is closed when the process has ended.
func (s *Server) Ended() <-chan struct{} { return s.ended }

// ExitCode is that of a process that has ended; -1 after a signal.
func (s *Server) ExitCode() int { return s.Command.ProcessState.ExitCode() }

// logBuffer keeps the end of a log.
type logBuffer struct {
	mu    sync.Mutex
	lines []string // guarded by mu
}

func (b *logBuffer) add(line string) {
	const linesMax = 200
	b.mu.Lock()
	defer b.mu.Unlock()
	if strings.Contains(line, " msg=request ") && !strings.Contains(line, "status=5") {
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

// Token makes a token in the store db, which may be served.
func Token(t testing.TB, program, db, name string) string {
	t.Helper()
	var faults bytes.Buffer
	command := exec.CommandContext(t.Context(), program, "token", "create", name, "--no-expiry", "--create", "--db", db)
	command.Stderr = &faults
	out, err := command.Output()
	if err != nil {
		t.Fatalf("token create: %v\n%s", err, &faults)
	}
	return strings.TrimSpace(string(out))
}

// Client sends plants with a token.
type Client struct {
	Token string
	HTTP  http.Client
}

// Outcome is what a client knows of a plant after one request.
type Outcome int

// The outcomes.
const (
	Unknown  Outcome = iota // no answer, or one that says that it is not known
	Stored                  // 200: it is stored, with this content
	Refused                 // 4xx: it was not stored by this request
	Conflict                // 400 with 40041: another plant has the id
	Busy                    // 503 or 507: it was not stored by this request
)

// Create sends one plant. The status is 0 if there was no answer.
func (c *Client) Create(ctx context.Context, url string, id int64, name string) (o Outcome, status int) {
	body := fmt.Sprintf(`{"id":%d,"name":%q}`, id, name)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/plants", strings.NewReader(body))
	if err != nil {
		return Unknown, 0
	}
	r.Header.Set("Authorization", "Bearer "+c.Token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := c.HTTP.Do(r)
	if err != nil {
		return Unknown, 0
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	if err != nil {
		return Unknown, answer.StatusCode
	}
	var refusal struct{ Error int }
	_ = json.Unmarshal(text, &refusal) // stays 0 for a plant
	switch {
	case answer.StatusCode == http.StatusOK:
		return Stored, answer.StatusCode
	case refusal.Error == outcomeUnknown:
		return Unknown, answer.StatusCode
	case refusal.Error == conflict:
		return Conflict, answer.StatusCode
	case answer.StatusCode >= http.StatusInternalServerError:
		return Busy, answer.StatusCode
	default:
		return Refused, answer.StatusCode
	}
}

// Numbers of the catalogue of errors, docs/reference/errors.md.
const (
	conflict       = 40041
	outcomeUnknown = 50303
)

// Export returns the names of all plants in a store that is not served, or
// that is, by id.
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
		if _, twice := plants[p.ID]; twice {
			return nil, fmt.Errorf("plant %d is there twice", p.ID)
		}
		plants[p.ID] = p.Name
	}
	return plants, nil
}

// Seed returns a seed that was given, or another each time if it is 0, and
// prints it.
func Seed(t testing.TB, given uint64) uint64 {
	t.Helper()
	if given == 0 {
		given = rand.Uint64() >> 1 //nolint:gosec // not to be kept secret
	}
	t.Logf("the seed is %d: run it again with -seed %[1]d", given)
	return given
}
