package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// A checkpoint copies the WAL into the file, so that the WAL can restart. No checkpoint runs inside a commit, because
// its random writes would delay the whole batch:
//
//   - When the WAL has startFrames, the server's second connection copies it in the background while commits continue,
//     and then the frames of these commits, until few are left. In a large file nearly every frame is a different page,
//     so waiting saves little, and small steps keep the WAL short. In a small file the frames repeat a few pages, and
//     only the last frame of a page is copied, so large steps save most copies.
//   - After that, the committer copies the remaining frames between two batches. The next commit then overwrites the
//     WAL from its start.
//   - If the WAL still reaches its limit, the committer waits for the background and copies the rest. But if a reader,
//     such as a backup, made the WAL grow, it may grow to three times that size, until the reader ends and the
//     background can copy it.
//
// No client waits for a command, so it has no background: it copies between its batches when the WAL reaches half of
// its limit.
const (
	frameBytes = 4096 + 24 // a page and its header, https://sqlite.org/fileformat2.html#walformat

	walBytesMax = 64 << 20 // size of the WAL, unless another process reads
	framesMax   = walBytesMax / frameBytes

	startFramesLarge = framesMax / 2 // in a file below largeFileBytes
	startFramesSmall = 2048
	largeFileBytes   = 128 << 20

	warnEvery = time.Minute
)

// checkpointer has the state of the checkpoints. Engine.writeMu guards it.
type checkpointer struct {
	startFrames   int       // length of the WAL at which the next checkpoint starts
	frames        int       // known length of the WAL
	blockedFrames int       // length of the WAL when a reader last blocked a checkpoint
	warnedAt      time.Time // last warning about a reader

	duration prometheus.Observer // observes each checkpoint; nil without metrics
	conn     *sqlite3.Conn       // runs the passes in the background; nil in a command
	pass     *pass               // the last one, until the committer has used its result
}

// pass is a checkpoint in the background.
type pass struct {
	done    chan struct{} // closed at its end
	blocked bool          // a reader blocked it; set at its end
	err     error         // set at its end
}

func (p *pass) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (e *Engine) startCheckpoints() (err error) {
	c := &e.checkpoints
	e.chooseStartFrames()
	if !e.server {
		return nil
	}
	if c.conn, err = sqlite3.OpenBuffered(e.path); err != nil { // release closes it
		return dbfile.OpenFault(e.path, err)
	}
	if err := c.conn.Exec(connectionSettings); err != nil {
		return err
	}
	_, err = c.conn.QueryInt("SELECT count(*) FROM sqlite_schema") // opens the WAL while a descriptor is free
	return err
}

func (c *checkpointer) start() {
	p := &pass{done: make(chan struct{})}
	c.pass = p
	go func() { // stop waits for it
		defer close(p.done)
		p.blocked, p.err = c.copyWAL()
	}()
}

// stop waits for the running pass.
func (c *checkpointer) stop() {
	if c.pass != nil {
		<-c.pass.done
	}
}

// checkpoint copies as many frames as possible without waiting, and measures the time.
func (c *checkpointer) checkpoint(conn *sqlite3.Conn) (frames, copied int, err error) {
	start := time.Now()
	frames, copied, err = conn.Checkpoint(sqlite3.Passive)
	if c.duration != nil {
		c.duration.Observe(time.Since(start).Seconds())
	}
	return frames, copied, err
}

// copyWAL copies the WAL, and then the frames that were added during the copy, until few are left for the committer. It
// reports whether a reader blocked it.
//
// During a commit the writer is a reader too, so its last frames cannot be copied for a moment. Only a reader that pins
// frames of the previous attempt counts.
func (c *checkpointer) copyWAL() (blocked bool, err error) {
	const fewFrames, attemptsMax, commitEnd = 256, 5, 10 * time.Millisecond
	before, seen := 0, 0 // frames copied, and frames in the WAL, at the previous attempt
	for range attemptsMax {
		frames, copied, err := c.checkpoint(c.conn)
		switch {
		case err != nil, copied < seen:
			return copied < frames, err
		case copied < frames:
			time.Sleep(commitEnd)
		case copied-before < fewFrames:
			return false, nil
		}
		before, seen = copied, frames
	}
	return false, nil
}

