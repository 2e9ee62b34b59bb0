package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/safefile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// errReadOnly is the error of every write of a read-only engine.
var errReadOnly = errors.New("the store is open for reading only")

// writeStmts are the prepared statements of every batch.
type writeStmts struct {
	insert, stored, moveState, commits, count *sqlite3.Stmt

	event *sqlite3.Stmt // nil until a batch writes events
}

// added is the change of the state by a transaction; moveState is nil if the transaction
// does not set it.
type added struct {
	plants, digests int64
	moveState       *store.MoveState
}

func (s *writeStmts) prepare(c *sqlite3.Conn) error {
	for _, p := range []struct {
		stmt **sqlite3.Stmt
		sql  string
	}{
		{&s.insert, "INSERT INTO plants (id, name, tag, created_at, created_by, digest) VALUES (?, ?, ?, ?, ?, ?) " +
			"ON CONFLICT DO NOTHING"},
		{&s.stored, "SELECT name, tag FROM plants WHERE id = ?"},
		{&s.moveState, "SELECT coalesce(held, ''), coalesce(webhooks, 0) FROM state"},
		{&s.commits, "SELECT commits FROM state"},
		{&s.count, "UPDATE state SET commits = ?, plants = plants + ?, digests = digests + ?"},
	} {
		stmt, err := c.Prepare(p.sql)
		if err != nil {
			return err
		}
		*p.stmt = stmt
	}
	return nil
}

func (s *writeStmts) close() {
	for _, stmt := range []*sqlite3.Stmt{s.insert, s.stored, s.moveState, s.commits, s.count, s.event} {
		stmt.Close()
	}
}

// Insert implements writepath.Engine.
func (e *Engine) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	err := traced(ctx, "checkpoint if due", func() error { return e.checkpointIfDue(ctx, framesOf(batch)) })
	if err != nil {
		return nil, err
	}
	outcomes := make([]store.Outcome, len(batch))
	events := false
	err = e.write(ctx, func() (err error) {
		e.order = store.OrderByID(e.order[:0], batch) // so that the pages of the table are visited in order
		for _, i := range e.order {
			if outcomes[i], err = e.insertOne(&batch[i]); err != nil {
				return err
			}
		}
		if e.added.plants == 0 {
			return nil
		}
		if events, err = e.checkBatch(); err == nil && events {
			err = e.writeEvents(batch, outcomes)
		}
		return err
	})
	if err == nil && events {
		e.signalEvents()
	}
	if err == nil && !slices.ContainsFunc(outcomes, store.Outcome.Created) {
		// The transaction wrote nothing, so SQLite synced nothing, but the replayed
		// plants must be durable.
		err = traced(ctx, "sync WAL", e.syncWAL)
	}
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// Probe implements writepath.Engine.
func (e *Engine) Probe(ctx context.Context) error {
	if err := e.checkpointIfDue(ctx, framesOf(nil)); err != nil {
		return err
	}
	return e.write(ctx, func() error {
		if err := e.checkWritable(); err != nil {
			return err
		}
		return e.run("UPDATE state SET plants = plants")
	})
}

// insertOne stores a plant, or compares it with the stored one.
func (e *Engine) insertOne(c *store.Create) (store.Outcome, error) {
	s := e.stmts.insert
	at := c.At.UnixMicro()
	digest := e.digests.Plant(&c.Plant, c.At, c.By)
	s.BindInt64(1, c.Plant.ID)
	s.BindText(2, c.Plant.Name)
	if tag, ok := c.Plant.Tag.Get(); ok {
		s.BindText(3, tag)
	} else {
		s.BindNull(3)
	}
	s.BindInt64(4, at)
	s.BindInt64(5, c.By)
	s.BindInt64(6, digest)
	if err := s.Run(); err != nil {
		return store.Outcome{}, err
	}
	if e.writer.Changes() > 0 {
		e.added.plants++
		e.added.digests += digest
		return store.Outcome{}, nil
	}
	stored, err := e.storedPlant(c.Plant.ID)
	if err != nil {
		return store.Outcome{}, err
	}
	conflict := plant.Differences(c.Plant.Plant, stored)
	return store.Outcome{Replayed: conflict == nil, Conflict: conflict}, nil
}

