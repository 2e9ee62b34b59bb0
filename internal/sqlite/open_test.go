package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

func mustExec(t testing.TB, path, sql string) {
	t.Helper()
	c, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Exec(sql), c.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestOpenRefuses shows that a place where no store can be, or that is not
// ours, is refused in plain words and left as it was.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		setup func(t *testing.T, path string)
		c     sqlite.Config
		want  string // PATH stands for the file, DIR for its directory
	}{
		{"no directory", func(t *testing.T, path string) { mustRemove(t, filepath.Dir(path)) }, sqlite.Config{}, "the directory of the store: stat DIR: no such file or directory"},
		{"a directory", func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) }, sqlite.Config{}, "PATH is a directory: name a file in it"},
		{"must exist", func(*testing.T, string) {}, sqlite.Config{MustExist: true}, "there is no store at PATH: name one with --db, or create one with plantstore serve"},
		{"an empty file must exist", func(t *testing.T, path string) { mustWrite(t, path, "") }, sqlite.Config{MustExist: true}, "there is no store at PATH: name one with --db, or create one with plantstore serve"},
		{"a text file", func(t *testing.T, path string) { mustWrite(t, path, strings.Repeat("no database ", 100)) }, sqlite.Config{}, "PATH is not a plant store: it is not an SQLite database"},
		{"another program's tables", func(t *testing.T, path string) { mustExec(t, path, "CREATE TABLE a (b)") }, sqlite.Config{}, "PATH is an SQLite database of another program: use another file"},
		{"another program's id", func(t *testing.T, path string) { mustExec(t, path, "PRAGMA application_id = 7") }, sqlite.Config{}, "PATH is an SQLite database of another program: use another file"},
		{"a newer schema", func(t *testing.T, path string) {
			must(t, mustOpen(t, sqlite.Config{Path: path}).Close())
			mustExec(t, path, "PRAGMA user_version = 99")
		}, sqlite.Config{}, "PATH has schema 99, and this plantstore supports schemas up to 3: use the plantstore that wrote it or a newer one"},
		{"a bound too small", func(*testing.T, string) {}, sqlite.Config{WALMax: 1 << 20}, "WALMax is 1048576 bytes; it must be at least 33554432"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "dir", "plantstore.db")
			must(t, os.Mkdir(filepath.Dir(path), 0o700))
			test.setup(t, path)
			before, _ := os.ReadFile(path)
			test.c.Path, test.c.Log = path, slog.New(slog.DiscardHandler)
			e, err := sqlite.Open(t.Context(), test.c)
			if err == nil {
				_ = e.Close()
				t.Fatal("Open succeeded")
			}
			want := strings.NewReplacer("PATH", path, "DIR", filepath.Dir(path)).Replace(test.want)
			if err.Error() != want {
				t.Errorf("got  %s\nwant %s", err, want)
			}
			if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
			if left, _ := filepath.Glob(path + "*"); test.c.WALMax > 0 && len(left) > 0 {
				t.Errorf("it leaves %q", left)
			}
		})
	}
}

// TestOneServer shows that a second server is refused as long as the first one
// runs, and that commands are not.
func TestOneServer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	server := mustOpen(t, sqlite.Config{Path: path, Server: true})
	_, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Server: true, Log: slog.New(slog.DiscardHandler)})
	want := "another plantstore serves " + path + ": stop it first, or use another file with --db"
	if err == nil || err.Error() != want {
		t.Errorf("a second server: got %v, want %s", err, want)
	}
	command := mustOpen(t, sqlite.Config{Path: path})
	must(t, insertBatch(t.Context(), command, []store.Create{{}}))
	must(t, command.Close())
	must(t, server.Close())
	must(t, mustOpen(t, sqlite.Config{Path: path, Server: true}).Close())
}

// TestLink opens a store by a link in another directory: it is the same store,
// with the same locks and the same WAL.
func TestLink(t *testing.T) {
	t.Parallel()
	path, link := filepath.Join(t.TempDir(), "plantstore.db"), filepath.Join(t.TempDir(), "link.db")
	must(t, mustOpen(t, sqlite.Config{Path: path}).Close())
	must(t, os.Symlink(path, link))
	e := mustOpen(t, sqlite.Config{Path: link, Server: true})
	for range 2 { // created, then found and synced
		must(t, insertBatch(t.Context(), e, batchOf(1, 1)))
	}
	if other, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Server: true, Log: slog.New(slog.DiscardHandler)}); err == nil {
		t.Errorf("a second server of the same file was let in by its other name")
		must(t, other.Close())
	}
	must(t, e.Close())
	if files, _ := filepath.Glob(link + "-*"); files != nil {
		t.Errorf("files beside the link: %v", files)
	}
}

// TestFiles shows what a store leaves on the disk, and that only its owner may
// read it.
func TestFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	e := mustOpen(t, sqlite.Config{Path: path, Server: true})
	must(t, insertBatch(t.Context(), e, []store.Create{{}}))
	for _, suffix := range []string{"", "-wal", "-shm", "-serve", "-ticket"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Errorf("while it runs: %v", err)
		} else if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want -rw-------", filepath.Base(path)+suffix, info.Mode())
		}
	}
	must(t, e.Close())
	for _, suffix := range []string{"-wal", "-shm"} {
		if _, err := os.Stat(path + suffix); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after Close: %s is still there (%v)", suffix, err)
		}
	}
}

