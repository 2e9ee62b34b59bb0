package sqlite

import (
	"context"
	"fmt"
	"iter"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// AppendAudit implements admin.Engine.
func (e *Engine) AppendAudit(ctx context.Context, events ...audit.Event) error {
	return e.write(ctx, func() error {
		now, err := e.currentMoveState()
		if err != nil {
			return err
		}
		if now.Phase == store.Filling && now != e.ownMoveState {
			return now.Err() // the move appends the log of the other store
		}
		return e.appendAudit(events...)
	})
}

// appendAudit appends entries in the current transaction.
func (e *Engine) appendAudit(events ...audit.Event) error {
	ends, err := auditEnds(e.writer)
	if err != nil {
		return err
	}
	for _, event := range events {
		row := audit.Seal(ends.Head, event)
		if err := e.insertAudit(row); err != nil {
			return err
		}
		ends.Head = row.Link()
	}
	return nil
}

// insertAudit stores the row after the head.
func (e *Engine) insertAudit(row audit.Row) error {
	// Without DO NOTHING, a row that another program added would be an error that ends the engine.
	const sql = "INSERT INTO plantstore_audit (sequence, entry, previous, hash) VALUES (?, ?, ?, ?) " +
		"ON CONFLICT DO NOTHING"
	err := e.run(sql, row.Sequence, row.Text, row.Previous[:], row.Hash[:])
	if err == nil && e.writer.Changes() == 0 {
		err = fmt.Errorf("%w: it has an entry %d after its newest one", store.ErrAuditFault, row.Sequence)
	}
	if err != nil {
		return err
	}
	return e.run("UPDATE state SET audit_sequence = ?, audit_hash = ?", row.Sequence, row.Hash[:])
}

// AuditEnds implements store.AuditReader.
func (e *Engine) AuditEnds(ctx context.Context) (ends audit.Ends, err error) {
	err = e.read(ctx, func(c *sqlite3.Conn) error {
		ends, err = auditEnds(c)
		return err
	})
	return ends, err
}

func auditEnds(c *sqlite3.Conn) (ends audit.Ends, err error) {
	s, err := c.Prepare("SELECT coalesce(audit_sequence, 0), audit_hash, " +
		"coalesce(pruned_sequence, 0), pruned_hash FROM state")
	if err != nil {
		return ends, err
	}
	defer s.Close()
	ok, err := s.Step()
	if err == nil && !ok {
		err = errNoState
	}
	if err == nil {
		ends.Head = audit.Link{Sequence: s.Int64(0), Hash: audit.HashFrom([]byte(s.Text(1)))}
		ends.Anchor = audit.Link{Sequence: s.Int64(2), Hash: audit.HashFrom([]byte(s.Text(3)))}
	}
	return ends, err
}

// AuditRows implements store.AuditReader.
func (e *Engine) AuditRows(ctx context.Context, after int64, limit int) (rows []audit.Row, err error) {
	err = e.read(ctx, func(c *sqlite3.Conn) error {
		for row, err := range auditRows(c, after, limit) {
			if err != nil {
				return err
			}
			rows = append(rows, row)
		}
		return nil
	})
	return rows, err
}

// auditRows returns at most limit rows of a log with greater sequence numbers, in ascending order; a negative limit is
// none.
func auditRows(c *sqlite3.Conn, after int64, limit int) iter.Seq2[audit.Row, error] {
	return func(yield func(audit.Row, error) bool) {
		s, err := c.Prepare("SELECT sequence, entry, previous, hash FROM plantstore_audit " +
			"WHERE sequence > ? ORDER BY sequence LIMIT ?")
		if err != nil {
			yield(audit.Row{}, err)
			return
		}
		defer s.Close()
		s.BindInt64(1, after)
		s.BindInt64(2, int64(limit))
		for {
			ok, err := s.Step()
			if err != nil {
				yield(audit.Row{}, err)
			}
			if err != nil || !ok {
				return
			}
			row := audit.Row{
				Sequence: s.Int64(0), Text: s.Text(1),
				Previous: audit.HashFrom([]byte(s.Text(2))), Hash: audit.HashFrom([]byte(s.Text(3))),
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// PruneAudit removes the entries up to an entry, unless they are removed already, and returns their number.
func (e *Engine) PruneAudit(ctx context.Context, to audit.Link, by audit.Origin) (removed int64, err error) {
	err = e.write(ctx, func() error {
		if err := e.checkWritable(); err != nil {
			return err
		}
		ends, err := auditEnds(e.writer)
		if err != nil || to.Sequence <= ends.Anchor.Sequence {
			return err // another process was first
		}
		found, err := e.writer.QueryInt(fmt.Sprintf(
			"SELECT count(*) FROM plantstore_audit WHERE sequence = %d AND hash = x'%s'", to.Sequence, to.Hash))
		if err == nil && found == 0 {
			err = fmt.Errorf("%w: it has no entry %d:%s", store.ErrAuditFault, to.Sequence, to.Hash)
		}
		if err != nil {
			return err
		}
		if err := e.run("UPDATE state SET pruned_sequence = ?, pruned_hash = ?", to.Sequence, to.Hash[:]); err != nil {
			return err
		}
		if err := e.run("DELETE FROM plantstore_audit WHERE sequence <= ?", to.Sequence); err != nil {
			return err
		}
		removed = int64(e.writer.Changes())
		return e.appendAudit(store.Pruned(to, removed, by))
	})
	return removed, err
}

// PutAudit implements move.Destination.
func (e *Engine) PutAudit(ctx context.Context, anchor audit.Link, rows []audit.Row) error {
	return e.write(ctx, func() error {
		if err := e.checkWritable(); err != nil {
			return err
		}
		ends, err := auditEnds(e.writer)
		if err != nil {
			return err
		}
		if ends == (audit.Ends{}) && anchor.Sequence > 0 {
			if err := e.run("UPDATE state SET audit_sequence = ?1, audit_hash = ?2, pruned_sequence = ?1, pruned_hash = ?2",
				anchor.Sequence, anchor.Hash[:]); err != nil {
				return err
			}
			ends = audit.Ends{Anchor: anchor, Head: anchor}
		}
		for _, row := range rows {
			if err := row.Follows(ends.Head); err != nil {
				return fmt.Errorf("%w: %w", store.ErrAuditFault, err)
			}
			if err := e.insertAudit(row); err != nil {
				return err
			}
			ends.Head = row.Link()
		}
		return nil
	})
}
