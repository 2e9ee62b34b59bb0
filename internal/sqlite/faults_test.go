package sqlite

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

func openServer(t *testing.T) *Engine {
	t.Helper()
	e, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "p.db"), Server: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

func plantsFrom(id int64, n int, name string) []store.Create {
	batch := make([]store.Create, n)
	for i := range batch {
		batch[i] = store.Create{Plant: plant.NewPlant{ID: id + int64(i), Plant: plant.Plant{Name: name}}, At: time.Unix(0, 0)}
	}
	return batch
}

// insertBatch returns only the error of Insert.
func insertBatch(ctx context.Context, e store.Engine, batch []store.Create) error {
	_, err := e.Insert(ctx, batch)
	return err
}

// TestFull lets the file not grow: nothing of the batch is stored, and the
// store goes on when there is room.
func TestFull(t *testing.T) {
	t.Parallel()
	e := openServer(t)
	if err := insertBatch(t.Context(), e, plantsFrom(0, 1, "Rosa")); err != nil {
		t.Fatal(err)
	}
	if err := e.writer.Exec("PRAGMA max_page_count = 20"); err != nil {
		t.Fatal(err)
	}
	err := insertBatch(t.Context(), e, plantsFrom(0, 100, strings.Repeat("x", 2000)))
	if !errors.Is(err, store.ErrFull) || errors.Is(err, store.ErrBroken) || errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("got %v, want %v", err, store.ErrFull)
	}
	if _, err := e.Get(t.Context(), 1); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a plant of the batch that failed: %v", err)
	}
	if err := e.writer.Exec("PRAGMA max_page_count = 100000"); err != nil {
		t.Fatal(err)
	}
	if err := insertBatch(t.Context(), e, plantsFrom(1, 100, strings.Repeat("x", 2000))); err != nil {
		t.Errorf("when there is room again: %v", err)
	}
}