// checkpointIfDue is called before each batch; more is the number of frames that the batch may add. The error wraps
// store.ErrBusy if ctx ends while it waits for the background. Any other error means that the disk is not reliable.
func (e *Engine) checkpointIfDue(ctx context.Context, more int) error {
	for {
		running, err := e.checkpointOrWait(more)
		if running == nil {
			return err
		}
		select {
		case <-running.done:
		case <-ctx.Done():
			return fmt.Errorf("%w: the WAL is full and its checkpoint still runs: %w", store.ErrBusy, context.Cause(ctx))
		}
	}
}

// checkpointOrWait starts or finishes a checkpoint if one is due. It returns the running pass if the caller must wait
// for its end. The caller waits without writeMu, so that changes of tokens do not wait.
func (e *Engine) checkpointOrWait(more int) (*pass, error) {
	e.writeMu.Lock()
	defer e.writeMu.Unlock()
	if err := e.refusal(); err != nil {
		return nil, err
	}
	c := &e.checkpoints
	switch {
	case c.conn == nil && c.frames < startFramesLarge, c.frames < c.startFrames:
		return nil, nil
	case c.conn == nil:
		return nil, e.recordBroken(e.finishCheckpoint())
	}
	full := c.frames+more > framesMax+2*c.blockedFrames
	switch running := c.pass != nil && !c.pass.ended(); {
	case running && full:
		return c.pass, nil
	case running:
		return nil, nil
	case c.pass == nil && !full:
		c.start()
		return nil, nil
	}
	if last := c.pass; last != nil {
		c.pass = nil
		switch err := classify(last.err); {
		case errors.Is(err, store.ErrBroken): // a full disk may have free space later, and nothing is lost until then
			return nil, e.recordBroken(err)
		case last.blocked:
			e.blockedByReader()
			return nil, nil
		}
	}
	return nil, e.recordBroken(e.finishCheckpoint())
}

// chooseStartFrames sets the length of the WAL at which the next checkpoint starts.
func (e *Engine) chooseStartFrames() {
	c := &e.checkpoints
	c.startFrames = startFramesLarge
	if info, err := os.Stat(e.path); err != nil || info.Size() > largeFileBytes {
		c.startFrames = startFramesSmall
	}
}

// blockedByReader records that a reader of another process blocks the checkpoint. The next checkpoint starts when the
// WAL has grown by a step.
func (e *Engine) blockedByReader() {
	c := &e.checkpoints
	c.blockedFrames, c.startFrames = c.frames, c.frames+startFramesSmall
	if c.frames > framesMax && time.Since(c.warnedAt) > warnEvery {
		c.warnedAt = time.Now()
		e.log.Warn("a reader in another process blocks the checkpoint of the WAL", "bytes", int64(c.frames)*frameBytes)
	}
}

// finishCheckpoint copies the remaining frames of the WAL. No reader of this process blocks it.
func (e *Engine) finishCheckpoint() error {
	c := &e.checkpoints
	e.readMu.Lock()
	frames, copied, err := c.checkpoint(e.writer)
	e.readMu.Unlock()
	switch {
	case err == nil && frames == copied:
		c.frames, c.blockedFrames = 0, 0
		e.chooseStartFrames()
	case err == nil, sqlite3.IsBusy(err):
		e.blockedByReader()
	case errors.Is(classify(err), store.ErrFull):
		e.log.Warn("no space left for a checkpoint of the WAL", "error", err)
	default:
		return fmt.Errorf("checkpoint: %w", classify(err))
	}
	return nil
}

// framesOf estimates how many frames a batch adds to the WAL, at most: a page and a split page for each plant, and the
// pages of long texts, twice for the journal.
func framesOf(batch []store.Create) int {
	bytes := 0
	for i := range batch {
		bytes += batch[i].Plant.Bytes()
	}
	return 2*len(batch) + 2*bytes/4096 + 64
}
