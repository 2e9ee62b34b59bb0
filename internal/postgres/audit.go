package postgres

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/audit"
	"plantstore/internal/store"
)

// AuditEnds implements store.Reader.
func (s statements) AuditEnds() (ends audit.Ends, err error) {
	var head, anchor []byte
	err = s.q.QueryRow(s.ctx,
		"SELECT coalesce(audit_sequence, 0), audit_hash, coalesce(pruned_sequence, 0), pruned_hash "+
			"FROM plantstore").Scan(&ends.Head.Sequence, &head, &ends.Anchor.Sequence, &anchor)
	ends.Head.Hash, ends.Anchor.Hash = audit.HashFrom(head), audit.HashFrom(anchor)
	return ends, err
}

// AuditRows implements store.Reader.
func (s statements) AuditRows(after int64, limit int) ([]audit.Row, error) {
	return collect(s.ctx, s.q, auditRow,
		"SELECT sequence, entry, previous, hash FROM plantstore_audit WHERE sequence > $1 ORDER BY sequence LIMIT $2",
		after, limit)
}

func auditRow(r pgx.CollectableRow) (row audit.Row, err error) {
	var previous, hash []byte
	err = r.Scan(&row.Sequence, &row.Text, &previous, &hash)
	row.Previous, row.Hash = audit.HashFrom(previous), audit.HashFrom(hash)
	return row, err
}

// InsertAudit implements store.Tx.
func (s statements) InsertAudit(rows []audit.Row) error {
	for _, row := range rows {
		_, err := s.exec("INSERT INTO plantstore_audit (sequence, entry, previous, hash) VALUES ($1, $2, $3, $4)",
			row.Sequence, row.Text, row.Previous[:], row.Hash[:])
		switch {
		case hasCode(err, codeUniqueViolation):
			return fmt.Errorf("%w: it has an entry %d after its newest one", store.ErrAuditFault, row.Sequence)
		case hasCode(err, codeInsufficientPrivilege):
			return fmt.Errorf("the role may not append to the audit log: as the owner, GRANT SELECT, INSERT "+
				"ON plantstore_audit and UPDATE (token_changes, audit_sequence, audit_hash) ON plantstore to it: %w", err)
		case err != nil:
			return err
		}
	}
	if len(rows) == 0 {
		return nil
	}
	head := rows[len(rows)-1].Link()
	_, err := s.exec("UPDATE plantstore SET audit_sequence = $1, audit_hash = $2", head.Sequence, head.Hash[:])
	return err
}

// SetAuditEnds implements store.Tx.
func (s statements) SetAuditEnds(ends audit.Ends) error {
	_, err := s.exec("UPDATE plantstore "+
		"SET audit_sequence = $1, audit_hash = $2, pruned_sequence = $3, pruned_hash = $4",
		ends.Head.Sequence, ends.Head.Hash[:], ends.Anchor.Sequence, ends.Anchor.Hash[:])
	return err
}

// DeleteAudit implements store.Tx.
func (s statements) DeleteAudit(to int64) (removed int64, err error) {
	return s.exec("DELETE FROM plantstore_audit WHERE sequence <= $1", to)
}
