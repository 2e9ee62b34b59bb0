package sqlite3

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

const (
	readWrite = lib.SQLITE_OPEN_READWRITE | lib.SQLITE_OPEN_CREATE
	readOnly  = lib.SQLITE_OPEN_READONLY
)

// init makes SQLite count its memory, for TestShimReleasesMemory.
func init() {
	tls := libc.NewTLS()
	defer tls.Close()
	arguments := libc.Xcalloc(tls, 1, 16)
	defer libc.Xfree(tls, arguments)
	code := lib.Xsqlite3_config(tls, lib.SQLITE_CONFIG_MEMSTATUS, libc.VaList(arguments, int32(1)))
	if code != lib.SQLITE_OK {
		panic(fmt.Sprint("sqlite3_config: ", code))
	}
}

// openShim opens a connection through the VFS. The test closes it.
func openShim(t *testing.T, path string, flags int32) *Conn {
	t.Helper()
	vfs, err := registerVFS()
	if err != nil {
		t.Fatal(err)
	}
	c, err := open(path, vfs, flags)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func exec(t *testing.T, c *Conn, sql string) {
	t.Helper()
	if err := c.Exec(sql); err != nil {
		t.Fatal(err)
	}
}

func closeConn(t *testing.T, c *Conn) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

func wantText(t *testing.T, c *Conn, sql, want string) {
	t.Helper()
	if got, err := c.QueryText(sql); err != nil || got != want {
		t.Errorf("%s: got %q, %v, want %q", sql, got, err, want)
	}
}

// fill creates a table t of 500 rows, which checkFilled expects.
const fill = `
	CREATE TABLE t (i INTEGER PRIMARY KEY, a TEXT NOT NULL) STRICT;
	WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 500)
		INSERT INTO t SELECT i, hex(zeroblob(i)) FROM n;
`

// fillLast inserts the last 10 rows again.
const fillLast = "INSERT INTO t SELECT i + 490, hex(zeroblob(i + 490)) FROM t WHERE i <= 10"

func checkFilled(t *testing.T, c *Conn) {
	t.Helper()
	wantText(t, c, "PRAGMA integrity_check", "ok")
	wantText(t, c, "SELECT count(*) || ' ' || sum(i) || ' ' || sum(length(a)) FROM t", "500 125250 250500")
}

// TestParentBytes shows that a file follows the parent's sqlite3_file and does not overlap it.
func TestParentBytes(t *testing.T) {
	t.Parallel()
	tls := libc.NewTLS()
	defer tls.Close()
	name, err := libc.CString(parentName)
	if err != nil {
		t.Fatal(err)
	}
	defer libc.Xfree(tls, name)
	parent := (*lib.Tsqlite3_vfs)(pointer(lib.Xsqlite3_vfs_find(tls, name)))
	if int(parent.FszOsFile) > int(parentBytes) {
		t.Errorf("the parent's sqlite3_file has %d bytes, want at most %d", parent.FszOsFile, parentBytes)
	}
}

// TestShimJournalModes switches a database through the journal modes: WALs are opened, closed and deleted, and rollback
// journals take their place.
func TestShimJournalModes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	c := openShim(t, path, readWrite)
	exec(t, c, "PRAGMA cache_size = 4;"+fill)
	for _, mode := range []string{"wal", "delete", "truncate", "wal", "persist", "memory", "wal", "delete"} {
		wantText(t, c, "PRAGMA journal_mode = "+mode, mode)
		exec(t, c, "BEGIN; UPDATE t SET a = a || a; SELECT count(*) FROM t; ROLLBACK; UPDATE t SET a = a")
		checkFilled(t, c)
		other, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		checkFilled(t, other)
		closeConn(t, other)
	}
	closeConn(t, c)
	left, err := filepath.Glob(path + "-*")
	if err != nil || len(left) > 1 { // a persistent journal may stay
		t.Errorf("beside the database: %v, %v", left, err)
	}
}

