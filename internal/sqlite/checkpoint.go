package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// Checkpoints copy the WAL into the file, so that the WAL can begin anew. They
// never run inside a commit, which would make everybody in its batch wait for
// random writes:
//
//   - When the WAL has startFrames, the server's second connection copies it
//     in the background, while commits go on; then what they added meanwhile,
//     until little is left. In a large file nearly every frame is another page,
//     so little is saved by waiting, and small steps keep the WAL short. In a
//     small file the frames are a few pages over and over, of which only the
//     last is copied, so large steps save most of the copying.
//   - When that is done, the committer copies, between two batches, the little
//     that was added meanwhile. Now all is copied, and the next commit
//     overwrites the WAL from its start instead of making it longer.
//   - When the WAL nears its bound all the same, the committer waits for the
//     background and copies the rest. But if it grew because somebody was
//     reading, a backup above all, it is copied in the background once the
//     reader has left, and may grow meanwhile to three times what it was then.
//
// A command has no background, and nobody who waits: it copies between its own
// batches, when the WAL has come half way to its bound.
const (
	frameBytes = 4096 + 24 // a page and its header, https://sqlite.org/fileformat2.html#walformat

	startFramesLarge = 8192 // in a file below largeFileBytes
	startFramesSmall = 2048
	largeFileBytes   = 128 << 20

	warnEvery = time.Minute

	// WALBytesDefault is the bound of the WAL if none is set.
	WALBytesDefault = 64 << 20
	// WALBytesMin is the smallest bound that leaves room for a full batch.
	WALBytesMin = 32 << 20
)

type checkpointer struct {
	framesMax   int
	startFrames int       // when the next checkpoint begins; guarded by Engine.writeMu
	frames      int       // that the WAL holds, as far as known; guarded by Engine.writeMu
	held        int       // how many of these there were when a reader last kept them; guarded by Engine.writeMu
	warnedAt    time.Time // when a warning was last logged; guarded by Engine.writeMu

	took prometheus.Observer // of each checkpoint; nil if nobody measures

	conn *sqlite3.Conn // the background's own; nil in a command
	kick chan struct{}
	done chan struct{} // closed when the background has ended

	mu      sync.Mutex
	idle    chan struct{} // closed when running becomes false, and replaced; guarded by mu
	running bool          // guarded by mu
	passed  bool          // a background pass ended since the committer last looked; guarded by mu
	left    bool          // that pass could not copy all, because of a reader; guarded by mu
	err     error         // what stopped the background; guarded by mu
}

// checkWALBytes sets the bound of the WAL if none is set, and returns an error
// if it is too small.
func (c *Config) checkWALBytes() error {
	c.WALMax = cmp.Or(c.WALMax, WALBytesDefault)
	if c.WALMax < WALBytesMin {
		return fmt.Errorf("WALMax is %d bytes; it must be at least %d", c.WALMax, WALBytesMin)
	}
	return nil
}

func (e *Engine) startCheckpoints(bytesMax int64) error {
	c := &e.checkpoints
	c.framesMax = int(bytesMax / frameBytes)
	c.idle = make(chan struct{})
	e.chooseStep()
	if !e.server {
		return nil
	}
	conn, err := sqlite3.OpenBuffered(e.path)
	if err != nil {
		return openFault(e.path, err)
	}
	if err = conn.Exec(connectionSettings); err == nil {
		_, err = conn.QueryInt("SELECT count(*) FROM sqlite_schema") // opens the WAL: later no descriptor may be free
	}
	if err != nil {
		_ = conn.Close() // the first error is the one that tells
		return err
	}
	c.conn, c.kick, c.done = conn, make(chan struct{}, 1), make(chan struct{})
	go c.background() // ends when stop is called, which waits for it
	return nil
}

// stop ends the background. Its connection is closed with the engine's others.
func (c *checkpointer) stop() {
	if c.kick != nil {
		close(c.kick)
		<-c.done
	}
}

func (c *checkpointer) background() {
	defer close(c.done)
	for range c.kick {
		c.ended(c.pass())
	}
}

// ended notes how a pass of the background ended.
func (c *checkpointer) ended(left bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running, c.passed, c.left = false, true, left
	// A disk that is full may have room again, and nothing is lost meanwhile.
	if err = classify(err); errors.Is(err, store.ErrBroken) {
		c.err = err
	}
	close(c.idle)
	c.idle = make(chan struct{})
}

// checkpoint copies what it can without waiting, and measures that.
func (c *checkpointer) checkpoint(conn *sqlite3.Conn) (frames, copied int, err error) {
	begun := time.Now()
	frames, copied, err = conn.Checkpoint(sqlite3.Passive)
	if c.took != nil {
		c.took.Observe(time.Since(begun).Seconds())
	}
	return frames, copied, err
}

