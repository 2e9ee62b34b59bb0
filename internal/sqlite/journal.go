package sqlite

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"time"

	"plantstore/internal/sqlite/journal"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// This file records the commits of a store in its table plantstore_journal, in their own transactions, from where a
// server copies them to the destination of the backups. Commands record theirs too, also without a server.

// journalBytesMax bounds the changes in the journal. A commit that finds more of them starts a new history, which a
// copy can continue only after the next backup.
const journalBytesMax = 1 << 30

// recorder is the part of an Engine that records commits; guarded by writeMu, except for trimTo.
type recorder struct {
	trimTo  atomic.Int64 // the last commit that the journal may forget
	trimmed int64        // the last commit that it has forgotten
	warned  bool         // that the journal was full

	bytesMax int64 // journalBytesMax, except in tests

	created []*store.Create // scratch of recordPlants
	changes []byte          // scratch of recordPlants
}

// recordedTables are the tables with the rows that recordRows records: all but the journal.
var recordedTables = []string{
	"plants", "tokens", "plantstore", "plantstore_audit", "plantstore_webhooks", "plantstore_outbox",
	"plantstore_deliveries",
}

// recordRows runs a change of rows, and records it as the changes of the current transaction.
func (e *Engine) recordRows(change func() error) error {
	if !e.current.recorded {
		return change()
	}
	session, err := e.writer.Record(recordedTables...)
	if err != nil {
		return err
	}
	defer session.Close()
	if err := change(); err != nil {
		return err
	}
	patchset, err := session.Patchset()
	e.current.changes = journal.ChangedRows(patchset)
	return err
}

// recordPlants records the created plants of a batch as the changes of the current transaction: in e.order, which
// takes less space, or in the order of their events.
func (e *Engine) recordPlants(batch []store.Create, outcomes []store.Outcome, events bool) {
	r := &e.recorder
	r.created = r.created[:0]
	for i, sorted := range e.order {
		if !events {
			i = int(sorted)
		}
		if outcomes[i].Created() {
			r.created = append(r.created, &batch[i])
		}
	}
	r.changes = journal.AppendPlants(r.changes[:0], r.created, e.current.digests, events)
	clear(r.created)
	e.current.changes = r.changes
}

// recordCommit appends the current transaction to the journal. Its time is the last commit's if the clock was set
// back since then.
func (e *Engine) recordCommit() error {
	t := &e.current
	if !t.recorded {
		return nil
	}
	t.at = max(time.Now().UnixMicro(), t.at)
	c := journal.Commit{Number: t.commit, At: time.UnixMicro(t.at), Changes: t.changes}
	const sql = "INSERT INTO plantstore_journal (number, at, changes, previous) VALUES (?, ?, ?, ?)"
	if err := e.writer.Run(sql, c.Number, c.At, c.Changes, t.history[:]); err != nil {
		return err
	}
	t.history = t.history.After(&c)
	t.journal += int64(len(c.Changes))
	if err := e.boundJournal(c.Number); err != nil {
		return err
	}
	return e.trimJournal()
}

// boundJournal starts a new history if the journal is full and nothing else can be trimmed.
func (e *Engine) boundJournal(commit int64) (err error) {
	r := &e.recorder
	if e.current.journal <= r.bytesMax || r.trimmed < r.trimTo.Load() {
		return nil
	}
	if !r.warned {
		r.warned = true
		e.log.Warn("the journal is full: the copy has a gap until the next backup", "bytes", e.current.journal)
	}
	_, _ = rand.Read(e.current.history[:]) // never fails
	e.TrimJournal(commit)
	r.trimmed, err = e.writer.QueryInt(beforeJournal)
	return err
}

// beforeJournal returns the number of the commit before the journal; 0 if the journal is empty.
const beforeJournal = "SELECT coalesce(min(number), 1) - 1 FROM plantstore_journal"