// TestShimFeatures uses features of SQLite that call other methods of the VFS and of its files.
func TestShimFeatures(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"memory map":     "PRAGMA mmap_size = 1048576",
		"exclusive lock": "PRAGMA locking_mode = EXCLUSIVE",
		"incremental":    "PRAGMA auto_vacuum = INCREMENTAL; VACUUM",
		"temporary":      "PRAGMA temp_store = FILE; CREATE TEMP TABLE u AS SELECT * FROM t; CREATE INDEX temp.ui ON u (a)",
		"vacuum":         "DELETE FROM t WHERE i > 490; " + fillLast + "; VACUUM",
		"chunk":          "PRAGMA journal_size_limit = 0; PRAGMA wal_checkpoint(TRUNCATE); PRAGMA wal_checkpoint(RESTART)",
		"time":           "SELECT julianday('now'), random(), strftime('%s', 'now')",
	} {
		for _, mode := range []string{"wal", "delete"} {
			t.Run(name+" in "+mode, func(t *testing.T) {
				t.Parallel()
				c := openShim(t, filepath.Join(t.TempDir(), "a.db"), readWrite)
				defer closeConn(t, c)
				wantText(t, c, "PRAGMA journal_mode = "+mode, mode)
				exec(t, c, fill)
				exec(t, c, sql)
				exec(t, c, "BEGIN; DELETE FROM t; ROLLBACK; UPDATE t SET a = a")
				checkFilled(t, c)
				if err := c.SyncFile(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestShimMemoryMap shows that SQLite maps a database into memory.
func TestShimMemoryMap(t *testing.T) {
	t.Parallel()
	c := openShim(t, filepath.Join(t.TempDir(), "a.db"), readWrite)
	defer closeConn(t, c)
	wantText(t, c, "PRAGMA mmap_size = 65536", "65536")
}

// TestShimReadOnly opens a database for reading only, with and without a WAL, and as immutable.
func TestShimReadOnly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a%20?#.db")
	writer := openShim(t, path, readWrite)
	wantText(t, writer, "PRAGMA journal_mode = WAL", "wal")
	exec(t, writer, fill)
	for range 2 {
		reader := openShim(t, path, readOnly)
		checkFilled(t, reader)
		if !reader.ReadOnly() {
			t.Error("a read-only connection can write")
		}
		closeConn(t, reader)
		if writer.db != 0 {
			closeConn(t, writer) // checkpoints the WAL and removes it
		}
	}
	immutable := openShim(t, fileURI(path, "immutable=1"), readOnly|lib.SQLITE_OPEN_URI)
	defer closeConn(t, immutable)
	checkFilled(t, immutable)
}

// TestShimAttach writes into databases of both journal modes in one transaction.
func TestShimAttach(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := openShim(t, filepath.Join(dir, "main.db"), readWrite)
	defer closeConn(t, c)
	wantText(t, c, "PRAGMA journal_mode = WAL", "wal")
	exec(t, c, fill)
	for _, mode := range []string{"wal", "delete", "truncate"} {
		path := filepath.Join(dir, mode+".db")
		quoted := strings.ReplaceAll(path, "'", "''")
		exec(t, c, fmt.Sprintf("ATTACH '%s' AS %s_db; PRAGMA %[2]s_db.journal_mode = %[2]s", quoted, mode))
	}
	for _, end := range []string{"ROLLBACK", "COMMIT"} {
		exec(t, c, `BEGIN;
			CREATE TABLE wal_db.t AS SELECT * FROM main.t;
			CREATE TABLE delete_db.t AS SELECT * FROM main.t;
			CREATE TABLE truncate_db.t AS SELECT * FROM main.t; `+end)
	}
	exec(t, c, "DETACH wal_db")
	for _, mode := range []string{"wal", "delete", "truncate"} {
		other, err := Open(filepath.Join(dir, mode+".db"))
		if err != nil {
			t.Fatal(err)
		}
		checkFilled(t, other)
		closeConn(t, other)
	}
}

// TestShimBackup copies a database from and into the VFS.
func TestShimBackup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from := openShim(t, filepath.Join(dir, "from.db"), readWrite)
	to := openShim(t, filepath.Join(dir, "to.db"), readWrite)
	defer closeConn(t, from)
	defer closeConn(t, to)
	wantText(t, from, "PRAGMA journal_mode = WAL", "wal")
	exec(t, from, fill)
	last, total := 0, 0
	err := from.CopyTo(to, 7, func(copied, all int) error {
		if copied != min(last+7, all) {
			t.Errorf("%d of %d pages copied after %d", copied, all, last)
		}
		last, total = copied, all
		return nil
	})
	if err != nil || last != total || total < 8 {
		t.Errorf("%d of %d pages copied, %v", last, total, err)
	}
	checkFilled(t, to)
}

// TestShimErrors compares the errors of the VFS with those of its parent, for files that cannot be opened or that are
// no database.
func TestShimErrors(t *testing.T) {
	t.Parallel()
	vfs, err := registerVFS()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		flags   int32
		prepare func(path string) error
		want    string
	}{
		"no file": {
			readOnly,
			func(string) error { return nil },
			"unable to open database file (no such file or directory; SQLite error 14)",
		},
		"database is a directory": {
			readWrite,
			func(path string) error { return os.Mkdir(path, 0o700) },
			"unable to open database file (is a directory; SQLite error 14)",
		},
		"WAL is a directory": {
			readWrite,
			func(path string) error { return os.Mkdir(path+"-wal", 0o700) },
			"disk I/O error (is a directory; SQLite error 2570)",
		},
		"no database": {
			readWrite,
			func(path string) error { return os.WriteFile(path, make([]byte, 4096), 0o600) },
			"file is not a database (SQLite error 26)",
		},
	} {
		for shim, vfs := range map[string]uintptr{"parent": defaultVFS, "shim": vfs} {
			t.Run(name+" "+shim, func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "a.db")
				if err := test.prepare(path); err != nil {
					t.Fatal(err)
				}
				c, err := open(path, vfs, test.flags)
				if err == nil {
					err = c.Exec("PRAGMA journal_mode = WAL")
					closeConn(t, c)
				}
				if err == nil || !strings.HasSuffix(err.Error(), ": "+test.want) {
					t.Errorf("got %v, want %s", err, test.want)
				}
			})
		}
	}
}

