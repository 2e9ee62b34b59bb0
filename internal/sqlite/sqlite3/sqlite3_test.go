package sqlite3_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"plantstore/internal/sqlite/sqlite3"
)

func mustOpen(t testing.TB, path string) *sqlite3.Conn {
	t.Helper()
	c, err := sqlite3.Open(path)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustPrepare(t testing.TB, c *sqlite3.Conn, sql string) *sqlite3.Stmt {
	t.Helper()
	s, err := c.Prepare(sql)
	must(t, err)
	t.Cleanup(s.Close)
	return s
}

// TestValues binds values of every type and reads them back. Several long values of one row make the statement's memory
// grow more than once.
func TestValues(t *testing.T) {
	t.Parallel()
	c := mustOpen(t, filepath.Join(t.TempDir(), "a.db"))
	must(t, c.Exec("CREATE TABLE t (i INTEGER, a TEXT, b TEXT, c TEXT, d BLOB) STRICT"))
	in := mustPrepare(t, c, "INSERT INTO t VALUES (?, ?, ?, ?, ?)")
	out := mustPrepare(t, c, "SELECT i, a, b, c, d FROM t WHERE i = ?")
	for i, size := range []int{0, 1, 64<<10 - 1, 64 << 10, 200 << 10, 3} {
		id := int64(math.MinInt64 + i)
		texts := []string{strings.Repeat("a", size), strings.Repeat("ü", size), strings.Repeat("\U0001F331", size)}
		blob := bytes.Repeat([]byte{0, 0xff}, size)
		in.BindInt64(1, id)
		for j, text := range texts {
			in.BindText(2+j, text)
		}
		in.BindBlob(5, blob)
		must(t, in.Run())
		if n := c.Changes(); n != 1 {
			t.Errorf("size %d: %d changes, want 1", size, n)
		}
		out.BindInt64(1, id)
		if ok, err := out.Step(); err != nil || !ok {
			t.Fatalf("size %d: no row, %v", size, err)
		}
		if got := out.Int64(0); got != id {
			t.Errorf("size %d: got id %d, want %d", size, got, id)
		}
		for j, text := range texts {
			if out.Text(1+j) != text {
				t.Errorf("size %d: text %d differs", size, j)
			}
		}
		if out.Text(4) != string(blob) || out.Null(4) {
			t.Errorf("size %d: blob differs", size)
		}
		if ok, err := out.Step(); err != nil || ok {
			t.Errorf("size %d: another row: %v, %v", size, ok, err)
		}
		out.Reset()
	}
	in.BindInt64(1, 0)
	for param := 2; param <= 5; param++ {
		in.BindNull(param)
	}
	must(t, in.Run())
	out.BindInt64(1, 0)
	if ok, err := out.Step(); err != nil || !ok || !out.Null(1) || out.Text(1) != "" {
		t.Errorf("NULL: row %v, %v, null %v, text %q", ok, err, out.Null(1), out.Text(1))
	}
}

// TestRunAgain shows that a kept statement of Run works after an error and after a change of the schema, and that it
// does not keep the connection open.
func TestRunAgain(t *testing.T) {
	t.Parallel()
	c, err := sqlite3.Open(filepath.Join(t.TempDir(), "a.db"))
	must(t, err)
	for range 2 {
		must(t, c.Exec("CREATE TABLE t (a INTEGER PRIMARY KEY) STRICT"))
		const insert = "INSERT INTO t VALUES (?)"
		must(t, c.Run(insert, 1))
		if err := c.Run(insert, 1); err == nil {
			t.Error("the second row with the key has no error")
		}
		must(t, c.Run(insert, 2))
		if n, err := c.QueryInt("SELECT sum(a) FROM t"); n != 3 || err != nil {
			t.Errorf("sum %d, %v; want 3", n, err)
		}
		must(t, c.Exec("DROP TABLE t"))
	}
	must(t, c.Close())
}

func TestErrors(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	a, b := mustOpen(t, path), mustOpen(t, path)
	must(t, a.Exec("CREATE TABLE t (i INTEGER PRIMARY KEY) STRICT; BEGIN IMMEDIATE; INSERT INTO t VALUES (1)"))

	var fault *sqlite3.Error
	err := b.Exec("BEGIN IMMEDIATE")
	if !errors.As(err, &fault) || !fault.Busy() || fault.Full() || fault.Interrupted() || fault.NotDatabase() {
		t.Errorf("a locked database: %v", err)
	}
	if got, want := err.Error(), "BEGIN IMMEDIATE: database is locked (SQLite error 5)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !a.InTransaction() || b.InTransaction() {
		t.Errorf("in a transaction: %v and %v, want true and false", a.InTransaction(), b.InTransaction())
	}
	must(t, a.Exec("COMMIT"))

	if _, err := a.Prepare("SELECT nothing FROM nowhere"); err == nil {
		t.Error("Prepare with a table that does not exist succeeded")
	}
	if _, err := a.QueryInt("SELECT nothing FROM nowhere"); err == nil {
		t.Error("QueryInt with a table that does not exist succeeded")
	}
	if _, err := a.QueryText("SELECT nothing FROM nowhere"); err == nil {
		t.Error("QueryText with a table that does not exist succeeded")
	}
	const constraintPrimaryKey = 1555
	if err := a.Exec("INSERT INTO t VALUES (1)"); !errors.As(err, &fault) || fault.Code != constraintPrimaryKey {
		t.Errorf("a duplicate key: %v", err)
	}
	if _, err := sqlite3.Open(filepath.Join(path, "no", "directory")); err == nil {
		t.Error("Open with a path below a file succeeded")
	}
	defer func() {
		if recover() == nil {
			t.Error("BindInt64 with a parameter that does not exist did not panic")
		}
	}()
	mustPrepare(t, a, "SELECT 1").BindInt64(1, 1)
}