// trimJournal removes commits that a copy has, only some at a time, so that the current transaction stays short.
func (e *Engine) trimJournal() error {
	const most, bytesMost = 64, 4 << 20
	r := &e.recorder
	to := min(r.trimTo.Load(), r.trimmed+most)
	if to <= r.trimmed {
		return nil
	}
	bytes := int64(0)
	const sql = "SELECT number, length(changes) FROM plantstore_journal WHERE number <= ? ORDER BY number"
	for s, err := range e.writer.Rows(sql, to) {
		if err != nil {
			return err
		}
		if bytes >= bytesMost {
			to = s.Int64(0) - 1
			break
		}
		bytes += s.Int64(1)
	}
	r.trimmed = to
	e.current.journal -= bytes
	return e.writer.Run("DELETE FROM plantstore_journal WHERE number <= ?", to)
}

// StartJournal makes each later commit record its changes, until StopJournal. It returns the number of the last commit
// and the history after it.
func (e *Engine) StartJournal(ctx context.Context) (commits int64, history journal.History, err error) {
	err = e.write(ctx, func() error {
		if e.recorder.trimmed, err = e.writer.QueryInt(beforeJournal); err != nil {
			return err
		}
		commits, history = e.current.commit-1, e.current.history
		if e.current.recorded {
			return nil
		}
		_, _ = rand.Read(e.current.history[:])                   // never fails
		e.current.at = max(time.Now().UnixMicro(), e.current.at) // not before the commits that were not recorded
		commits, history = e.current.commit, e.current.history
		return e.writer.Run("UPDATE plantstore SET history = ?", history[:])
	})
	return commits, history, err
}

// StopJournal makes the store forget its history and its journal, if it has one.
func (e *Engine) StopJournal(ctx context.Context) error {
	history, err := query(ctx, e, func(c *sqlite3.Conn) (int64, error) {
		return c.QueryInt("SELECT history IS NOT NULL FROM plantstore")
	})
	if err != nil || history == 0 {
		return err
	}
	return e.run(ctx, func() error { // not write: in a session SQLite would remove row by row
		e.current.recorded, e.current.history, e.current.journal = false, journal.History{}, 0
		// Zeros would take as long as the journal is large.
		return e.writer.Exec("PRAGMA secure_delete = OFF; DELETE FROM plantstore_journal; PRAGMA secure_delete = ON; " +
			"UPDATE plantstore SET history = NULL;")
	})
}

// Journal returns recorded commits after a number, in ascending order, until their changes exceed a number of bytes,
// and the history before the first of them. Each of them follows the one before.
func (e *Engine) Journal(
	ctx context.Context, after int64, bytesMax int,
) (previous journal.History, commits []journal.Commit, err error) {
	err = e.read(ctx, func(c *sqlite3.Conn) error {
		const sql = "SELECT number, at, changes, previous FROM plantstore_journal WHERE number > ? ORDER BY number"
		var history journal.History
		for s, err := range c.Rows(sql, after) {
			if err != nil {
				return err
			}
			row := journal.Commit{Number: s.Int64(0), At: s.Time(1), Changes: []byte(s.Text(2))}
			before := journal.HistoryFrom(s.Bytes(3))
			if len(commits) == 0 {
				previous, history = before, before
			}
			if before != history { // the journal was full
				return nil
			}
			history = history.After(&row)
			commits = append(commits, row)
			if bytesMax -= len(row.Changes); bytesMax < 0 {
				return nil
			}
		}
		return nil
	})
	return previous, commits, err
}

// JournalEnds calls visit with the number of each recorded commit and the history before it until visit returns false,
// the newest first.
func (e *Engine) JournalEnds(ctx context.Context, visit func(number int64, previous journal.History) bool) error {
	return e.read(ctx, func(c *sqlite3.Conn) error {
		for s, err := range c.Rows("SELECT number, previous FROM plantstore_journal ORDER BY number DESC") {
			if err != nil || !visit(s.Int64(0), journal.HistoryFrom(s.Bytes(1))) {
				return err
			}
		}
		return nil
	})
}

// TrimJournal makes later commits remove the commits up to a number from the journal.
func (e *Engine) TrimJournal(to int64) {
	for old := e.recorder.trimTo.Load(); to > old && !e.recorder.trimTo.CompareAndSwap(old, to); {
		old = e.recorder.trimTo.Load()
	}
}
