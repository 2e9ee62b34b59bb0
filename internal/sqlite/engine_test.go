package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/sqlite/sqlitetest"
	"plantstore/internal/store/storetest"
)

// file is a storetest.Store in a file.
type file struct{ path string }

func newFile(t testing.TB) storetest.Store {
	return file{filepath.Join(t.TempDir(), "plantstore.db")}
}

func (f file) Open(t testing.TB) storetest.Engine {
	return sqlitetest.Open(t, sqlite.Config{Path: f.path})
}

// Tamper removes the triggers of the audit log for its SQL.
func (f file) Tamper(t testing.TB, sql string) {
	triggers := auditTriggers(t, f.path)
	sqlitetest.Exec(t, f.path, "DROP TRIGGER plantstore_audit_append; DROP TRIGGER plantstore_audit_keep; "+
		"DROP TRIGGER plantstore_audit_prune; "+sql+"; "+triggers)
}

// auditTriggers returns the statements that create the triggers of the audit log.
func auditTriggers(t testing.TB, path string) string {
	t.Helper()
	c, err := sqlite3.Open(path)
	must(t, err)
	triggers, err := c.QueryText("SELECT group_concat(sql, '; ') FROM sqlite_schema " +
		"WHERE type = 'trigger' AND tbl_name = 'plantstore_audit'")
	must(t, errors.Join(err, c.Close()))
	return triggers
}

// TestZeroConfig opens a store with the smallest Config: without log and metrics.
func TestZeroConfig(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	for _, c := range []sqlite.Config{{Path: path, Server: true}, {Path: path}, {Path: path, ReadOnly: true}} {
		e, err := sqlite.Open(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if !c.ReadOnly {
			must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(0, 1)))
		}
		must(t, e.Close())
		must(t, os.Chmod(path, 0o644)) // the next server has a warning to log
	}
	e, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Server: true})
	must(t, err)
	must(t, e.Close())
	if _, _, err := sqlite.Migrate(t.Context(), path, nil, audit.Origin{}); err != nil {
		t.Error(err)
	}
}

func TestEngine(t *testing.T) {
	t.Parallel()
	storetest.Run(t, newFile)
}