func TestInterrupt(t *testing.T) {
	t.Parallel()
	c := mustOpen(t, filepath.Join(t.TempDir(), "a.db"))
	const endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i = 0 OR i = 1"
	s := mustPrepare(t, c, endless)
	if ok, err := s.Step(); err != nil || !ok {
		t.Fatalf("no row, %v", err)
	}
	c.Interrupt()
	_, err := s.Step()
	var fault *sqlite3.Error
	if !errors.As(err, &fault) || !fault.Interrupted() {
		t.Errorf("got %v, want an interruption", err)
	}
}

// TestDuring shows that the end of a context interrupts a connection, even between two statements.
func TestDuring(t *testing.T) {
	t.Parallel()
	c := mustOpen(t, ":memory:")
	const endless = "WITH RECURSIVE r (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
	ctx, cancel := context.WithCancel(t.Context())
	err := c.During(ctx, func() error {
		cancel()
		_, err := c.QueryInt("SELECT 1") // the first interruption may occur here
		for err == nil {
			_, err = c.QueryInt(endless)
		}
		return err
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if n, err := c.QueryInt("SELECT 2"); n != 2 || err != nil {
		t.Errorf("afterwards: %d, %v", n, err)
	}
}

// TestRows shows that Rows yields each row with its values, and an error as the last pair.
func TestRows(t *testing.T) {
	t.Parallel()
	c := mustOpen(t, ":memory:")
	at := time.Date(2026, 11, 24, 6, 0, 0, 1000, time.UTC)
	must(t, c.Run("CREATE TABLE t (a INTEGER, b INTEGER, c TEXT, d BLOB, e INTEGER, f INTEGER, g INTEGER) STRICT"))
	for i := range 3 {
		must(t, c.Run("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?)", i, int64(i), "x", []byte{1}, at, time.Time{}, i == 1))
	}
	var got []int64
	for s, err := range c.Rows("SELECT a, b, c, d, e, f, g FROM t WHERE a >= ?", 1) {
		must(t, err)
		got = append(got, s.Int64(0))
		if s.Int64(1) != s.Int64(0) || s.Text(2) != "x" || s.Text(3) != "\x01" || !s.Time(4).Equal(at) ||
			!s.Null(5) || !s.Time(5).IsZero() || s.Int64(6) != 2-s.Int64(0) {
			t.Errorf("row %d differs", s.Int64(0))
		}
	}
	if !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("rows %v", got)
	}
	for s, err := range c.Rows("SELECT a FROM t") {
		must(t, err)
		if s.Int64(0) == 1 {
			break // closes the statement, or mustOpen fails
		}
	}
	rows, faults := 0, 0
	for _, err := range c.Rows("SELECT abs(a - 2 - 9223372036854775807 - 1) FROM t") { // an error for a = 2
		if rows++; err != nil {
			faults++
		}
	}
	if rows != 3 || faults != 1 {
		t.Errorf("%d pairs with %d errors, want an error as the last of 3", rows, faults)
	}
	if found, err := c.Row("SELECT a FROM t WHERE a = ?", func(*sqlite3.Stmt) {}, 7); found || err != nil {
		t.Errorf("no row: %t, %v", found, err)
	}
}

func TestWAL(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	a, b := mustOpen(t, path), mustOpen(t, path)
	if mode, err := a.QueryText("PRAGMA journal_mode = WAL"); err != nil || mode != "wal" {
		t.Fatalf("journal mode %q, %v", mode, err)
	}
	a.TrackWAL()
	must(t, a.Exec("CREATE TABLE t (i INTEGER PRIMARY KEY) STRICT"))
	first := a.WALFrames()
	must(t, b.Exec("INSERT INTO t VALUES (1)"))
	must(t, a.Exec("INSERT INTO t VALUES (2)"))
	if got := a.WALFrames(); first < 1 || got != first+2 {
		t.Errorf("%d frames after the first commit, %d after one more of each connection, want two more", first, got)
	}
	frames, copied, err := b.Checkpoint(sqlite3.Passive)
	if err != nil || frames != first+2 || copied != frames {
		t.Errorf("passive: %d of %d frames, %v, want all of %d", copied, frames, err, first+2)
	}
	must(t, a.Exec("INSERT INTO t VALUES (3)"))
	if got := a.WALFrames(); got != 1 {
		t.Errorf("%d frames in the restarted WAL, want 1", got)
	}
	must(t, b.Exec("BEGIN; SELECT * FROM t"))
	must(t, a.Exec("INSERT INTO t VALUES (4)"))
	var fault *sqlite3.Error
	if _, _, err := a.Checkpoint(sqlite3.Truncate); !errors.As(err, &fault) || !fault.Busy() {
		t.Errorf("truncate beside a reader: %v, want busy", err)
	}
	must(t, b.Exec("COMMIT"))
	if _, _, err := a.Checkpoint(sqlite3.Truncate); err != nil {
		t.Errorf("truncate: %v", err)
	}
}

// TestCloseReportsOpenStatements shows that Close returns an error while a statement is open, and that a later Close
// succeeds.
func TestCloseReportsOpenStatements(t *testing.T) {
	t.Parallel()
	c, err := sqlite3.Open(filepath.Join(t.TempDir(), "a.db"))
	must(t, err)
	s, err := c.Prepare("SELECT 1")
	must(t, err)
	const want = "close: a statement or a backup of the connection is still open (SQLite error 5)"
	if err := c.Close(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if ok, err := s.Step(); err != nil || !ok {
		t.Errorf("the statement after Close: %t, %v", ok, err)
	}
	s.Close()
	must(t, c.Close())
	must(t, c.Close())
}

// TestDescriptor compares SQLite's descriptor with the file.
func TestDescriptor(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(string) (*sqlite3.Conn, error){
		"plain": sqlite3.Open, "buffered": sqlite3.OpenBuffered,
	} {
		path := filepath.Join(t.TempDir(), "a.db")
		c, err := open(path)
		must(t, err)
		descriptor, err := c.Descriptor()
		must(t, err)
		var got, want syscall.Stat_t
		must(t, syscall.Fstat(descriptor, &got))
		must(t, syscall.Stat(path, &want))
		if got.Ino != want.Ino || got.Dev != want.Dev {
			t.Errorf("%s: the descriptor is of another file", name)
		}
		must(t, c.Close())
	}
}

// TestOpenUnlocked uses a file that another connection has locked.
func TestOpenUnlocked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	other := mustOpen(t, path)
	must(t, other.Exec("CREATE TABLE t (i INTEGER); BEGIN EXCLUSIVE"))
	c, err := sqlite3.OpenUnlocked(path)
	must(t, err)
	must(t, c.Exec("PRAGMA journal_mode = OFF; INSERT INTO t VALUES (1)"))
	must(t, c.Close())
	if _, err := sqlite3.OpenUnlocked(path + ".none"); err == nil {
		t.Error("OpenUnlocked created a file")
	}
}
