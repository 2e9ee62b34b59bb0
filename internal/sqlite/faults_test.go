package sqlite

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

func openServer(t *testing.T) *Engine {
	t.Helper()
	e, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "p.db"), Server: true})
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
func insertBatch(ctx context.Context, e *Engine, batch []store.Create) error {
	_, err := e.Insert(ctx, batch)
	return err
}

// TestFull limits the size of the file: no plant of the batch is stored, and the store works again without the limit.
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
	if rows, err := e.PlantsByID(t.Context(), []int64{0, 1}, 1<<20); err != nil || len(rows) != 1 || rows[0].ID != 0 {
		t.Errorf("a plant of the failed batch, or none of the others: %+v, %v", rows, err)
	}
	if outcomes, err := e.Insert(t.Context(), plantsFrom(0, 1, "Rosa")); err != nil || !outcomes[0].Replayed {
		t.Errorf("a replay: %+v, %v", outcomes, err)
	}
	if err := e.writer.Exec("PRAGMA max_page_count = 100000"); err != nil {
		t.Fatal(err)
	}
	if err := insertBatch(t.Context(), e, plantsFrom(1, 100, strings.Repeat("x", 2000))); err != nil {
		t.Errorf("without the limit: %v", err)
	}
}

// TestReplaysAreSynced shows that a batch of replays returns only when the plants are on stable storage.
func TestReplaysAreSynced(t *testing.T) {
	t.Parallel()
	e, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "p.db"), Server: true})
	if err != nil {
		t.Fatal(err)
	}
	batch := plantsFrom(0, 3, "Rosa")
	for _, step := range []string{"create", "replay"} {
		if err := insertBatch(t.Context(), e, batch); err != nil {
			t.Fatalf("%s: %v", step, err)
		}
	}
	if err := e.wal.Close(); err != nil { // so that the next sync by syncWAL fails
		t.Fatal(err)
	}
	if err := insertBatch(t.Context(), e, plantsFrom(20, 1, "Tilia")); err != nil {
		t.Fatalf("create, which SQLite syncs: %v", err)
	}
	err = insertBatch(t.Context(), e, batch)
	if !errors.Is(err, store.ErrOutcomeUnknown) || !errors.Is(err, store.ErrBroken) {
		t.Errorf("the failed sync: %v", err)
	}
	e.wal = nil
	for range 2 { // a second sync could succeed
		err := insertBatch(t.Context(), e, plantsFrom(10, 1, "Acer"))
		if !errors.Is(err, store.ErrBroken) || errors.Is(err, store.ErrOutcomeUnknown) {
			t.Errorf("after that: %v, want %v", err, store.ErrBroken)
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(e.path + "-wal"); err != nil {
		t.Errorf("Close removed the WAL of a broken engine: %v", err)
	}
}

// TestReplaysBesideFailedCommit shows that the engine syncs no replays after a commit that another goroutine has made
// since they were read, and that has failed.
func TestReplaysBesideFailedCommit(t *testing.T) {
	t.Parallel()
	e, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "p.db"), Server: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.syncWAL(); err != nil {
		t.Errorf("before: %v", err)
	}
	failed := e.write(t.Context(), func() error { return store.ErrBroken })
	if !errors.Is(failed, store.ErrBroken) {
		t.Fatalf("the commit: %v, want %v", failed, store.ErrBroken)
	}
	if err := e.syncWAL(); !errors.Is(err, store.ErrBroken) || !errors.Is(err, store.ErrOutcomeUnknown) {
		t.Errorf("after: %v, want %v of unknown outcome", err, store.ErrBroken)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestWALStaysTheSameFile shows that SQLite writes to the WAL that was opened at the start, even after checkpoints.
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

// endedPass returns a checkpoint in the background that has ended.
func endedPass() *pass {
	p := &pass{done: make(chan struct{})}
	close(p.done)
	return p
}

// TestCheckpointOnFullDisk shows that the store works after a checkpoint has failed on a full disk.
func TestCheckpointOnFullDisk(t *testing.T) {
	t.Parallel()
	e := openServer(t)
	const full = 13 // SQLITE_FULL
	e.writeMu.Lock()
	e.checkpoints.pass = endedPass()
	e.checkpoints.pass.err = &sqlite3.Error{Op: "checkpoint", Code: full, Message: "database or disk is full"}
	e.checkpoints.frames = startFramesLarge
	e.writeMu.Unlock()
	if err := insertBatch(t.Context(), e, plantsFrom(0, 1, "Rosa")); err != nil {
		t.Error(err)
	}
}

// TestDamage removes the tables of an open engine: every call returns ErrBroken, and a failed write leaves no
// transaction open.
func TestDamage(t *testing.T) {
	t.Parallel()
	e := openServer(t)
	other, err := sqlite3.Open(e.path)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(other.Exec("DROP TABLE plants; DROP TABLE tokens; DROP TABLE plantstore"), other.Close())
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	now := time.Now()
	for name, call := range map[string]func() error{
		"Insert":      func() error { return insertBatch(ctx, e, plantsFrom(0, 1, "Rosa")) },
		"Get":         func() error { _, err := e.Get(ctx, 1); return err },
		"List":        func() error { _, err := e.List(ctx, store.Query{Limit: 1, Tag: plant.Tagged("")}); return err },
		"CreateToken": func() error { _, err := e.CreateToken(ctx, auth.Token{CreatedAt: now}, audit.Origin{}); return err },
		"CreateFirstTokens": func() error {
			_, err := e.CreateFirstTokens(ctx, []auth.Token{{CreatedAt: now}}, audit.Origin{})
			return err
		},
		"RotateToken": func() error {
			_, _, err := e.RotateToken(ctx, auth.Token{CreatedAt: now}, 0, audit.Origin{})
			return err
		},
		"RevokeTokens": func() error {
			_, err := e.RevokeTokens(ctx, store.Selector{Name: "a"}, now, audit.Origin{})
			return err
		},
		"Tokens":   func() error { _, err := e.Tokens(ctx); return err },
		"State":    func() error { _, err := e.State(ctx); return err },
		"MarkUsed": func() error { return e.MarkUsed(ctx, []auth.Use{{TokenID: 1, At: now}}) },
	} {
		if err := call(); !errors.Is(err, store.ErrBroken) {
			t.Errorf("%s: %v, want it to wrap %v", name, err, store.ErrBroken)
		}
		if e.writer.InTransaction() {
			t.Errorf("%s left a transaction open", name)
		}
	}
}

// TestDamagedTokens shows the errors for tokens that Plant Store never writes.
func TestDamagedTokens(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ scopes, hash, want string }{
		{
			"plants:delete", "randomblob(32)",
			`token 1: unknown scope "plants:delete"; known scopes are plants:create, plants:read, admin, metrics`,
		},
		{"plants:create", "x'00'", "token 1: its hash has 1 bytes, want 32"},
	} {
		e := openServer(t)
		if err := e.writer.Exec("INSERT INTO tokens (name, hash, scopes, created_at) VALUES ('a', " +
			test.hash + ", '" + test.scopes + "', 0)"); err != nil {
			t.Fatal(err)
		}
		if _, err := e.Tokens(t.Context()); err == nil || err.Error() != test.want {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}

// TestBackgroundFails shows that the engine is broken after a failed checkpoint in the background.
func TestBackgroundFails(t *testing.T) {
	t.Parallel()
	e := openServer(t)
	c := &e.checkpoints
	e.writeMu.Lock()
	c.pass = endedPass()
	c.pass.err = store.ErrBroken
	c.frames = startFramesLarge
	e.writeMu.Unlock()
	if err := insertBatch(t.Context(), e, plantsFrom(0, 1, "Rosa")); !errors.Is(err, store.ErrBroken) {
		t.Errorf("got %v, want %v", err, store.ErrBroken)
	}
}

// TestCloseAfterBackgroundFailed shows that Close repeats no checkpoint that has failed in the background since the
// last batch.
func TestCloseAfterBackgroundFailed(t *testing.T) {
	t.Parallel()
	e := openServer(t)
	if err := insertBatch(t.Context(), e, plantsFrom(0, 1, "Rosa")); err != nil {
		t.Fatal(err)
	}
	e.writeMu.Lock()
	e.checkpoints.pass = endedPass()
	e.checkpoints.pass.err = store.ErrBroken
	e.writeMu.Unlock()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(e.path + "-wal"); err != nil || info.Size() == 0 {
		t.Errorf("the WAL after Close: %v, %v", info, err)
	}
}

// TestCommitAfterReaderEnded shows that no batch waits for the checkpoint of a WAL that exceeded its limit because of a
// reader.
func TestCommitAfterReaderEnded(t *testing.T) {
	t.Parallel()
	e := openServer(t)
	c := &e.checkpoints
	e.writeMu.Lock()
	c.frames = framesMax + startFramesLarge
	c.pass = endedPass()
	c.pass.blocked = true
	e.writeMu.Unlock()
	if err := e.checkpointIfDue(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	e.writeMu.Lock()
	if c.blockedFrames != c.frames || c.startFrames <= c.frames {
		t.Errorf("%d frames, %d blocked, the next checkpoint starts at %d", c.frames, c.blockedFrames, c.startFrames)
	}
	c.frames = c.startFrames
	running := &pass{done: make(chan struct{})} // the reader has ended
	c.pass = running
	e.writeMu.Unlock()
	if err := insertBatch(t.Context(), e, plantsFrom(0, 1, "Rosa")); err != nil { // must not wait for the checkpoint
		t.Fatal(err)
	}
	close(running.done)
	e.writeMu.Lock()
	c.frames = c.startFrames
	e.writeMu.Unlock()
	if err := e.checkpointIfDue(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	e.writeMu.Lock()
	defer e.writeMu.Unlock()
	if c.frames != 0 || c.blockedFrames != 0 {
		t.Errorf("after the checkpoint: %d frames, %d blocked", c.frames, c.blockedFrames)
	}
}

// TestOwnCommitIsNoReader starts a checkpoint while a read transaction like the writer's own pins the WAL: a short one
// does not count as a reader, a long one does.
func TestOwnCommitIsNoReader(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]bool{"short": true, "long": false} {
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
				if attempts++; attempts == 1 && ends {
					if err := reader.Exec("COMMIT"); err != nil {
						t.Error(err)
					}
				}
			})
			blocked, err := e.checkpoints.copyWAL()
			if err != nil || blocked == ends {
				t.Errorf("after %d attempts: blocked by a reader: %v, %v; want %v", attempts, blocked, err, !ends)
			}
		})
	}
}
