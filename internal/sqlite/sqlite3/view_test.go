package sqlite3_test

import (
	"path/filepath"
	"strings"
	"testing"

	"plantstore/internal/sqlite/sqlite3"
)

// TestViewsAreNotRead shows that a view that lies in a file is not run.
func TestViewsAreNotRead(t *testing.T) {
	t.Parallel()
	c, err := sqlite3.Open(filepath.Join(t.TempDir(), "a.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Exec("CREATE TABLE a (b); CREATE VIEW v AS SELECT b FROM a"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.QueryInt("SELECT count(*) FROM v"); err == nil || !strings.Contains(err.Error(), `access to view "v" prohibited`) {
		t.Errorf("got %v", err)
	}
}
