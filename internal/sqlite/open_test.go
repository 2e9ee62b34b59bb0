package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/sqlite/sqlitetest"
	"plantstore/internal/store"
)

// TestOpenRefuses shows that Open refuses a path that is not a store or cannot be one, and changes nothing.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		setup func(t *testing.T, path string)
		c     sqlite.Config
		want  string // PATH stands for the file, DIR for its directory
	}{
		{
			"no directory", func(t *testing.T, path string) { mustRemove(t, filepath.Dir(path)) },
			sqlite.Config{},
			"the directory of the store: stat DIR: no such file or directory; create it, or use another path",
		},
		{
			"a directory", func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) },
			sqlite.Config{},
			"PATH is a directory: name a file in it",
		},
		{
			"must exist", func(*testing.T, string) {},
			sqlite.Config{MustExist: true},
			"there is no store at PATH",
		},
		{
			"an empty file must exist", func(t *testing.T, path string) { mustWrite(t, path, "") },
			sqlite.Config{MustExist: true},
			"there is no store at PATH",
		},
		{
			"a text file", func(t *testing.T, path string) { mustWrite(t, path, strings.Repeat("no database ", 100)) },
			sqlite.Config{},
			"PATH is not a plant store: it is not an SQLite database",
		},
		{
			"another program's tables", func(t *testing.T, path string) { sqlitetest.Exec(t, path, "CREATE TABLE a (b)") },
			sqlite.Config{},
			"PATH is an SQLite database of another program: use another file",
		},
		{
			"another program's id", func(t *testing.T, path string) { sqlitetest.Exec(t, path, "PRAGMA application_id = 7") },
			sqlite.Config{},
			"PATH is an SQLite database of another program: use another file",
		},
		{
			"a newer schema", func(t *testing.T, path string) {
				must(t, sqlitetest.Open(t, sqlite.Config{Path: path}).Close())
				sqlitetest.Exec(t, path, "PRAGMA user_version = 99")
			},
			sqlite.Config{},
			"PATH has schema 99, and this plantstore supports schemas up to 1: use the plantstore that wrote it or a newer one",
		},
		{
			"a write version that SQLite does not write", func(t *testing.T, path string) {
				must(t, sqlitetest.Open(t, sqlite.Config{Path: path}).Close())
				f, err := os.OpenFile(path, os.O_WRONLY, 0)
				must(t, err)
				_, err = f.WriteAt([]byte{3}, 18)
				must(t, errors.Join(err, f.Close()))
			},
			sqlite.Config{},
			"PATH is damaged: its header has the write version 0x03, want 0x01 or 0x02; restore a backup",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "dir", "plantstore.db")
			must(t, os.Mkdir(filepath.Dir(path), 0o700))
			test.setup(t, path)
			before, _ := os.ReadFile(path)
			test.c.Path = path
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
			test.c.Log = slog.New(slog.DiscardHandler)
			if _, err := sqlite.Check(t.Context(), test.c); err == nil || err.Error() != want {
				t.Errorf("Check: got %v\nwant %s", err, want)
			}
		})
	}
}

// TestOneServer shows that a second server is refused while the first one runs, and that a command is not.
func TestOneServer(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	server := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	_, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Server: true})
	want := "another plantstore serves " + path + ": stop it first, or use another file with --db"
	if err == nil || err.Error() != want {
		t.Errorf("a second server: got %v, want %s", err, want)
	}
	command := sqlitetest.Open(t, sqlite.Config{Path: path})
	must(t, sqlitetest.Insert(t.Context(), command, []store.Create{{}}))
	must(t, command.Close())
	must(t, server.Close())
	must(t, sqlitetest.Open(t, sqlite.Config{Path: path, Server: true}).Close())
}

// TestLink opens a store by a link in another directory: it uses the same locks and the same WAL.
func TestLink(t *testing.T) {
	t.Parallel()
	path, link := filepath.Join(t.TempDir(), "plantstore.db"), filepath.Join(t.TempDir(), "link.db")
	must(t, sqlitetest.Open(t, sqlite.Config{Path: path}).Close())
	must(t, os.Symlink(path, link))
	e := sqlitetest.Open(t, sqlite.Config{Path: link, Server: true})
	for range 2 { // created, then replayed
		must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(1, 1)))
	}
	if other, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Server: true}); err == nil {
		t.Error("Open accepted a second server with the path of the link's target")
		must(t, other.Close())
	}
	must(t, e.Close())
	if files, _ := filepath.Glob(link + "-*"); files != nil {
		t.Errorf("files beside the link: %v", files)
	}
}

