package store

import (
	"context"
	"fmt"

	"plantstore/internal/audit"
)

// AuditEnds is as in AuditReader.
func (t Tables) AuditEnds() (ends audit.Ends, err error) {
	var head, anchor []byte
	const sql = "SELECT coalesce(audit_sequence, 0), audit_hash, coalesce(pruned_sequence, 0), pruned_hash FROM plantstore"
	err = queryRow(t, sql, &ends.Head.Sequence, &head, &ends.Anchor.Sequence, &anchor)
	ends.Head.Hash, ends.Anchor.Hash = audit.HashFrom(head), audit.HashFrom(anchor)
	return ends, err
}

// AuditRows is as in AuditReader.
func (t Tables) AuditRows(after int64, limit int) ([]audit.Row, error) {
	return collect(t, func(scan Scan) (r audit.Row, err error) {
		var previous, hash []byte
		err = scan(&r.Sequence, &r.Text, &previous, &hash)
		r.Previous, r.Hash = audit.HashFrom(previous), audit.HashFrom(hash)
		return r, err
	}, "SELECT sequence, entry, previous, hash FROM plantstore_audit WHERE sequence > $1 ORDER BY sequence LIMIT $2",
		after, limit)
}

// insertAudit stores rows that follow the head of the audit log, and the new head.
func (t Tables) insertAudit(rows []audit.Row) error {
	for _, r := range rows {
		// DO NOTHING, because a row that another program added must not break the engine.
		added, err := t.Exec("INSERT INTO plantstore_audit (sequence, entry, previous, hash) VALUES ($1, $2, $3, $4) "+
			"ON CONFLICT (sequence) DO NOTHING", r.Sequence, r.Text, r.Previous[:], r.Hash[:])
		if err == nil && added == 0 {
			err = fmt.Errorf("%w: it has an entry %d after its newest one", ErrAuditFault, r.Sequence)
		}
		if err == nil {
			_, err = t.Exec("UPDATE plantstore SET audit_sequence = $1, audit_hash = $2", r.Sequence, r.Hash[:])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t Tables) setAuditEnds(ends audit.Ends) error {
	_, err := t.Exec("UPDATE plantstore "+
		"SET audit_sequence = $1, audit_hash = $2, pruned_sequence = $3, pruned_hash = $4",
		ends.Head.Sequence, ends.Head.Hash[:], ends.Anchor.Sequence, ends.Anchor.Hash[:])
	return err
}

// AppendAudit appends entries.
func (t Tables) AppendAudit(events ...audit.Event) error {
	ends, err := t.AuditEnds()
	if err != nil {
		return err
	}
	rows := make([]audit.Row, len(events))
	for i, event := range events {
		rows[i] = audit.Seal(ends.Head, event)
		ends.Head = rows[i].Link()
	}
	return t.insertAudit(rows)
}

// AuditEnds implements AuditReader.
func (o *Operations) AuditEnds(ctx context.Context) (audit.Ends, error) {
	return read(ctx, o, Tables.AuditEnds)
}

// AuditRows implements AuditReader.
func (o *Operations) AuditRows(ctx context.Context, after int64, limit int) ([]audit.Row, error) {
	return read(ctx, o, func(t Tables) ([]audit.Row, error) { return t.AuditRows(after, limit) })
}

// AppendAudit implements admin.Engine and move.Destination.
func (o *Operations) AppendAudit(ctx context.Context, events ...audit.Event) error {
	return o.Write(ctx, func(t Tables) error { return t.AppendAudit(events...) })
}

// PruneAudit implements admin.Engine.
func (o *Operations) PruneAudit(ctx context.Context, to audit.Link, by audit.Origin) (removed int64, err error) {
	err = o.Write(ctx, func(t Tables) error {
		ends, err := t.AuditEnds()
		if err != nil || to.Sequence <= ends.Anchor.Sequence {
			return err // another process was first
		}
		rows, err := t.AuditRows(to.Sequence-1, 1)
		if err == nil && (len(rows) == 0 || rows[0].Link() != to) {
			err = fmt.Errorf("%w: it has no entry %d:%s", ErrAuditFault, to.Sequence, to.Hash)
		}
		if err != nil {
			return err
		}
		ends.Anchor = to
		if err := t.setAuditEnds(ends); err != nil {
			return err
		}
		if removed, err = t.Exec("DELETE FROM plantstore_audit WHERE sequence <= $1", to.Sequence); err != nil {
			return err
		}
		return t.AppendAudit(Pruned(to, removed, by))
	})
	return removed, err
}

// PutAudit implements move.Destination.
func (o *Operations) PutAudit(ctx context.Context, anchor audit.Link, rows []audit.Row) error {
	return o.Write(ctx, func(t Tables) error {
		ends, err := t.AuditEnds()
		if err != nil {
			return err
		}
		if ends == (audit.Ends{}) && anchor.Sequence > 0 {
			ends = audit.Ends{Anchor: anchor, Head: anchor}
			if err := t.setAuditEnds(ends); err != nil {
				return err
			}
		}
		for _, row := range rows {
			if err := row.Follows(ends.Head); err != nil {
				return fmt.Errorf("%w: %w", ErrAuditFault, err)
			}
			ends.Head = row.Link()
		}
		return t.insertAudit(rows)
	})
}