// TestShimConcurrently opens, uses and closes connections in many goroutines, some of them on the same database.
func TestShimConcurrently(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var databases [4]*Conn
	for i := range databases {
		databases[i] = openShim(t, filepath.Join(dir, fmt.Sprint(i, ".db")), readWrite)
		defer closeConn(t, databases[i])
		wantText(t, databases[i], "PRAGMA journal_mode = WAL", "wal")
		exec(t, databases[i], "CREATE TABLE t (a)")
	}
	var working sync.WaitGroup
	for i := range 16 {
		working.Go(func() {
			for range 5 {
				c, err := OpenBuffered(filepath.Join(dir, fmt.Sprint(i%len(databases), ".db")))
				if err != nil {
					t.Error(err)
					return
				}
				c.BusyTimeout(60_000)
				if err := c.Exec("INSERT INTO t VALUES (1)"); err != nil {
					t.Error(err)
				}
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	working.Wait()
	for _, c := range databases {
		wantText(t, c, "SELECT count(*) FROM t", "20")
	}
}

// TestShimReleasesMemory runs alone: parallel tests start after it.
func TestShimReleasesMemory(t *testing.T) { //nolint:paralleltest // measures the memory of the process
	path := filepath.Join(t.TempDir(), "a.db")
	use := func() {
		c := openShim(t, path, readWrite)
		wantText(t, c, "PRAGMA journal_mode = WAL", "wal")
		exec(t, c, "CREATE TABLE IF NOT EXISTS t (a); INSERT INTO t VALUES (1)")
		closeConn(t, c)
	}
	tls := libc.NewTLS()
	defer tls.Close()
	use()
	memory, descriptors := lib.Xsqlite3_memory_used(tls), descriptorsOf(t, path)
	for range 20 {
		use()
	}
	if got := lib.Xsqlite3_memory_used(tls); got != memory {
		t.Errorf("SQLite has %d bytes after 20 connections, had %d before them", got, memory)
	}
	if got := descriptorsOf(t, path); got != descriptors {
		t.Errorf("%d descriptors are open after 20 connections, %d before them", got, descriptors)
	}
}

func descriptorsOf(t *testing.T, path string) (count int) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return 0
	}
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil && strings.HasPrefix(target, path) {
			count++
		}
	}
	return count
}

// TestFileURI shows that SQLite finds any path by its URI.
func TestFileURI(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/a/b.db":        "file:/a/b.db?immutable=1",
		"a.db":           "file:a.db?immutable=1",
		"//a.db":         "file:/a.db?immutable=1",
		"a:b/c d%?#é.db": "file:a:b/c%20d%25%3F%23%C3%A9.db?immutable=1",
		"/\xff.db":       "file:/%FF.db?immutable=1",
	} {
		if got := fileURI(path, "immutable=1"); got != want {
			t.Errorf("%q: got %s, want %s", path, got, want)
		}
	}
}
