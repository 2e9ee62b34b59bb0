package sqlite3_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plantstore/internal/sqlite/sqlite3"
)

// spillSettings make a connection's cache so small that a transaction of a few pages writes into the WAL before its
// end.
const spillSettings = `
	PRAGMA journal_mode = WAL;
	PRAGMA synchronous = FULL;
	PRAGMA wal_autocheckpoint = 0;
	PRAGMA cache_size = 4;
`

func mustOpenBuffered(t *testing.T, path string) *sqlite3.Conn {
	t.Helper()
	c, err := sqlite3.OpenBuffered(path)
	must(t, err)
	t.Cleanup(func() { must(t, c.Close()) })
	must(t, c.Exec(spillSettings))
	return c
}

// TestWriteBuffer compares the file of a WAL with and without a write buffer, before and after a commit.
func TestWriteBuffer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		open    func(string) (*sqlite3.Conn, error)
		spilled bool // the file has frames of the open transaction
	}{
		"with":    {sqlite3.OpenBuffered, false},
		"without": {sqlite3.Open, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "a.db")
			c, err := test.open(path)
			must(t, err)
			defer func() { must(t, c.Close()) }()
			must(t, c.Exec(spillSettings+"CREATE TABLE t (a TEXT NOT NULL) STRICT"))
			before := sizeOf(t, path+"-wal")
			must(t, c.Exec("BEGIN IMMEDIATE; "+insertPages(16)))
			if during := sizeOf(t, path+"-wal"); (during > before) != test.spilled {
				t.Errorf("the WAL grew from %d to %d bytes before the commit; want growth: %v", before, during, test.spilled)
			}
			must(t, c.Exec("COMMIT"))
			const frames, frameBytes = 16, 4096 + 24
			if after := sizeOf(t, path+"-wal"); after < before+frames*frameBytes {
				t.Errorf("the WAL has %d bytes after the commit, want at least %d", after, before+frames*frameBytes)
			}
		})
	}
}

// insertPages is a statement that fills n pages of a table t (a TEXT).
func insertPages(n int) string {
	return fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT %d) "+
		"INSERT INTO t SELECT hex(zeroblob(2000)) FROM n", n)
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Size()
}

// TestWriteBufferRandomly changes a table in random transactions, rolls some of them back in whole or in part,
// checkpoints in every mode between them, and compares the result of an unbuffered connection after each of them.
func TestWriteBufferRandomly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	writer := mustOpenBuffered(t, path)
	must(t, writer.Exec("CREATE TABLE t (i INTEGER PRIMARY KEY, a TEXT NOT NULL) STRICT"))
	checkpointer, reader := mustOpenBuffered(t, path), mustOpen(t, path)
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
	if result, err := c.QueryText("PRAGMA integrity_check"); err != nil || result != "ok" {
		t.Fatalf("integrity_check: %q, %v", result, err)
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
		if a, stored := want[s.Int64(0)]; !stored || a != s.Text(1) {
			t.Fatalf("row %d: %.40q, want %.40q (a row of the model: %t)", s.Int64(0), s.Text(1), a, stored)
		}
	}
	if rows != len(want) {
		t.Fatalf("%d rows, want %d", rows, len(want))
	}
}

// TestWriteBufferRolledBack rolls back a transaction that has written some of its frames, and restarts the WAL from
// another connection. No frame of the first connection may overwrite one of the other.
func TestWriteBufferRolledBack(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	one := mustOpenBuffered(t, path)
	must(t, one.Exec("CREATE TABLE t (i INTEGER PRIMARY KEY, a TEXT NOT NULL) STRICT"))
	other := mustOpen(t, path)
	want := map[int64]string{}
	for i := range int64(20) {
		must(t, one.Exec(fmt.Sprintf(`BEGIN IMMEDIATE;
			WITH RECURSIVE n(i) AS (SELECT 1000 UNION ALL SELECT i + 1 FROM n LIMIT %d)
				INSERT INTO t SELECT i, hex(zeroblob(1000)) FROM n;
			ROLLBACK`, 12+i)))
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
