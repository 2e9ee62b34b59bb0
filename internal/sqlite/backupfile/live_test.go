package backupfile_test

import (
	"errors"
	"path/filepath"
	"testing"

	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/sqlite/sqlitetest"
	"plantstore/internal/store"
)

// TestLiveFull shows that the error of a full disk has the advice of the engine, and that the store goes on after it.
func TestLiveFull(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plants.db")
	if err := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true}).Close(); err != nil {
		t.Fatal(err)
	}
	l, err := backupfile.OpenLive(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	const full = 13 // SQLITE_FULL
	err = l.Repeat(t.Context(), func(*backupfile.Replay) error { return &sqlite3.Error{Code: full} })
	if !errors.Is(err, store.ErrFull) {
		t.Errorf("got %v, want %v", err, store.ErrFull)
	}
	if err := l.Repeat(t.Context(), func(*backupfile.Replay) error { return nil }); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
