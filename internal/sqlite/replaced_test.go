package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/store"
)

// replaceable has a store of 5 plants, and restores a backup of 3 plants over it.
type replaceable struct {
	t            *testing.T
	path, backup string
}

func newReplaceable(t *testing.T) replaceable {
	t.Helper()
	r := replaceable{t, filepath.Join(t.TempDir(), "p.db"), filepath.Join(t.TempDir(), "backup.db")}
	r.create(3, 0)
	if _, err := backupfile.Backup(t.Context(), r.path, r.backup, "", nil); err != nil {
		t.Fatal(err)
	}
	r.create(2, 100)
	return r
}

func (r replaceable) create(plants int, from int64) {
	r.t.Helper()
	e, err := Open(r.t.Context(), Config{Path: r.path, Server: true})
	if err == nil {
		err = errors.Join(insertBatch(r.t.Context(), e, plantsFrom(from, plants, "Rosa")), e.Close())
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// half returns the engine of an Open that has opened the file and no lock yet.
func (r replaceable) half(server bool) *Engine {
	r.t.Helper()
	e := &Engine{path: r.path, server: server, log: slog.New(slog.DiscardHandler)}
	if err := e.openWriter(r.t.Context(), Config{Path: r.path, MustExist: true}); err != nil {
		r.t.Fatal(err)
	}
	return e
}

func (r replaceable) restore() {
	r.t.Helper()
	if _, err := backupfile.Restore(r.t.Context(), r.backup, r.path, true, nil); err != nil {
		r.t.Fatal(err)
	}
}

// wantRefused checks the error of an engine whose file was replaced, closes the engine, and checks and uses the
// restored store.
func (r replaceable) wantRefused(err error, end func() error) {
	r.t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), r.path+" was replaced or removed after plantstore had opened it; ") {
		r.t.Errorf("got %v, want an error about the replaced file", err)
	}
	if err := end(); err != nil {
		r.t.Errorf("close: %v", err)
	}
	for _, want := range []int64{3, 4} {
		if v, err := backupfile.Verify(r.t.Context(), r.path, nil); err != nil || len(v.Faults) > 0 || v.Plants != want {
			r.t.Errorf("the restored store: %+v, %v, want %d plants", v, err, want)
		}
		if want == 3 {
			r.create(1, 200)
		}
	}
}

// TestReplacedBeforeLock shows that a server refuses a file that a restore has replaced between the open of the file
// and the lock.
func TestReplacedBeforeLock(t *testing.T) {
	t.Parallel()
	r := newReplaceable(t)
	e := r.half(true)
	r.restore()
	r.wantRefused(e.lockServe(t.Context()), e.release)
}

// TestReplacedBetweenBatches shows that a command refuses to write to a file that a restore has replaced.
func TestReplacedBetweenBatches(t *testing.T) {
	t.Parallel()
	r := newReplaceable(t)
	e, err := Open(t.Context(), Config{Path: r.path, MustExist: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := insertBatch(t.Context(), e, plantsFrom(300, 1, "Acer")); err != nil {
		t.Fatal(err)
	}
	r.restore()
	r.wantRefused(insertBatch(t.Context(), e, plantsFrom(301, 1, "Acer")), e.Close)
}

// TestReplacedBeforeMark shows that a command whose file was replaced during its start does not write the mark of the
// old file.
func TestReplacedBeforeMark(t *testing.T) {
	t.Parallel()
	r := newReplaceable(t)
	e := r.half(false)
	var err error
	if e.ticket, err = dbfile.OpenTicket(r.path); err != nil {
		t.Fatal(err)
	}
	r.restore()
	r.wantRefused(e.openMark(t.Context()), e.release)
}

// TestCreatedDuringRestore shows that no store is created while a restore that found none removes the files beside the
// path: they would belong to the new store.
func TestCreatedDuringRestore(t *testing.T) {
	t.Parallel()
	for _, server := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "p.db")
		ticket, err := dbfile.OpenTicket(path)
		if err == nil {
			err = ticket.Lock(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // so that Open does not wait
		_, err = Open(ctx, Config{Path: path, Server: server})
		if _, errStat := os.Stat(path); !errors.Is(err, store.ErrBusy) || !errors.Is(errStat, fs.ErrNotExist) {
			t.Errorf("server %v: got %v, and the file: %v", server, err, errStat)
		}
		if err := ticket.Close(); err != nil {
			t.Error(err)
		}
		e, err := Open(t.Context(), Config{Path: path, Server: server})
		if err == nil {
			err = e.Close()
		}
		if err != nil {
			t.Errorf("server %v, after the restore: %v", server, err)
		}
	}
}
