package sqlite_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	"plantstore/internal/sqlite"
	"plantstore/internal/store/storetest"
)

// file is a store in a file of its own.
type file struct{ path string }

func newFile(t testing.TB) storetest.Store {
	return file{filepath.Join(t.TempDir(), "plantstore.db")}
}

func (f file) Open(t testing.TB) storetest.Engine { return mustOpen(t, sqlite.Config{Path: f.path}) }

// mustOpen opens an engine that logs to the test; the caller closes it.
func mustOpen(t testing.TB, c sqlite.Config) *sqlite.Engine {
	t.Helper()
	if c.Log == nil {
		c.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	e, err := sqlite.Open(t.Context(), c)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	return e
}

func TestEngine(t *testing.T) {
	t.Parallel()
	storetest.Run(t, newFile)
}
