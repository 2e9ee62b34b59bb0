package sqlite

import (
	"fmt"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/store"
)

// AuditEnds implements store.Reader.
func (s statements) AuditEnds() (audit.Ends, error) { return dbfile.AuditEnds(s.conn) }

// AuditRows implements store.Reader.
func (s statements) AuditRows(after int64, limit int) ([]audit.Row, error) {
	return dbfile.AuditRows(s.conn, after, limit)
}

// InsertAudit implements store.Tx.
func (s statements) InsertAudit(rows []audit.Row) error {
	// DO NOTHING, because a row that another program added must not break the engine.
	const sql = "INSERT INTO plantstore_audit (sequence, entry, previous, hash) VALUES (?, ?, ?, ?) " +
		"ON CONFLICT DO NOTHING"
	for _, row := range rows {
		err := s.conn.Run(sql, row.Sequence, row.Text, row.Previous[:], row.Hash[:])
		if err == nil && s.conn.Changes() == 0 {
			err = fmt.Errorf("%w: it has an entry %d after its newest one", store.ErrAuditFault, row.Sequence)
		}
		if err == nil {
			err = s.conn.Run("UPDATE state SET audit_sequence = ?, audit_hash = ?", row.Sequence, row.Hash[:])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// SetAuditEnds implements store.Tx.
func (s statements) SetAuditEnds(ends audit.Ends) error {
	return s.conn.Run("UPDATE state SET audit_sequence = ?, audit_hash = ?, pruned_sequence = ?, pruned_hash = ?",
		ends.Head.Sequence, ends.Head.Hash[:], ends.Anchor.Sequence, ends.Anchor.Hash[:])
}

// DeleteAudit implements store.Tx.
func (s statements) DeleteAudit(to int64) (removed int64, err error) {
	err = s.conn.Run("DELETE FROM plantstore_audit WHERE sequence <= ?", to)
	return int64(s.conn.Changes()), err
}