// TestWriteTicket shows that a command writes within its time while a
// server commits without a pause, and that the server goes on beside an import.
func TestWriteTicket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	server := mustOpen(t, sqlite.Config{Path: path, Server: true})
	defer server.Close()
	command := mustOpen(t, sqlite.Config{Path: path})
	defer command.Close()

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served := make(chan int, 1)
	go func() {
		n := 0
		defer func() { served <- n }()
		for id := int64(0); ctx.Err() == nil; id += 10 {
			if err := insertBatch(context.Background(), server, batchOf(id, 10)); err != nil {
				t.Errorf("the server: %v", err)
				return
			}
			n++
		}
	}()
	const commits = 50
	for i := range int64(commits) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		err := insertBatch(ctx, command, batchOf(-1_000_000+i*10, 10))
		cancel()
		if err != nil {
			t.Fatalf("commit %d: %v", i, err)
		}
	}
	stop()
	if n := <-served; n < commits/2 {
		t.Errorf("the server committed %d times beside %d commits of a command", n, commits)
	}
}

func TestTurnIsNotWaitedForForever(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	e := mustOpen(t, sqlite.Config{Path: path, Server: true})
	defer e.Close()
	stopped, err := sqlite3.Open(path) // a process that stands still in a transaction
	must(t, err)
	must(t, stopped.Exec("BEGIN IMMEDIATE"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := insertBatch(ctx, e, batchOf(1, 1)); !errors.Is(err, store.ErrBusy) {
		t.Errorf("while the lock is held: %v, want %v", err, store.ErrBusy)
	}
	must(t, stopped.Exec("ROLLBACK"))
	must(t, stopped.Close())
	must(t, insertBatch(t.Context(), e, batchOf(1, 1)))
}

// TestWALStaysBounded writes many times the bound, while a reader comes and
// goes, and looks at the file after each batch.
func TestWALStaysBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	e := mustOpen(t, sqlite.Config{Path: path, Server: true, WALMax: sqlite.WALBytesMin})
	defer e.Close()
	name := strings.Repeat("x", 2000)
	var written, largest int64
	for i := int64(0); written < 5*sqlite.WALBytesMin; i++ {
		batch := make([]store.Create, 1000)
		for j := range batch {
			id := (i*1000 + int64(j)) * 7919 % (1 << 40) // scattered, as clients' ids are
			batch[j] = store.Create{Plant: plant.NewPlant{ID: id, Plant: plant.Plant{Name: name}}, At: time.Unix(0, 0)}
			written += int64(len(name))
		}
		must(t, insertBatch(t.Context(), e, batch))
		info, err := os.Stat(path + "-wal")
		must(t, err)
		largest = max(largest, info.Size())
		if _, err := e.List(t.Context(), store.Query{Limit: 10}); err != nil {
			t.Fatal(err)
		}
	}
	if largest > sqlite.WALBytesMin {
		t.Errorf("the WAL grew to %d bytes, its bound is %d", largest, sqlite.WALBytesMin)
	}
}

// TestReaderHoldsTheWAL shows that a reader of another program that holds a
// transaction open is warned of, and stops nothing.
func TestReaderHoldsTheWAL(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	var log syncBuffer
	e := mustOpen(t, sqlite.Config{Path: path, Server: true, WALMax: sqlite.WALBytesMin, Log: slog.New(slog.NewTextHandler(&log, nil))})
	defer e.Close()
	reader, err := sqlite3.Open(path)
	must(t, err)
	must(t, reader.Exec("BEGIN; SELECT count(*) FROM plants"))
	name := strings.Repeat("x", 200_000)
	for id := int64(0); id < 400; id += 20 {
		batch := batchOf(id, 20)
		for i := range batch {
			batch[i].Plant.Name = name
		}
		must(t, insertBatch(t.Context(), e, batch))
	}
	must(t, reader.Exec("COMMIT"))
	must(t, reader.Close())
	if n := strings.Count(log.String(), "a reader in another process blocks the checkpoint of the WAL"); n != 1 {
		t.Errorf("warned %d times, want once; log:\n%s", n, log.String())
	}
}

func batchOf(id int64, n int) []store.Create {
	batch := make([]store.Create, n)
	for i := range batch {
		batch[i] = store.Create{Plant: plant.NewPlant{ID: id + int64(i)}, At: time.Unix(0, 0)}
	}
	return batch
}

// insertBatch returns only the error of Insert.
func insertBatch(ctx context.Context, e store.Engine, batch []store.Create) error {
	_, err := e.Insert(ctx, batch)
	return err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustWrite(t testing.TB, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

func mustRemove(t testing.TB, path string) {
	t.Helper()
	must(t, os.RemoveAll(path))
}

// TestOpenBesideReader starts a server on a store that another program reads in
// a transaction that does not end, as one that copies it continuously does.
func TestOpenBesideReader(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plants.db")
	e := mustOpen(t, sqlite.Config{Path: path, Server: true})
	must(t, insertBatch(t.Context(), e, batchOf(0, 10)))
	reader, err := sqlite3.OpenReadOnly(path)
	must(t, err)
	must(t, reader.Exec("BEGIN"))
	_, err = reader.QueryInt("SELECT count(*) FROM plants")
	must(t, err)
	must(t, insertBatch(t.Context(), e, batchOf(10, 10)))
	must(t, e.Close())

	e = mustOpen(t, sqlite.Config{Path: path, Server: true})
	must(t, insertBatch(t.Context(), e, batchOf(20, 10)))
	records, err := e.List(t.Context(), store.Query{Limit: 100})
	if err != nil || len(records) != 30 {
		t.Errorf("%d plants, %v, want 30", len(records), err)
	}
	must(t, reader.Close())
	must(t, e.Close())
}