// TestFiles shows that only the owner can read the files of a store, and that Close removes the WAL and the shared
// memory.
func TestFiles(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	must(t, sqlitetest.Insert(t.Context(), e, []store.Create{{}}))
	for _, suffix := range []string{"", "-wal", "-shm", "-serve", "-ticket"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Errorf("before Close: %v", err)
		} else if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want -rw-------", filepath.Base(path)+suffix, info.Mode())
		}
	}
	must(t, e.Close())
	for _, suffix := range []string{"-wal", "-shm"} {
		if _, err := os.Stat(path + suffix); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after Close: %s exists (%v)", suffix, err)
		}
	}
}

// TestWriteTicket shows that a command writes in time while a server commits without a pause, and that a command that
// writes without a pause leaves the server half of the commits.
func TestWriteTicket(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	server := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	defer server.Close()
	command := sqlitetest.Open(t, sqlite.Config{Path: path})
	defer command.Close()

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	served, first := make(chan int, 1), make(chan struct{})
	go func() {
		n := 0
		defer func() { served <- n }()
		committed := sync.OnceFunc(func() { close(first) })
		defer committed()
		for id := int64(0); ctx.Err() == nil; id += 10 {
			if err := sqlitetest.Insert(context.Background(), server, sqlitetest.Batch(id, 10)); err != nil {
				t.Errorf("the server: %v", err)
				return
			}
			n++
			committed()
		}
	}()
	<-first
	const commits = 50
	for i := range int64(commits) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		err := sqlitetest.Insert(ctx, command, sqlitetest.Batch(-1_000_000+i*10, 10))
		cancel()
		if err != nil {
			t.Fatalf("commit %d: %v", i, err)
		}
	}
	stop()
	if n := <-served; n < commits/2 {
		t.Errorf("%d commits of the server during %d commits of a command", n, commits)
	}
}

// TestServerWaitsForCheck shows that a server starts although the check of another process for a server lasts longer
// than the wait for one.
func TestServerWaitsForCheck(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	must(t, sqlitetest.Open(t, sqlite.Config{Path: path, Server: true}).Close())
	check, err := os.Open(path + "-serve")
	must(t, err)
	defer check.Close()
	must(t, syscall.Flock(int(check.Fd()), syscall.LOCK_SH))
	opened := make(chan error, 1)
	go func() {
		e, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Server: true})
		if err == nil {
			err = e.Close()
		}
		opened <- err
	}()
	select {
	case err := <-opened:
		t.Fatalf("during the check: %v, want a wait", err)
	case <-time.After(time.Second):
	}
	must(t, syscall.Flock(int(check.Fd()), syscall.LOCK_UN))
	must(t, <-opened)
}

