package sqlite3_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestMain resolves symbolic links in TMPDIR, because messages and descriptors have the real path of a database.
func TestMain(m *testing.M) {
	dir, err := filepath.EvalSymlinks(os.TempDir())
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
