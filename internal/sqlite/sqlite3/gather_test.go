package sqlite3_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"plantstore/internal/sqlite/sqlite3"
)

// openGathering returns a connection whose writes are gathered, with so small
// a cache that a transaction of a few pages writes into the WAL before its end.
func openGathering(t *testing.T, path string) *sqlite3.Conn {
	t.Helper()
	c := mustOpen(t, path)
	must(t, c.Exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = 4"))
	must(t, c.GatherWrites())
	return c
}

// TestGatherWrites changes a table in random transactions, some of which are
// rolled back in whole or in part, between checkpoints of every kind, and
// compares what a connection without gathering finds after each of them.
func TestGatherWrites(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	writer := openGathering(t, path)
	must(t, writer.Exec("CREATE TABLE t (i INTEGER PRIMARY KEY, a TEXT NOT NULL) STRICT"))
	checkpointer, reader := openGathering(t, path), mustOpen(t, path)
	put := mustPrepare(t, writer, "INSERT INTO t VALUES (?, ?) ON CONFLICT DO UPDATE SET a = excluded.a")
	random := rand.New(rand.NewPCG(1, 2)) // the same operations every time
	want := map[int64]string{}

	change := func(into map[int64]string) {
		for range 1 + random.IntN(200) {
			i, a := random.Int64N(500), strings.Repeat("a", random.IntN(3000))
			put.BindInt64(1, i)
			put.BindText(2, a)
			must(t, put.Run())
			into[i] = a
		}
	}
	for round := range 60 {
		must(t, writer.Exec("BEGIN IMMEDIATE"))
		change(want)
		must(t, writer.Exec("SAVEPOINT s"))
		if kept := round%3 == 0; kept {
			change(want)
			must(t, writer.Exec("RELEASE s"))
		} else {
			change(map[int64]string{})
			must(t, writer.Exec("ROLLBACK TO s; RELEASE s"))
		}
		must(t, writer.Exec("COMMIT; BEGIN IMMEDIATE"))
		change(map[int64]string{})
		must(t, writer.Exec("ROLLBACK"))
		switch round % 4 {
		case 0:
			_, _, err := checkpointer.Checkpoint(sqlite3.Passive)
			must(t, err)
		case 1:
			_, _, err := writer.Checkpoint(sqlite3.Passive)
			must(t, err)
		case 2:
			_, _, err := checkpointer.Checkpoint(sqlite3.Truncate)
			must(t, err)
		}
		checkTable(t, reader, want)
	}
}

func checkTable(t *testing.T, c *sqlite3.Conn, want map[int64]string) {
	t.Helper()
	if said, err := c.QueryText("PRAGMA integrity_check"); err != nil || said != "ok" {
		t.Fatalf("integrity_check: %q, %v", said, err)
	}
	s, err := c.Prepare("SELECT i, a FROM t")
	must(t, err)
	defer s.Close()
	rows := 0
	for {
		ok, err := s.Step()
		must(t, err)
		if !ok {
			break
		}
		rows++
		if a, there := want[s.Int64(0)]; !there || a != s.Text(1) {
			t.Fatalf("row %d: wanted: %v; differs", s.Int64(0), there)
		}
	}
	if rows != len(want) {
		t.Fatalf("%d rows, want %d", rows, len(want))
	}
}

// TestGatherRolledBack rolls a transaction back of which a part was written
// already, and lets another connection begin the WAL anew. Nothing of the one
// may end up in what the other writes.
func TestGatherRolledBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	one := openGathering(t, path)
	must(t, one.Exec("CREATE TABLE t (i INTEGER PRIMARY KEY, a TEXT NOT NULL) STRICT"))
	other := mustOpen(t, path)
	want := map[int64]string{}
	for i := range int64(20) {
		must(t, one.Exec(fmt.Sprintf("BEGIN IMMEDIATE; WITH RECURSIVE n(i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n LIMIT %d) INSERT INTO t SELECT i, hex(zeroblob(1000)) FROM n; ROLLBACK", 12+i)))
		for j := range int64(4) {
			must(t, other.Exec(fmt.Sprintf("INSERT INTO t VALUES (%d, 'x')", 4*i+j)))
			want[4*i+j] = "x"
		}
		must(t, one.Exec("BEGIN; SELECT count(*) FROM t; COMMIT"))
		_, _, err := other.Checkpoint(sqlite3.Truncate)
		must(t, err)
		must(t, other.Exec("UPDATE t SET a = a"))
		_, _, err = one.Checkpoint(sqlite3.Passive)
		must(t, err)
		checkTable(t, mustOpen(t, path), want)
	}
}

func TestGatherOutsideWAL(t *testing.T) {
	t.Parallel()
	c := mustOpen(t, filepath.Join(t.TempDir(), "a.db"))
	var fault *sqlite3.Error
	if err := c.GatherWrites(); !errors.As(err, &fault) || fault.Message != "the connection is not in WAL mode" {
		t.Errorf("got %v, want a refusal", err)
	}
}

// TestCheckpointThatCannotWrite shows that a checkpoint whose writes fail says
// so: it must never take pages for copied that are not.
func TestCheckpointThatCannotWrite(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	path := filepath.Join(t.TempDir(), "a.db")
	c := openGathering(t, path)
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
		t.Fatal("no descriptor of the database was found")
	}
	for _, mode := range []sqlite3.CheckpointMode{sqlite3.Passive, sqlite3.Truncate} {
		var fault *sqlite3.Error
		if frames, copied, err := c.Checkpoint(mode); !errors.As(err, &fault) || fault.Code != 778 { // SQLITE_IOERR_WRITE
			t.Errorf("mode %d: %d of %d frames are copied, %v; want an error of writing", mode, copied, frames, err)
		}
	}
	c.KeepWAL(true)
	checkTable(t, mustOpen(t, path), map[int64]string{1: "x"})
}
