package sqlite_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/sqlite/sqlitetest"
)

// TestAuditAppendOnly shows that the triggers refuse every change of the log, except an entry after the head and the
// removal of pruned entries.
func TestAuditAppendOnly(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path})
	for range 3 {
		must(t, e.AppendAudit(t.Context(), audit.Event{Time: time.Now(), Action: "x"}))
	}
	rows, err := e.AuditRows(t.Context(), 0, 3)
	must(t, err)
	if _, err := e.PruneAudit(t.Context(), rows[0].Link(), audit.Origin{}); err != nil {
		t.Fatal(err)
	}
	must(t, e.Close())
	c, err := sqlite3.Open(path)
	must(t, err)
	for _, sql := range []string{
		"UPDATE plantstore_audit SET hash = x'00' WHERE sequence = 2", "UPDATE plantstore_audit SET sequence = 9",
		"DELETE FROM plantstore_audit", "DELETE FROM plantstore_audit WHERE sequence = 2",
		"INSERT OR REPLACE INTO plantstore_audit VALUES (2, '', x'', x'')",
		"INSERT INTO plantstore_audit VALUES (1, '', x'', x'')", "INSERT INTO plantstore_audit VALUES (6, '', x'', x'')",
	} {
		if err := c.Exec(sql); err == nil || !strings.Contains(err.Error(), "the audit log is append-only") {
			t.Errorf("%s: %v", sql, err)
		}
	}
	must(t, errors.Join(c.Exec("DELETE FROM plantstore_audit WHERE sequence = 1"), c.Close()))
	if v, err := backupfile.Verify(t.Context(), path, nil); err != nil || len(v.Faults) > 0 {
		t.Errorf("Verify: %v, %q", err, v.Faults)
	}
}
