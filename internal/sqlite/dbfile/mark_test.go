package dbfile_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/sqlitetest"
	"plantstore/internal/store"
)

// TestMark shows that Open refuses a store that has lost commits and changes nothing, and that the operator can
// continue without the lost plants.
func TestMark(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "plants.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(0, 10)))
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(10, 10)))
	killed := sqlitetest.ReadFiles(t, path)
	must(t, e.Close())

	lost := filepath.Join(dir, "lost.db")
	killed["-wal"][len(killed["-wal"])-5000] ^= 1 // in the last commit
	killed.WriteTo(t, lost)
	const want = "lost.db has lost acknowledged plants: its last commit is 1, and commit 2 was acknowledged"
	for range 2 {
		for _, server := range []bool{false, true} {
			engine, err := sqlite.Open(t.Context(), sqlite.Config{Path: lost, Server: server})
			if err == nil {
				_ = engine.Close()
			}
			if !errors.Is(err, store.ErrBroken) || !strings.Contains(err.Error(), want) {
				t.Fatalf("server %v: got %v, want %s", server, err, want)
			}
		}
	}
	after := sqlitetest.ReadFiles(t, lost)
	if !bytes.Equal(after["-wal"], killed["-wal"]) || !bytes.Equal(after[""], killed[""]) {
		t.Error("Open changed the store")
	}
	mustRemove(t, lost+"-mark")
	e = sqlitetest.Open(t, sqlite.Config{Path: lost, Server: true})
	records, err := e.List(t.Context(), store.Query{Limit: 100})
	if err != nil || len(records) != 10 {
		t.Errorf("without the mark: %d plants, %v, want the 10 of the first commit", len(records), err)
	}
	must(t, e.Close())

	must(t, os.WriteFile(path+"-mark", []byte("not a mark, by its size"), 0o600))
	const damaged = "-mark is damaged: if plantstore verify reports no other damage, remove it"
	_, err = sqlite.Open(t.Context(), sqlite.Config{Path: path})
	if err == nil || !strings.Contains(err.Error(), damaged) {
		t.Errorf("a damaged mark: %v", err)
	}
}

// TestMarkWithoutStore shows that Open creates no new store where the file of another one was removed or emptied.
func TestMarkWithoutStore(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(path string) error{
		"removed": os.Remove,
		"emptied": func(path string) error { return os.Truncate(path, 0) },
	} {
		path := filepath.Join(t.TempDir(), "plants.db")
		e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
		must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(0, 10)))
		must(t, e.Close())
		must(t, lose(path))
		before := sqlitetest.ReadFiles(t, path)
		const want = "is missing or empty, and commit 1 was acknowledged"
		for range 2 {
			e, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, Server: true})
			if err == nil {
				_ = e.Close()
			}
			if !errors.Is(err, store.ErrBroken) || !strings.Contains(err.Error(), want) {
				t.Fatalf("%s: got %v, want %s", name, err, want)
			}
		}
		if after := sqlitetest.ReadFiles(t, path); len(after[""]) > 0 || !bytes.Equal(after["-mark"], before["-mark"]) {
			t.Errorf("%s: Open changed the files", name)
		}
		mustRemove(t, path+"-mark")
		must(t, sqlitetest.Open(t, sqlite.Config{Path: path, Server: true}).Close())
	}
}