// TestSubjectOfFullStore shows that the refusal of a subject does not wait for the write lock.
func TestSubjectOfFullStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	defer e.Close()
	now := time.Now()
	if _, err := e.PutSubject(t.Context(), auth.NewSubject("https://login.example", "a", now), 1); err != nil {
		t.Fatal(err)
	}
	other, err := sqlite3.Open(path)
	must(t, err)
	defer other.Close()
	must(t, other.Exec("BEGIN IMMEDIATE"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = e.PutSubject(ctx, auth.NewSubject("https://login.example", "b", now), 1)
	if !errors.Is(err, store.ErrTooManySubjects) {
		t.Errorf("got %v, want %v", err, store.ErrTooManySubjects)
	}
	must(t, other.Exec("ROLLBACK"))
}

// TestStoppedCommand shows that a commit fails in time while a stopped process has the write lock.
func TestStoppedCommand(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	defer e.Close()
	stopped, err := sqlite3.Open(path) // as a process that was stopped in a transaction
	must(t, err)
	must(t, stopped.Exec("BEGIN IMMEDIATE"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := sqlitetest.Insert(ctx, e, sqlitetest.Batch(1, 1)); !errors.Is(err, store.ErrBusy) {
		t.Errorf("while the store is locked: %v, want %v", err, store.ErrBusy)
	}
	must(t, stopped.Exec("ROLLBACK"))
	must(t, stopped.Close())
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(1, 1)))
}

// walBytesMax is the limit of docs/reference/files.md.
const walBytesMax = 64 << 20

// TestWALLimit writes three times the limit, with a read after each batch: the WAL never exceeds its limit.
func TestWALLimit(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	defer e.Close()
	name := strings.Repeat("x", 2000)
	var written, largest int64
	for i := int64(0); written < 3*walBytesMax; i++ {
		batch := make([]store.Create, 1000)
		for j := range batch {
			id := (i*1000 + int64(j)) * 7919 % (1 << 40) // scattered
			batch[j] = store.Create{Plant: plant.NewPlant{ID: id, Plant: plant.Plant{Name: name}}, At: time.Unix(0, 0)}
			written += int64(len(name))
		}
		must(t, sqlitetest.Insert(t.Context(), e, batch))
		info, err := os.Stat(path + "-wal")
		must(t, err)
		largest = max(largest, info.Size())
		if _, err := e.List(t.Context(), store.Query{Limit: 10}); err != nil {
			t.Fatal(err)
		}
	}
	if largest > walBytesMax {
		t.Errorf("the WAL has %d bytes, want at most %d", largest, walBytesMax)
	}
}

// TestWALLimitOfChanges shows that changes of many rows without a plant copy the WAL too, in a command at half of its
// limit.
func TestWALLimitOfChanges(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	must(t, sqlitetest.Open(t, sqlite.Config{Path: path}).Close())
	sqlitetest.Exec(t, path, "INSERT INTO plantstore_webhooks (url, active) VALUES ('https://a.example', 0); "+
		"WITH RECURSIVE ids (id) AS (VALUES (1) UNION ALL SELECT id + 1 FROM ids WHERE id < 20000) "+
		"INSERT INTO plantstore_deliveries (webhook, plant, since, due_at, attempts, reason) "+
		"SELECT 1, id, 0, id * 7919 % 20000, 1, hex(zeroblob(500)) FROM ids")
	e := sqlitetest.Open(t, sqlite.Config{Path: path})
	defer e.Close()
	var largest int64
	for n := int64(1); n > 0; {
		var err error
		n, err = e.EndDeliveries(t.Context())
		must(t, err)
		info, err := os.Stat(path + "-wal")
		must(t, err)
		largest = max(largest, info.Size())
	}
	if largest < walBytesMax/2 || largest > walBytesMax*3/4 {
		t.Errorf("the WAL has %d bytes, want at least half of %d and at most 3/4", largest, walBytesMax)
	}
}

// TestBlockingReader shows that the engine warns once of another process with an open read transaction, and that
// commits do not wait for it.
func TestBlockingReader(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	var log syncBuffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true, Log: logger})
	defer e.Close()
	reader, err := sqlite3.Open(path)
	must(t, err)
	must(t, reader.Exec("BEGIN; SELECT count(*) FROM plants"))
	name := strings.Repeat("x", 200_000)
	started := time.Now()
	for id := int64(0); id < 500; id += 20 {
		batch := sqlitetest.Batch(id, 20)
		for i := range batch {
			batch[i].Plant.Name = name
		}
		must(t, sqlitetest.Insert(t.Context(), e, batch))
	}
	must(t, reader.Exec("COMMIT"))
	must(t, reader.Close())
	most := 1 + int(time.Since(started)/time.Minute) // the engine warns at most once a minute
	n := strings.Count(log.String(), "a reader in another process blocks the checkpoint of the WAL")
	if n < 1 || n > most {
		t.Errorf("%d warnings, want 1 to %d; log:\n%s", n, most, log.String())
	}
}

// TestOpenBesideReader starts a server while another program has a read transaction open, as a program for continuous
// replication does.
func TestOpenBesideReader(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plants.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(0, 10)))
	reader, err := sqlite3.OpenReadOnly(path)
	must(t, err)
	must(t, reader.Exec("BEGIN"))
	_, err = reader.QueryInt("SELECT count(*) FROM plants")
	must(t, err)
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(10, 10)))
	must(t, e.Close())

	e = sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(20, 10)))
	records, err := e.List(t.Context(), store.Query{Limit: 100})
	if err != nil || len(records) != 30 {
		t.Errorf("%d plants, %v, want 30", len(records), err)
	}
	must(t, reader.Close())
	must(t, e.Close())
}

// TestStartWritesNothing shows that a server of a store with a token starts without a write, as on a full disk.
func TestStartWritesNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plants.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	first := auth.Token{Name: "first", CreatedAt: time.Now()}
	for i, want := range []bool{true, false} {
		created, err := e.CreateFirstTokens(t.Context(), []auth.Token{first}, audit.Origin{})
		if err != nil || created != want {
			t.Errorf("call %d: created %v, %v, want %v", i, created, err, want)
		}
	}
	must(t, e.Close())
	if v, err := backupfile.Verify(t.Context(), path, nil); err != nil || v.Commits != 1 {
		t.Errorf("%+v, %v, want one commit", v, err)
	}
}
