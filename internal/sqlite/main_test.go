package sqlite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestMain resolves the links in TMPDIR, because messages have the real path of a store.
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
