package sqlite

import (
	"context"
	"fmt"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite/dbfile"
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
			return now.Err() // the move copies the log of the other store
		}
		return e.appendAudit(events...)
	})
}

// appendAudit appends entries in the current transaction.
func (e *Engine) appendAudit(events ...audit.Event) error {
	ends, err := dbfile.AuditEnds(e.writer)
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
	// DO NOTHING, because a row that another program added must not break the engine.
	const sql = "INSERT INTO plantstore_audit (sequence, entry, previous, hash) VALUES (?, ?, ?, ?) " +
		"ON CONFLICT DO NOTHING"
	err := e.writer.Run(sql, row.Sequence, row.Text, row.Previous[:], row.Hash[:])
	if err == nil && e.writer.Changes() == 0 {
		err = fmt.Errorf("%w: it has an entry %d after its newest one", store.ErrAuditFault, row.Sequence)
	}
	if err != nil {
		return err
	}
	return e.writer.Run("UPDATE state SET audit_sequence = ?, audit_hash = ?", row.Sequence, row.Hash[:])
}

// AuditEnds implements store.
func (e *Engine) AuditEnds(ctx context.Context) (audit.Ends, error) {
	return query(ctx, e, dbfile.AuditEnds)
}

// AuditRows implements store.
func (e *Engine) AuditRows(ctx context.Context, after int64, limit int) ([]audit.Row, error) {
	return query(ctx, e, func(c *sqlite3.Conn) (rows []audit.Row, err error) {
		for row, err := range dbfile.AuditRows(c, after, limit) {
			if err != nil {
				return nil, err
			}
			rows = append(rows, row)
		}
		return rows, nil
	})
}

// PruneAudit implements admin.Engine.
func (e *Engine) PruneAudit(ctx context.Context, to audit.Link, by audit.Origin) (removed int64, err error) {
	err = e.change(ctx, func() error {
		ends, err := dbfile.AuditEnds(e.writer)
		if err != nil || to.Sequence <= ends.Anchor.Sequence {
			return err // another process was first
		}
		found, err := e.writer.QueryInt("SELECT count(*) FROM plantstore_audit WHERE sequence = ? AND hash = ?",
			to.Sequence, to.Hash[:])
		if err == nil && found == 0 {
			err = fmt.Errorf("%w: it has no entry %d:%s", store.ErrAuditFault, to.Sequence, to.Hash)
		}
		if err != nil {
			return err
		}
		if err := e.writer.Run("UPDATE state SET pruned_sequence = ?, pruned_hash = ?",
			to.Sequence, to.Hash[:]); err != nil {
			return err
		}
		if err := e.writer.Run("DELETE FROM plantstore_audit WHERE sequence <= ?", to.Sequence); err != nil {
			return err
		}
		removed = int64(e.writer.Changes())
		return e.appendAudit(store.Pruned(to, removed, by))
	})
	return removed, err
}

// PutAudit implements move.Destination.
func (e *Engine) PutAudit(ctx context.Context, anchor audit.Link, rows []audit.Row) error {
	return e.change(ctx, func() error {
		ends, err := dbfile.AuditEnds(e.writer)
		if err != nil {
			return err
		}
		if ends == (audit.Ends{}) && anchor.Sequence > 0 {
			if err := e.writer.Run(
				"UPDATE state SET audit_sequence = ?1, audit_hash = ?2, pruned_sequence = ?1, pruned_hash = ?2",
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