func (e *Engine) storedPlant(id int64) (plant.Plant, error) {
	s := e.stmts.stored
	defer s.Reset()
	s.BindInt64(1, id)
	ok, err := s.Step()
	if err == nil && !ok {
		err = fmt.Errorf("%w: SQLite neither inserted nor found it", store.ErrBroken)
	}
	if err != nil {
		return plant.Plant{}, fmt.Errorf("read plant %d: %w", id, err)
	}
	return plant.Plant{Name: s.Text(0), Tag: tagColumn(s, 1)}, nil
}

func tagColumn(s *sqlite3.Stmt, column int) plant.Tag {
	if s.Null(column) {
		return plant.Tag{}
	}
	return plant.Tagged(s.Text(column))
}

// write runs change in a transaction. An error means that it changed nothing, unless the
// error wraps store.ErrOutcomeUnknown.
func (e *Engine) write(ctx context.Context, change func() error) error {
	e.writeMu.Lock()
	defer e.writeMu.Unlock()
	if e.broken != nil {
		return e.broken
	}
	if err := traced(ctx, "write ticket", func() error { return e.lockTicket(ctx) }); err != nil {
		return err
	}
	defer e.unlockTicket()
	return e.recordBroken(e.transact(ctx, change))
}

// recordBroken refuses all later writes after an error that wraps store.ErrBroken: after a
// failed fsync, a later fsync can succeed without the data. The error of the later writes
// does not wrap store.ErrOutcomeUnknown.
func (e *Engine) recordBroken(err error) error {
	if errors.Is(err, store.ErrBroken) && e.broken == nil {
		e.broken = fmt.Errorf("%w: the log has an earlier error", store.ErrBroken)
	}
	return err
}

func (e *Engine) transact(ctx context.Context, change func() error) error {
	if err := traced(ctx, "BEGIN", func() error { return e.begin(ctx) }); err != nil {
		return err
	}
	before := e.writer.TotalChanges()
	e.added = added{}
	err := traced(ctx, "statements", change)
	commits := int64(0)
	if err == nil && e.writer.TotalChanges() > before {
		commits, err = e.countCommit()
	}
	if err != nil {
		return errors.Join(classify(err), e.rollback())
	}
	err = traced(ctx, "COMMIT", func() error { return e.writer.Exec("COMMIT") })
	if err == nil {
		e.checkpoints.frames = e.writer.WALFrames()
		e.updateMark(commits)
		if e.added.moveState != nil {
			e.ownMoveState = *e.added.moveState
		}
		return nil
	}
	err = classify(err)
	if errors.Is(err, store.ErrFull) && !e.writer.InTransaction() && e.writer.CommitCut() {
		return err // SQLite has rolled back, and the WAL lacks the end of the commit
	}
	// The frames of the commit may be on the disk. The engine never repeats a failed
	// fsync; the next process recovers the store.
	err = fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, err)
	return errors.Join(err, e.rollback())
}

// countCommit adds the changes of a transaction to the state, and returns the number of its
// commit; 0 if there is no state yet.
func (e *Engine) countCommit() (int64, error) {
	if e.stmts.count == nil { // the transaction creates the tables
		return 0, nil
	}
	defer e.stmts.commits.Reset()
	ok, err := e.stmts.commits.Step()
	if err == nil && !ok {
		err = errNoState
	}
	if err != nil {
		return 0, err
	}
	n := e.stmts.commits.Int64(0) + 1
	s := e.stmts.count
	s.BindInt64(1, n)
	s.BindInt64(2, e.added.plants)
	s.BindInt64(3, e.added.digests)
	return n, s.Run()
}

