package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// fill makes every write into the WAL of an engine fail as on a full disk, until it is freed.
func fill(t *testing.T, e *Engine) (free func()) {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	var ofWAL []int
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && target == e.path+"-wal" {
			number, err := strconv.Atoi(filepath.Base(fd))
			if err != nil {
				t.Fatal(err)
			}
			ofWAL = append(ofWAL, number)
		}
	}
	if len(ofWAL) == 0 {
		t.Fatal("the process has no descriptor of the WAL")
	}
	replace := func(path string) {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, number := range ofWAL {
			if err := syscall.Dup3(int(f.Fd()), number, syscall.O_CLOEXEC); err != nil {
				t.Fatal(err)
			}
		}
	}
	replace("/dev/full")
	return func() { replace(e.path + "-wal") }
}

// TestFullCommit fills the disk before COMMITs: they have no effect, and the engine works again when the disk has
// space.
func TestFullCommit(t *testing.T) {
	t.Parallel()
	e := openServer(t)
	if err := insertBatch(t.Context(), e, plantsFrom(0, 1, "Rosa")); err != nil {
		t.Fatal(err)
	}
	token := auth.Token{Name: "a", CreatedAt: time.Unix(0, 0)}
	for what, change := range map[string]func() error{
		"Insert": func() error { return insertBatch(t.Context(), e, plantsFrom(1, 1, "Rosa")) },
		"Insert of several write buffers": func() error {
			return insertBatch(t.Context(), e, plantsFrom(10, 5000, "Rosa glauca"))
		},
		"CreateToken": func() error { _, err := e.CreateToken(t.Context(), token, audit.Origin{}); return err },
		"Probe":       func() error { return e.Probe(t.Context()) },
	} {
		before, err := e.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := e.writer.Checkpoint(sqlite3.Truncate); err != nil { // nothing reads the full device
			t.Fatal(err)
		}
		free := fill(t, e)
		for range 2 {
			err := change()
			if !errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrBroken) || errors.Is(err, store.ErrOutcomeUnknown) {
				t.Errorf("%s: got %v, want %v", what, err, store.ErrFull)
			}
		}
		free()
		if after, err := e.State(t.Context()); err != nil || after != before {
			t.Errorf("%s: the state is %+v, %v; before %+v", what, after, err, before)
		}
		if err := change(); err != nil {
			t.Errorf("%s with free space: %v", what, err)
		}
	}
}
