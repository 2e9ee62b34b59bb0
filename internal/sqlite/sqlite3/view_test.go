package sqlite3_test

import (
	"path/filepath"
	"strings"
	"testing"

	"plantstore/internal/sqlite/sqlite3"
)

// TestViewsAreRefused shows that a connection refuses to read a view of its file.
func TestViewsAreRefused(t *testing.T) {
	t.Parallel()
	c, err := sqlite3.Open(filepath.Join(t.TempDir(), "a.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Exec("CREATE TABLE a (b); CREATE VIEW v AS SELECT b FROM a"); err != nil {
		t.Fatal(err)
	}
	const want = `access to view "v" prohibited`
	if _, err := c.QueryInt("SELECT count(*) FROM v"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
