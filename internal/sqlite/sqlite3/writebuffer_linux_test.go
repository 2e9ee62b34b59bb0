package sqlite3_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"plantstore/internal/sqlite/sqlite3"
)

// TestCheckpointWriteError shows that a checkpoint whose writes fail returns an error and does not count its pages as
// copied.
func TestCheckpointWriteError(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	c := mustOpenBuffered(t, path)
	must(t, c.Exec("CREATE TABLE t (i INTEGER PRIMARY KEY, a TEXT NOT NULL) STRICT; INSERT INTO t VALUES (1, 'x')"))
	unwritable, err := os.Open(path)
	must(t, err)
	fds, err := filepath.Glob("/proc/self/fd/*")
	must(t, err)
	replaced := 0
	for _, fd := range fds {
		number, err := strconv.Atoi(filepath.Base(fd))
		must(t, err)
		if target, err := os.Readlink(fd); err == nil && target == path && number != int(unwritable.Fd()) {
			must(t, syscall.Dup3(int(unwritable.Fd()), number, syscall.O_CLOEXEC))
			replaced++
		}
	}
	must(t, unwritable.Close())
	if replaced == 0 {
		t.Fatal("the process has no descriptor of the database")
	}
	for _, mode := range []sqlite3.CheckpointMode{sqlite3.Passive, sqlite3.Truncate} {
		const ioErrWrite = 778
		var fault *sqlite3.Error
		if frames, copied, err := c.Checkpoint(mode); !errors.As(err, &fault) || fault.Code != ioErrWrite {
			t.Errorf("mode %d: %d of %d frames are copied, %v; want a write error", mode, copied, frames, err)
		}
	}
	c.KeepWAL(true)
	checkTable(t, mustOpen(t, path), map[int64]string{1: "x"})
}
