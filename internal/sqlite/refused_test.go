package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// TestIgnoredInsert shows that a plant that SQLite neither inserts nor finds is damage.
func TestIgnoredInsert(t *testing.T) {
	t.Parallel()
	e, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "p.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer e.release()
	other, err := sqlite3.Open(e.path)
	if err == nil {
		const ignore = "CREATE TRIGGER t BEFORE INSERT ON plants BEGIN SELECT RAISE(IGNORE); END"
		err = errors.Join(other.Exec(ignore), other.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	err = insertBatch(t.Context(), e, plantsFrom(7, 1, "Rosa"))
	const want = "read plant 7: the store failed: SQLite neither inserted nor found it"
	if !errors.Is(err, store.ErrBroken) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestCheckpointWait shows that a batch that waits for a checkpoint in the background ends with its context, does not
// block changes of tokens, and continues after the checkpoint.
func TestCheckpointWait(t *testing.T) {
	t.Parallel()
	e := openServer(t)
	c := &e.checkpoints
	e.writeMu.Lock()
	c.frames = framesMax + 1
	running := &pass{done: make(chan struct{})}
	c.pass = running
	e.writeMu.Unlock()

	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	err := insertBatch(ctx, e, plantsFrom(0, 1, "Rosa"))
	if !errors.Is(err, store.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v and %v", err, store.ErrBusy, context.DeadlineExceeded)
	}

	inserted := make(chan error, 1)
	go func() { inserted <- insertBatch(t.Context(), e, plantsFrom(0, 1, "Rosa")) }() // ends below
	beside := auth.Token{Name: "beside", CreatedAt: time.Unix(0, 0)}
	if _, err := e.CreateToken(t.Context(), beside, audit.Origin{}); err != nil {
		t.Errorf("CreateToken while a batch waits: %v", err)
	}
	e.writeMu.Lock()
	c.frames = framesMax + 1 // the commit of the token has changed it
	e.writeMu.Unlock()
	close(running.done)
	if err := <-inserted; err != nil {
		t.Errorf("after the checkpoint: %v", err)
	}
}