// TestReplaysAreSynced shows that a batch that writes nothing is answered only
// when what it found is on stable storage.
func TestReplaysAreSynced(t *testing.T) {
	t.Parallel()
	e, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "p.db"), Server: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	batch := plantsFrom(0, 3, "Rosa")
	for _, what := range []string{"creating", "replaying"} {
		if err := insertBatch(t.Context(), e, batch); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	if err := e.wal.Close(); err != nil { // so that the next sync of its own fails
		t.Fatal(err)
	}
	if err := insertBatch(t.Context(), e, plantsFrom(20, 1, "Tilia")); err != nil {
		t.Fatalf("creating, which SQLite syncs: %v", err)
	}
	err = insertBatch(t.Context(), e, batch)
	if !errors.Is(err, store.ErrOutcomeUnknown) || !errors.Is(err, store.ErrBroken) {
		t.Errorf("when the sync fails: %v", err)
	}
	e.wal = nil
	for range 2 { // the second would find that the sync succeeds
		if err := insertBatch(t.Context(), e, plantsFrom(10, 1, "Acer")); !errors.Is(err, store.ErrBroken) || errors.Is(err, store.ErrOutcomeUnknown) {
			t.Errorf("after that: %v, want that nothing is written", err)
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(e.path + "-wal"); err != nil {
		t.Errorf("Close touched the WAL of a broken engine: %v", err)
	}
}

// TestWALStaysTheSameFile shows that the WAL that was opened at the start is the
// one that SQLite writes, also after it was emptied.
func TestWALStaysTheSameFile(t *testing.T) {
	t.Parallel()
	e := openServer(t)
	opened, err := e.wal.Stat()
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []sqlite3.CheckpointMode{sqlite3.Passive, sqlite3.Truncate} {
		if err := insertBatch(t.Context(), e, plantsFrom(int64(mode), 1, "Rosa")); err != nil {
			t.Fatal(err)
		}
		named, err := os.Stat(e.path + "-wal")
		if err != nil || named.Size() == 0 || !os.SameFile(opened, named) {
			t.Errorf("the WAL is another file, or empty: %+v, %v", named, err)
		}
		if _, _, err := e.writer.Checkpoint(mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := insertBatch(t.Context(), e, plantsFrom(100, 1, "Rosa")); err != nil {
		t.Fatal(err)
	}
	if named, err := os.Stat(e.path + "-wal"); err != nil || !os.SameFile(opened, named) {
		t.Errorf("the WAL is another file: %+v, %v", named, err)
	}
}

// TestBackgroundMeetsFullDisk shows that a disk that was full once does not
// stop a store for ever.
func TestBackgroundMeetsFullDisk(t *testing.T) {
	t.Parallel()
	e := openServer(t)
	e.checkpoints.passEnded(false, &sqlite3.Error{Op: "checkpoint", Code: 13, Message: "database or disk is full"}) // SQLITE_FULL
	e.writeMu.Lock()
	e.checkpoints.frames = startFramesLarge
	e.writeMu.Unlock()
	if err := insertBatch(t.Context(), e, plantsFrom(0, 1, "Rosa")); err != nil {
		t.Error(err)
	}
}

// TestDamage takes tables away from under an engine: every call says so, none
// claims success, and a write that failed leaves no transaction behind.
func TestDamage(t *testing.T) {
	t.Parallel()
	e := openServer(t)
	other, err := sqlite3.Open(e.path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(other.Exec("DROP TABLE plants; DROP TABLE tokens; DROP TABLE state"), other.Close()); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	now := time.Now()
	for name, call := range map[string]func() error{
		"Insert":           func() error { return insertBatch(ctx, e, plantsFrom(0, 1, "Rosa")) },
		"Get":              func() error { _, err := e.Get(ctx, 1); return err },
		"List":             func() error { _, err := e.List(ctx, store.Query{Limit: 1, Tag: plant.Tagged("")}); return err },
		"CreateToken":      func() error { _, err := e.CreateToken(ctx, auth.Token{CreatedAt: now}); return err },
		"CreateFirstToken": func() error { _, err := e.CreateFirstToken(ctx, auth.Token{CreatedAt: now}); return err },
		"RotateToken":      func() error { _, _, err := e.RotateToken(ctx, auth.Token{CreatedAt: now}, 0); return err },
		"RevokeTokens":     func() error { _, err := e.RevokeTokens(ctx, store.Selector{Name: "a"}, now); return err },
		"Tokens":           func() error { _, err := e.Tokens(ctx); return err },
		"State":            func() error { _, err := e.State(ctx); return err },
		"MarkUsed":         func() error { return e.MarkUsed(ctx, []auth.Use{{TokenID: 1, At: now}}) },
	} {
		if err := call(); !errors.Is(err, store.ErrBroken) {
			t.Errorf("%s: %v, want it to wrap %v", name, err, store.ErrBroken)
		}
		if e.writer.InTransaction() {
			t.Errorf("%s left a transaction open", name)
		}
	}
}

// TestDamagedTokens has rows that this program would never write.
func TestDamagedTokens(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ scopes, hash, want string }{
		{"plants:delete", "randomblob(32)", `token 1: unknown scope "plants:delete"; known scopes are plants:create, plants:read, admin`},
		{"plants:create", "x'00'", "token 1: its hash has 1 bytes, want 32"},
	} {
		e := openServer(t)
		if err := e.writer.Exec("INSERT INTO tokens (name, hash, scopes, created_at) VALUES ('a', " + test.hash + ", '" + test.scopes + "', 0)"); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Tokens(t.Context()); err == nil || err.Error() != test.want {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}

// TestBackgroundFails shows that an error of a checkpoint in the background
// stops the writing.
func TestBackgroundFails(t *testing.T) {
	t.Parallel()
	e := openServer(t)
	c := &e.checkpoints
	c.mu.Lock()
	c.err = store.ErrBroken
	c.mu.Unlock()
	e.writeMu.Lock()
	c.frames = startFramesLarge
	e.writeMu.Unlock()
	if err := insertBatch(t.Context(), e, plantsFrom(0, 1, "Rosa")); !errors.Is(err, store.ErrBroken) {
		t.Errorf("got %v, want %v", err, store.ErrBroken)
	}
}

// TestReaderLeft shows that nobody waits while a WAL is copied that grew
// beyond its bound because somebody was reading.
func TestReaderLeft(t *testing.T) {
	t.Parallel()
	e := openServer(t)
	c := &e.checkpoints
	e.writeMu.Lock()
	c.frames = c.framesMax + startFramesLarge
	e.writeMu.Unlock()
	c.passEnded(true, nil) // the reader kept the background from copying all
	if err := e.checkpointIfDue(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	e.writeMu.Lock()
	if c.blockedFrames != c.frames || c.startFrames <= c.frames {
		t.Errorf("of %d frames %d are noted as held, and the next checkpoint begins at %d", c.frames, c.blockedFrames, c.startFrames)
	}
	c.frames = c.startFrames
	e.writeMu.Unlock()
	c.mu.Lock()
	c.running = true // the reader has left
	c.mu.Unlock()
	if err := insertBatch(t.Context(), e, plantsFrom(0, 1, "Rosa")); err != nil { // waits for ever if it waits
		t.Fatal(err)
	}
	c.passEnded(false, nil)
	e.writeMu.Lock()
	c.frames = c.startFrames
	e.writeMu.Unlock()
	if err := e.checkpointIfDue(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	e.writeMu.Lock()
	defer e.writeMu.Unlock()
	if c.frames != 0 || c.blockedFrames != 0 {
		t.Errorf("when all is copied: %d frames, %d held", c.frames, c.blockedFrames)
	}
}

// TestOwnCommitIsNoReader has a checkpoint begin while the writer has not let go
// of what it read before its commit: that is over in a moment, and must not count
// as somebody who reads, for whom the WAL may grow beyond its bound.
func TestOwnCommitIsNoReader(t *testing.T) {
	t.Parallel()
	for name, leaves := range map[string]bool{"it leaves": true, "it stays": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := openServer(t)
			if err := insertBatch(t.Context(), e, plantsFrom(0, 1, "Rosa")); err != nil {
				t.Fatal(err)
			}
			reader, err := sqlite3.Open(e.path)
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			if err := reader.Exec("BEGIN"); err != nil {
				t.Fatal(err)
			}
			if _, err := reader.QueryInt("SELECT count(*) FROM plants"); err != nil {
				t.Fatal(err)
			}
			if err := insertBatch(t.Context(), e, plantsFrom(1, 2, "Rosa")); err != nil {
				t.Fatal(err)
			}
			attempts := 0
			e.checkpoints.duration = prometheus.ObserverFunc(func(float64) {
				if attempts++; attempts == 1 && leaves {
					if err := reader.Exec("COMMIT"); err != nil {
						t.Error(err)
					}
				}
			})
			left, err := e.checkpoints.pass()
			if err != nil || left == leaves {
				t.Errorf("after %d attempts: a reader kept it from copying all: %v, %v; want %v", attempts, left, err, !leaves)
			}
		})
	}
}
