package sqlite_test

import (
	"path/filepath"
	"strings"
	"testing"

	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/sqlite/sqlitetest"
	"plantstore/internal/store"
)

// A scan that ends before the last plant leaves no read transaction open, which would block a checkpoint.
func TestScanEndsItsTransaction(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path})
	defer func() { must(t, e.Close()) }()
	batch := sqlitetest.Batch(0, 2)
	batch[0].Plant.Name = strings.Repeat("x", store.PlantsBytes+1) // ends the scan
	must(t, sqlitetest.Insert(t.Context(), e, batch))
	if _, more, err := e.Scan(t.Context(), 0, 10, func(*store.Scanned) {}); err != nil || !more {
		t.Fatalf("Scan: more %t, %v", more, err)
	}
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(10, 10)))
	c, err := sqlite3.Open(path)
	must(t, err)
	defer func() { must(t, c.Close()) }()
	_, err = c.QueryInt("SELECT plants FROM plantstore") // opens the WAL
	must(t, err)
	frames, copied, err := c.Checkpoint(sqlite3.Truncate)
	if err != nil || frames != copied {
		t.Errorf("checkpoint: copied %d of %d frames, %v", copied, frames, err)
	}
}