// pass copies the WAL, and then what was added to it meanwhile, as long as
// that is much: the committer should find little left. It reports whether a
// reader kept it from copying all.
//
// The writer is a reader, too, until its commit has ended: what its last commit
// added may not be copied for a moment after everybody sees it. So a reader
// is one who still keeps what was there an attempt ago.
func (c *checkpointer) pass() (left bool, err error) {
	const littleFrames, passesMax, commitEnd = 256, 5, 10 * time.Millisecond
	before, seen := 0, 0 // what was copied, and what was there, an attempt ago
	for range passesMax {
		frames, copied, err := c.checkpoint(c.conn)
		switch {
		case err != nil, copied < seen:
			return copied < frames, err
		case copied < frames:
			time.Sleep(commitEnd)
		case copied-before < littleFrames:
			return false, nil
		}
		before, seen = copied, frames
	}
	return false, nil
}

// checkpointIfDue is called between two batches, before one that is estimated
// to add so many frames. The error wraps store.ErrBusy if a background pass that
// had to be waited for did not end before ctx; any other means that the disk can
// no longer be trusted.
func (e *Engine) checkpointIfDue(ctx context.Context, more int) error {
	for {
		pass, err := e.checkpointOrWait(more)
		if pass == nil {
			return err
		}
		select {
		case <-pass:
		case <-ctx.Done():
			return fmt.Errorf("%w: the WAL is full and its checkpoint still runs: %w", store.ErrBusy, context.Cause(ctx))
		}
	}
}

// checkpointOrWait does what is due. If that is to wait for the background, it
// returns a channel that is closed when the background pass has ended: the caller
// waits without writeMu, which tokens are changed under, too.
func (e *Engine) checkpointOrWait(more int) (pass <-chan struct{}, err error) {
	e.writeMu.Lock()
	defer e.writeMu.Unlock()
	c := &e.checkpoints
	switch {
	case e.broken != nil:
		return nil, e.broken
	case c.conn == nil && c.frames < c.framesMax/2, c.frames < c.startFrames:
		return nil, nil
	case c.conn == nil:
		return nil, e.noteBroken(e.finishCheckpoint())
	}
	c.mu.Lock()
	full := c.frames+more > c.framesMax+2*c.held
	if full && c.running {
		defer c.mu.Unlock()
		return c.idle, nil
	}
	err, passed, left := c.err, c.passed, c.left
	c.passed = false
	if !passed && !full && !c.running {
		c.running = true
		c.kick <- struct{}{} // has room: nothing is running
	}
	c.mu.Unlock()
	switch {
	case err != nil:
		return nil, e.noteBroken(err)
	case passed && left:
		e.noteReader()
		return nil, nil
	case passed, full:
		return nil, e.noteBroken(e.finishCheckpoint())
	}
	return nil, nil
}

// chooseStep sets when the next checkpoint begins.
func (e *Engine) chooseStep() {
	c := &e.checkpoints
	c.startFrames = min(startFramesLarge, c.framesMax/2)
	if info, err := os.Stat(e.path); err != nil || info.Size() > largeFileBytes {
		c.startFrames = startFramesSmall
	}
}

// noteReader notes that a reader, which is of another process, keeps a
// checkpoint from copying all. The WAL grows on, and the next checkpoint tries
// again when it has grown by a step.
func (e *Engine) noteReader() {
	c := &e.checkpoints
	c.held, c.startFrames = c.frames, c.frames+startFramesSmall
	if c.frames > c.framesMax && time.Since(c.warnedAt) > warnEvery {
		c.warnedAt = time.Now()
		e.log.Warn("a reader in another process blocks the checkpoint of the WAL", "bytes", int64(c.frames)*frameBytes)
	}
}

// finishCheckpoint copies what the WAL still holds and nobody reads, this process
// included.
func (e *Engine) finishCheckpoint() error {
	c := &e.checkpoints
	e.readMu.Lock()
	frames, copied, err := c.checkpoint(e.writer)
	e.readMu.Unlock()
	switch {
	case err == nil && frames == copied:
		c.frames, c.held = 0, 0
		e.chooseStep()
	case err == nil, isBusy(err):
		e.noteReader()
	case errors.Is(classify(err), store.ErrFull):
		e.log.Warn("no space left for a checkpoint of the WAL", "error", err)
	default:
		return fmt.Errorf("checkpoint: %w", classify(err))
	}
	return nil
}

// framesOf estimates, from above, how many frames a batch adds to the WAL: for
// each plant its page and one that a split adds, and the pages of long texts.
func framesOf(batch []store.Create) int {
	bytes := 0
	for i := range batch {
		bytes += batch[i].Plant.Bytes()
	}
	return 2*len(batch) + bytes/4096 + 64
}
