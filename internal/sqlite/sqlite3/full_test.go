package sqlite3

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// spaceLeft is the space for WALs that runOut has changed; only TestCommitCut uses it.
var spaceLeft int32

var parentWrite methodData

// runOut makes writes into the WAL of a connection end with spaceLeft, as on a full disk.
func runOut(t *testing.T, c *Conn) (end func()) {
	t.Helper()
	database, err := c.file()
	if err != nil {
		t.Fatal(err)
	}
	wal := fileAt(fileAt(database).wal)
	methods := libc.Xcalloc(c.tls, 1, 256)
	full := (*lib.Tsqlite3_io_methods)(pointer(methods))
	*full = *wal.parentMethods()
	parentWrite = function[methodData](full.FxWrite)
	full.FxWrite = address(writeWithin)
	wal.parent, methods = methods, wal.parent
	return func() {
		wal.parent, methods = methods, wal.parent
		libc.Xfree(c.tls, methods)
	}
}

func writeWithin(tls *libc.TLS, file, data uintptr, amount int32, offset int64) int32 {
	fits := min(amount, spaceLeft)
	spaceLeft -= fits
	if fits > 0 {
		if code := parentWrite(tls, file, data, fits, offset); code != lib.SQLITE_OK {
			return code
		}
	}
	if fits < amount {
		return lib.SQLITE_FULL
	}
	return lib.SQLITE_OK
}

// TestCommitCut runs out of space after some bytes of a commit, and recovers a copy of the files. If CommitCut returns
// true, the copy must not have the commit. In a WAL that SQLite overwrites, the rest of an old frame can complete a
// commit, and CommitCut returns false.
func TestCommitCut(t *testing.T) {
	t.Parallel()
	const header, frame = 32, 24 + 4096
	for name, test := range map[string]struct {
		before CheckpointMode
		cut    bool
	}{
		"longer WAL":      {Truncate, true},
		"overwritten WAL": {Passive, false},
	} {
		completed := 0
		for _, space := range []int32{0, header - 1, header, header + 24, header + 2000, header + frame - 1} {
			c := openShim(t, filepath.Join(t.TempDir(), "a.db"), readWrite)
			wantText(t, c, "PRAGMA journal_mode = WAL", "wal")
			exec(t, c, "CREATE TABLE t (i INTEGER PRIMARY KEY); INSERT INTO t VALUES (1); PRAGMA wal_checkpoint(TRUNCATE)")
			exec(t, c, "INSERT INTO t VALUES (2); INSERT INTO t VALUES (3)")
			if _, _, err := c.Checkpoint(test.before); err != nil {
				t.Fatal(err)
			}
			end := runOut(t, c)
			spaceLeft = space
			fault := (*Error)(nil)
			if err := c.Exec("INSERT INTO t VALUES (4)"); !errors.As(err, &fault) || !fault.Full() || c.InTransaction() {
				t.Fatalf("%s, %d bytes: %v", name, space, err)
			}
			if c.CommitCut() != test.cut {
				t.Errorf("%s, %d bytes: CommitCut returned %t", name, space, c.CommitCut())
			}
			switch sum := recoveredSum(t, c); {
			case sum == "10":
				completed++
			case sum != "6":
				t.Errorf("%s, %d bytes: recovered the sum %s", name, space, sum)
			}
			end()
			exec(t, c, "INSERT INTO t VALUES (5)")
			if sum := recoveredSum(t, c); sum != "11" || c.CommitCut() {
				t.Errorf("%s, %d bytes: recovered the sum %s after the next commit", name, space, sum)
			}
			closeConn(t, c)
		}
		if (completed > 0) == test.cut {
			t.Errorf("%s: %d commits without their last bytes were complete", name, completed)
		}
	}
}

// recoveredSum copies the files of a connection, as they are after a kill, and returns the sum of a column of the copy.
func recoveredSum(t *testing.T, c *Conn) string {
	t.Helper()
	path, err := c.QueryText("SELECT file FROM pragma_database_list")
	if err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "copy.db")
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(path + suffix)
		if err == nil {
			err = os.WriteFile(to+suffix, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	copied, err := Open(to)
	if err != nil {
		t.Fatal(err)
	}
	defer closeConn(t, copied)
	wantText(t, copied, "PRAGMA integrity_check", "ok")
	sum, err := copied.QueryText("SELECT sum(i) FROM t")
	if err != nil {
		t.Fatal(err)
	}
	return sum
}