// updateMark writes the commit mark. The commit is durable without it.
func (e *Engine) updateMark(number int64) {
	if number == 0 {
		return
	}
	if err := e.writeMark(number); err != nil && time.Since(e.markWarnedAt) > warnEvery {
		e.markWarnedAt = time.Now()
		e.log.Warn("could not write the commit mark; plants are still stored", "error", err)
	}
}

// lockTicket waits until this process may write. Between two writes, a command leaves a
// server as much time as its own write took.
func (e *Engine) lockTicket(ctx context.Context) error {
	if e.server {
		return e.ticket.waitForCommands(ctx)
	}
	if rest := time.Until(e.yieldUntil); rest > 0 && served(e.path) {
		if err := pause(ctx, rest); err != nil {
			return err
		}
	}
	if err := e.ticket.lock(ctx); err != nil {
		return err
	}
	e.ticketLockedAt = time.Now()
	if err := e.checkNotReplaced(); err != nil {
		e.unlockTicket()
		return err
	}
	return nil
}

func (e *Engine) unlockTicket() {
	if e.server {
		return
	}
	took := time.Since(e.ticketLockedAt)
	e.yieldUntil = time.Now().Add(max(took, commandPoll))
	if err := e.ticket.unlock(); err != nil {
		e.log.Warn("could not unlock the write ticket", "error", err)
	}
}

// begin waits for SQLite's write lock, which a command may have locked for a batch.
func (e *Engine) begin(ctx context.Context) error {
	for {
		err := e.writer.Exec("BEGIN IMMEDIATE")
		if err == nil || !isBusy(err) {
			return classify(err)
		}
		if err := pause(ctx, commandPoll); err != nil {
			return err
		}
	}
}

// rollback ends a failed transaction, unless the failure has ended it.
func (e *Engine) rollback() error {
	if !e.writer.InTransaction() {
		return nil
	}
	if err := e.writer.Exec("ROLLBACK"); err != nil {
		return fmt.Errorf("%w: roll back: %w", store.ErrBroken, err)
	}
	return nil
}

// classify wraps an error of SQLite in the matching error of package store.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var fault *sqlite3.Error
	switch {
	case !errors.As(err, &fault):
		return err
	case fault.Busy():
		return fmt.Errorf("%w: %w", store.ErrBusy, err)
	case fault.Full():
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case fault.Interrupted():
		return err
	default: // I/O errors, damage and unexpected errors
		return fmt.Errorf("%w: %w", store.ErrBroken, err)
	}
}

// diskFault wraps the error of a full disk in store.ErrFull, and the error of a failed disk or a
// damaged file in store.ErrBroken.
func diskFault(err error) error {
	var fault *sqlite3.Error
	isFault := errors.As(err, &fault)
	kind := error(nil)
	switch {
	case isFault && fault.Full():
		kind = store.ErrFull
	case isFault && (fault.IO() || fault.Corrupt()), errors.Is(err, syscall.EIO):
		kind = store.ErrBroken
	}
	if kind == nil || errors.Is(err, kind) {
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}

// openWAL opens a descriptor of the WAL for syncWAL, at the start, so that a replay needs no
// free descriptor. The descriptor stays valid: while a connection is open, SQLite truncates
// or overwrites the WAL in place, and removes it only with the last connection
// (https://sqlite.org/walformat.html, "Lifecycles"). SQLite has no locks on the WAL, so
// closing the descriptor releases none.
func (e *Engine) openWAL() (err error) {
	if e.wal, err = safefile.OpenRegular(e.path+"-wal", os.O_RDONLY, 0); err != nil {
		return fmt.Errorf("open the WAL: %w", err)
	}
	return nil
}

// syncWAL syncs the WAL after a batch that wrote nothing.
func (e *Engine) syncWAL() error {
	e.writeMu.Lock()
	defer e.writeMu.Unlock()
	if e.broken != nil { // a commit has failed since the batch: a second sync could succeed without its data
		return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, e.broken)
	}
	if err := e.wal.Sync(); err != nil {
		return e.recordBroken(fmt.Errorf("%w: %w: sync the WAL: %w", store.ErrOutcomeUnknown, store.ErrBroken, err))
	}
	return nil
}
