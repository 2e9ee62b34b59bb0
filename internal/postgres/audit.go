package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/audit"
	"plantstore/internal/store"
)

// AppendAudit implements admin.Engine.
func (e *Engine) AppendAudit(ctx context.Context, events ...audit.Event) error {
	return e.transact(ctx, func(tx pgx.Tx) error {
		now, err := readState(ctx, tx)
		if err != nil {
			return err
		}
		if now.Move.Phase == store.Filling {
			if err := e.checkWritable(ctx, tx); err != nil {
				return err // the move appends the log of the other store
			}
		}
		return appendAudit(ctx, tx, events...)
	})
}

// appendAudit appends entries. Its caller has locked the row of plantstore.
func appendAudit(ctx context.Context, tx pgx.Tx, events ...audit.Event) error {
	ends, err := auditEnds(ctx, tx)
	if err != nil {
		return err
	}
	for _, event := range events {
		row := audit.Seal(ends.Head, event)
		if err := insertAudit(ctx, tx, row); err != nil {
			return err
		}
		ends.Head = row.Link()
	}
	return setAuditHead(ctx, tx, ends.Head)
}

// insertAudit stores a row. The caller stores the new head.
func insertAudit(ctx context.Context, tx pgx.Tx, row audit.Row) error {
	_, err := tx.Exec(ctx, "INSERT INTO plantstore_audit (sequence, entry, previous, hash) VALUES ($1, $2, $3, $4)",
		row.Sequence, row.Text, row.Previous[:], row.Hash[:])
	switch {
	case hasCode(err, codeUniqueViolation):
		err = fmt.Errorf("%w: it has an entry %d after its newest one", store.ErrAuditFault, row.Sequence)
	case hasCode(err, codeInsufficientPrivilege):
		err = fmt.Errorf("the role may not append to the audit log: as the owner, GRANT SELECT, INSERT ON plantstore_audit "+
			"and UPDATE (token_changes, audit_sequence, audit_hash) ON plantstore to it: %w", err)
	}
	return err
}

func setAuditHead(ctx context.Context, tx pgx.Tx, head audit.Link) error {
	_, err := tx.Exec(ctx, "UPDATE plantstore SET audit_sequence = $1, audit_hash = $2", head.Sequence, head.Hash[:])
	return err
}

func setAuditAnchor(ctx context.Context, tx pgx.Tx, anchor audit.Link) error {
	const sql = "UPDATE plantstore SET pruned_sequence = $1, pruned_hash = $2"
	_, err := tx.Exec(ctx, sql, anchor.Sequence, anchor.Hash[:])
	return err
}

// AuditEnds implements store.AuditReader.
func (e *Engine) AuditEnds(ctx context.Context) (audit.Ends, error) {
	ends, err := auditEnds(ctx, e.pool)
	return ends, classify(err)
}

func auditEnds(ctx context.Context, q querier) (ends audit.Ends, err error) {
	var head, anchor []byte
	err = q.QueryRow(ctx, "SELECT coalesce(audit_sequence, 0), audit_hash, coalesce(pruned_sequence, 0), pruned_hash "+
		"FROM plantstore").Scan(&ends.Head.Sequence, &head, &ends.Anchor.Sequence, &anchor)
	ends.Head.Hash, ends.Anchor.Hash = audit.HashFrom(head), audit.HashFrom(anchor)
	return ends, err
}

// AuditRows implements store.AuditReader.
func (e *Engine) AuditRows(ctx context.Context, after int64, limit int) ([]audit.Row, error) {
	rows, _ := e.pool.Query(ctx, // CollectRows returns the error
		"SELECT sequence, entry, previous, hash FROM plantstore_audit WHERE sequence > $1 ORDER BY sequence LIMIT $2",
		after, limit)
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (row audit.Row, err error) {
		var previous, hash []byte
		err = r.Scan(&row.Sequence, &row.Text, &previous, &hash)
		row.Previous, row.Hash = audit.HashFrom(previous), audit.HashFrom(hash)
		return row, err
	})
	return all, classify(err)
}

// PruneAudit implements admin.Engine.
func (e *Engine) PruneAudit(ctx context.Context, to audit.Link, by audit.Origin) (removed int64, err error) {
	err = e.transact(ctx, func(tx pgx.Tx) error {
		if err := e.checkWritable(ctx, tx); err != nil {
			return err
		}
		ends, err := auditEnds(ctx, tx)
		if err != nil || to.Sequence <= ends.Anchor.Sequence {
			return err // another server was first
		}
		found := false
		err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM plantstore_audit WHERE sequence = $1 AND hash = $2)",
			to.Sequence, to.Hash[:]).Scan(&found)
		if err == nil && !found {
			err = fmt.Errorf("%w: it has no entry %d:%s", store.ErrAuditFault, to.Sequence, to.Hash)
		}
		if err != nil {
			return err
		}
		if err := setAuditAnchor(ctx, tx, to); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, "DELETE FROM plantstore_audit WHERE sequence <= $1", to.Sequence)
		if err != nil {
			return err
		}
		removed = tag.RowsAffected()
		return appendAudit(ctx, tx, store.Pruned(to, removed, by))
	})
	return removed, err
}

// PutAudit implements move.Destination.
func (e *Engine) PutAudit(ctx context.Context, anchor audit.Link, rows []audit.Row) error {
	return e.transact(ctx, func(tx pgx.Tx) error {
		if err := e.checkWritable(ctx, tx); err != nil {
			return err
		}
		ends, err := auditEnds(ctx, tx)
		if err != nil {
			return err
		}
		if ends == (audit.Ends{}) && anchor.Sequence > 0 {
			ends.Head = anchor
			if err := setAuditAnchor(ctx, tx, anchor); err != nil {
				return err
			}
		}
		for _, row := range rows {
			if err := row.Follows(ends.Head); err != nil {
				return fmt.Errorf("%w: %w", store.ErrAuditFault, err)
			}
			if err := insertAudit(ctx, tx, row); err != nil {
				return err
			}
			ends.Head = row.Link()
		}
		return setAuditHead(ctx, tx, ends.Head)
	})
}
