package syscalls

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// shared is a test whose temporary directory outlives it.
type shared struct {
	testing.TB
	dir string
}

func (s shared) TempDir() string { return s.dir }

// base has the program and the prepared stores of all tests; prepare makes them.
var base struct {
	once    sync.Once
	dir     string // removed by TestMain
	program string
	token   string
}

func TestMain(m *testing.M) {
	os.Exit(mainExit(m))
}

func mainExit(m *testing.M) int {
	dir, err := os.MkdirTemp("", "syscalls")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	base.dir = dir
	code := m.Run()
	if testing.Verbose() {
		printRuns()
	}
	return code
}

// The prepared stores.
const (
	storeClean = "clean" // after a shutdown
	storeWAL   = "wal"   // after a kill: only the WAL has the last plants

	// storeRunning is storeClean; calls on open files fail only after the server is ready.
	storeRunning = "running"
)

// The last ids of the prepared stores. Both have the plants up to preparedClean.
const (
	preparedClean = 20
	preparedWAL   = 30
)

func nameOf(id int64) string {
	if id >= largeIDs {
		return strings.Repeat(fmt.Sprintf("Plant %d ", id), largeRepeat)
	}
	return fmt.Sprintf("Plant %d", id)
}

// Plants from this id on have names of about 30 KiB.
const (
	largeIDs    = 1_000_000
	largeRepeat = 2000
)

// prepare builds the program and the prepared stores, once.
func prepare(t *testing.T) {
	t.Helper()
	_, err := exec.LookPath("strace")
	rig.Need(t, err == nil, "strace")
	base.once.Do(func() {
		program := *built
		if program == "" {
			program = rig.Build(shared{t, base.dir})
		}
		for _, dir := range []string{storeClean, storeWAL} {
			if err := os.Mkdir(filepath.Join(base.dir, dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		db := filepath.Join(base.dir, storeClean, "plants.db")
		base.token = rig.Token(t, program, db, "test")
		fill(t, program, db, 1, preparedClean).Stop()
		if err := os.CopyFS(filepath.Join(base.dir, storeWAL), os.DirFS(filepath.Dir(db))); err != nil {
			t.Fatal(err)
		}
		fill(t, program, filepath.Join(base.dir, storeWAL, "plants.db"), preparedClean+1, preparedWAL).Kill()
		base.program = program
	})
	if base.program == "" {
		t.Fatal("preparing the program and the stores failed")
	}
}

// fill starts a server and creates plants.
func fill(t *testing.T, program, db string, from, to int64) *rig.Server {
	t.Helper()
	s, err := rig.Start(t, program, db, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := newClient()
	for id := from; id <= to; id++ {
		if o, status := c.Create(t.Context(), s.URL, id, nameOf(id)); o != rig.Stored {
			t.Fatalf("plant %d: status %d", id, status)
		}
	}
	return s
}

func newClient() *rig.Client {
	return &rig.Client{Token: base.token, Timeout: 40 * time.Second}
}

// copyStore copies a prepared store and returns its path.
func copyStore(t *testing.T, store string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir()) // strace compares resolved paths
	if err != nil {
		t.Fatal(err)
	}
	if store == storeRunning {
		store = storeClean
	}
	if err := os.CopyFS(filepath.Join(dir, "store"), os.DirFS(filepath.Join(base.dir, store))); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "store", "plants.db")
}

// armed returns the path of a store after arm.
func armed(db string) string {
	return filepath.Join(filepath.Dir(filepath.Dir(db)), "failing", filepath.Base(db))
}

// arm renames the directory of a store to the path for which strace injects errors. A running strace cannot be
// reconfigured, but it reads the path of the descriptor at each call.
func arm(t *testing.T, db string) {
	t.Helper()
	from, to := filepath.Dir(db), filepath.Dir(armed(db))
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, from); err != nil { // the server opens further files
		t.Fatal(err)
	}
}

// preparedOf returns the last id of a prepared store; the first is 1.
func preparedOf(store string) int64 {
	if store == storeWAL {
		return preparedWAL
	}
	return preparedClean
}

// command runs the program behind the command line before, and returns its output and its exit code. It fails the test
// after commandTimeMax.
func command(t *testing.T, before []string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeMax)
	defer cancel()
	line := append(append(before[:len(before):len(before)], base.program), args...)
	c := exec.CommandContext(ctx, line[0], line[1:]...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	_ = c.Run() // ProcessState has the result
	if ctx.Err() != nil {
		t.Fatalf("%v did not end:\n%s", args, &errs)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

const commandTimeMax = time.Minute

// verify runs verify on a store or a backup.
func verify(t *testing.T, args ...string) {
	t.Helper()
	out, errs, code := command(t, nil, append([]string{"verify"}, args...)...)
	if code != 0 {
		t.Errorf("verify %v ended with %d:\n%s%s", args, code, out, errs)
	}
}

// checkEnd checks the messages of an ended program: no panic, and one line with the reason if it failed.
func checkEnd(t *testing.T, stderr string, code int) {
	t.Helper()
	for _, bad := range []string{"panic:", "fatal error:", "goroutine ", "unexpected fault", "SIGSEGV", "SIGBUS"} {
		if strings.Contains(stderr, bad) {
			t.Errorf("standard error has %q:\n%s", bad, stderr)
			return
		}
	}
	if code == 0 {
		return
	}
	if code != 1 && code != 74 {
		t.Errorf("exit code %d, want 0, 1 or 74:\n%s", code, stderr)
	}
	var reasons, others int
	for line := range strings.Lines(stderr) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "plantstore: "):
			reasons++
		case reasons > 0 && line != "" && !strings.HasPrefix(line, "time="):
			others++ // a message of several lines
		}
	}
	if reasons != 1 || others != 0 {
		t.Errorf("exit code %d with %d reasons and %d lines after it; want 1 and 0:\n%s", code, reasons, others, stderr)
	}
}
