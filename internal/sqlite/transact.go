package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"plantstore/internal/safefile"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/journal"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// transaction is the current transaction: its number as a commit, the row of state at its start, and its changes of
// that row. It is the zero value in the transaction that creates the tables.
type transaction struct {
	commit   int64
	webhooks bool // a webhook is active

	history  journal.History // after the last commit; after this one, once it is recorded
	recorded bool            // in the journal; else the zero history is stored as NULL
	changes  []byte          // for the journal
	journal  int64           // bytes of the changes in the journal; after this transaction, once it is recorded
	at       int64           // time of the last recorded commit, in microseconds; of this one, once it is recorded

	plants, digests int64 // added
}

// write runs a change of rows, but not of plants, in a transaction. An error means that it changed nothing, unless
// the error wraps store.ErrOutcomeUnknown.
func (e *Engine) write(ctx context.Context, change func() error) error {
	const frames = 4 * store.ChangeMax // pages of a row in a table, its indexes and the journal
	// It does not wait for the background, because the revocation of a token must not.
	if _, err := e.checkpointOrWait(frames); err != nil {
		return err
	}
	return e.run(ctx, func() error { return e.recordRows(change) })
}

// run is write for a change that sets the changes of the current transaction itself.
func (e *Engine) run(ctx context.Context, change func() error) error {
	e.writeMu.Lock()
	defer e.writeMu.Unlock()
	if err := e.refusal(); err != nil {
		return err
	}
	if err := traced(ctx, "write ticket", func() error { return e.lockTicket(ctx) }); err != nil {
		return err
	}
	defer e.unlockTicket()
	return e.recordBroken(e.transact(ctx, change))
}

// refusal returns why the engine must not write. The caller has locked writeMu.
func (e *Engine) refusal() error {
	if e.mayWrite != nil {
		if err := e.mayWrite(); err != nil {
			return err
		}
	}
	return e.broken
}

// recordBroken makes the engine refuse all later writes after an error that wraps store.ErrBroken: after a failed
// fsync, the next one can succeed although data is lost. The later writes did not start, so their error does not wrap
// store.ErrOutcomeUnknown.
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
	err := e.readState()
	if err == nil {
		err = traced(ctx, "statements", change)
	}
	changed := e.writer.TotalChanges() > before
	if err == nil && changed {
		err = e.countCommit()
	}
	if err != nil {
		return errors.Join(classify(err), e.rollback())
	}
	err = traced(ctx, "COMMIT", func() error { return e.writer.Exec("COMMIT") })
	if err == nil {
		e.checkpoints.frames = e.writer.WALFrames()
		if changed {
			if err := e.checkKept(false); err != nil {
				return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, err)
			}
			e.updateMark(e.current.commit)
		}
		return nil
	}
	err = classify(err)
	if errors.Is(err, store.ErrFull) && !e.writer.InTransaction() && e.writer.CommitCut() {
		return err // SQLite rolled back, and the commit in the WAL is incomplete
	}
	// The commit may be on the disk. The engine never repeats a failed fsync; the next process recovers the store.
	err = fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, err)
	return errors.Join(err, e.rollback())
}

// readState starts the current transaction.
func (e *Engine) readState() error {
	e.current = transaction{}
	s := e.stmts.state
	if s == nil { // the transaction creates the tables
		return nil
	}
	defer s.Reset()
	ok, err := s.Step()
	if err == nil && !ok {
		err = store.ErrNoRow
	}
	if err == nil {
		e.current = transaction{
			commit: s.Int64(0) + 1, webhooks: s.Int64(1) != 0,
			history: journal.HistoryFrom(s.Bytes(2)), recorded: !s.Null(2), journal: s.Int64(3), at: s.Int64(4),
		}
	}
	return err
}

// countCommit stores the current transaction in the journal, and its changes in the state.
func (e *Engine) countCommit() error {
	s := e.stmts.count
	if s == nil { // the transaction creates the tables
		return nil
	}
	if err := e.recordCommit(); err != nil {
		return err
	}
	s.BindInt64(1, e.current.commit)
	s.BindInt64(2, e.current.plants)
	s.BindInt64(3, e.current.digests)
	if e.current.history == (journal.History{}) {
		s.BindNull(4)
	} else {
		s.BindBlob(4, e.current.history[:])
	}
	s.BindInt64(5, e.current.journal)
	s.BindInt64(6, e.current.at)
	return s.Run()
}

// updateMark writes the commit mark. The commit is durable without it.
func (e *Engine) updateMark(number int64) {
	if number == 0 {
		return
	}
	if err := e.mark.Write(number); err != nil && time.Since(e.markWarnedAt) > warnEvery {
		e.markWarnedAt = time.Now()
		e.log.Warn("could not write the commit mark; plants are still stored", "error", err)
	}
}

// lockTicket waits until this process may write.
func (e *Engine) lockTicket(ctx context.Context) error {
	if e.server {
		return e.ticket.WaitForCommands(ctx)
	}
	if err := e.ticket.Lock(ctx); err != nil {
		return err
	}
	if err := e.checkNotReplaced(); err != nil {
		e.unlockTicket()
		return err
	}
	return nil
}

func (e *Engine) unlockTicket() {
	if !e.server {
		_ = e.ticket.Unlock() // fails only for a closed file
	}
}

// begin waits for SQLite's write lock, which a command may hold for a batch.
func (e *Engine) begin(ctx context.Context) error {
	for {
		err := e.writer.Exec("BEGIN IMMEDIATE")
		if err == nil || !sqlite3.IsBusy(err) {
			return classify(err)
		}
		if err := dbfile.Pause(ctx, dbfile.CommandPoll); err != nil {
			return err
		}
	}
}

// rollback ends a failed transaction, unless SQLite has already rolled it back.
func (e *Engine) rollback() error {
	if !e.writer.InTransaction() {
		return nil
	}
	if err := e.writer.Exec("ROLLBACK"); err != nil {
		return fmt.Errorf("%w: roll back: %w", store.ErrBroken, err)
	}
	return nil
}

// openWAL opens the WAL for syncWAL in advance, so that a replay needs no free descriptor. The descriptor stays valid:
// SQLite truncates or overwrites the WAL in place, and removes it only when the last connection closes
// (https://sqlite.org/walformat.html, "Lifecycles"). SQLite locks other files, so closing the descriptor releases no
// lock of SQLite.
func (e *Engine) openWAL() (err error) {
	if e.wal, err = safefile.OpenRegular(e.path+"-wal", os.O_RDONLY, 0); err != nil {
		return fmt.Errorf("open the WAL: %w", err)
	}
	return errors.Join(e.placeBeside(walSuffix), e.placeBeside("-shm"))
}

// syncWAL syncs the WAL after a batch that wrote nothing.
func (e *Engine) syncWAL() error {
	e.writeMu.Lock()
	defer e.writeMu.Unlock()
	if e.broken != nil { // a commit failed after the batch: a second sync could succeed without its data
		return fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, e.broken)
	}
	if err := e.wal.Sync(); err != nil {
		return e.recordBroken(fmt.Errorf("%w: %w: sync the WAL: %w", store.ErrOutcomeUnknown, store.ErrBroken, err))
	}
	if err := e.checkKept(false); err != nil {
		return e.recordBroken(fmt.Errorf("%w: %w", store.ErrOutcomeUnknown, err))
	}
	return nil
}
