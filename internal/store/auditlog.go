package store

import (
	"context"
	"fmt"

	"plantstore/internal/audit"
)

// AuditEnds implements AuditReader.
func (o *Operations) AuditEnds(ctx context.Context) (audit.Ends, error) {
	return read(ctx, o, Reader.AuditEnds)
}

// AuditRows implements AuditReader.
func (o *Operations) AuditRows(ctx context.Context, after int64, limit int) ([]audit.Row, error) {
	return read(ctx, o, func(r Reader) ([]audit.Row, error) { return r.AuditRows(after, limit) })
}

// AppendAudit implements admin.Engine and move.Destination.
func (o *Operations) AppendAudit(ctx context.Context, events ...audit.Event) error {
	return o.Write(ctx, func(tx Tx) error { return AppendAudit(tx, events...) })
}

// AppendAudit appends entries in a transaction.
func AppendAudit(tx Tx, events ...audit.Event) error {
	ends, err := tx.AuditEnds()
	if err != nil {
		return err
	}
	rows := make([]audit.Row, len(events))
	for i, event := range events {
		rows[i] = audit.Seal(ends.Head, event)
		ends.Head = rows[i].Link()
	}
	return tx.InsertAudit(rows)
}

// PruneAudit implements admin.Engine.
func (o *Operations) PruneAudit(ctx context.Context, to audit.Link, by audit.Origin) (removed int64, err error) {
	err = o.Write(ctx, func(tx Tx) error {
		ends, err := tx.AuditEnds()
		if err != nil || to.Sequence <= ends.Anchor.Sequence {
			return err // another process was first
		}
		rows, err := tx.AuditRows(to.Sequence-1, 1)
		if err == nil && (len(rows) == 0 || rows[0].Link() != to) {
			err = fmt.Errorf("%w: it has no entry %d:%s", ErrAuditFault, to.Sequence, to.Hash)
		}
		if err != nil {
			return err
		}
		ends.Anchor = to
		if err := tx.SetAuditEnds(ends); err != nil {
			return err
		}
		if removed, err = tx.DeleteAudit(to.Sequence); err != nil {
			return err
		}
		return AppendAudit(tx, Pruned(to, removed, by))
	})
	return removed, err
}

// PutAudit implements move.Destination.
func (o *Operations) PutAudit(ctx context.Context, anchor audit.Link, rows []audit.Row) error {
	return o.Write(ctx, func(tx Tx) error {
		ends, err := tx.AuditEnds()
		if err != nil {
			return err
		}
		if ends == (audit.Ends{}) && anchor.Sequence > 0 {
			ends = audit.Ends{Anchor: anchor, Head: anchor}
			if err := tx.SetAuditEnds(ends); err != nil {
				return err
			}
		}
		for _, row := range rows {
			if err := row.Follows(ends.Head); err != nil {
				return fmt.Errorf("%w: %w", ErrAuditFault, err)
			}
			ends.Head = row.Link()
		}
		return tx.InsertAudit(rows)
	})
}
