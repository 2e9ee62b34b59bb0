package sqlite_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/sqlitetest"
	"plantstore/internal/store"
)

// polled are the changes that only a poll notices, because the files hold no commits.
var polled = []string{
	"the index removed", "the index replaced", "the mark removed", "the lock removed",
}

// TestRemovedFiles removes and replaces files of a store that a server has open: it acknowledges no plant after that,
// a poll notices it, and Close changes no file.
func TestRemovedFiles(t *testing.T) {
	t.Parallel()
	remove := func(suffixes ...string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			for _, suffix := range suffixes {
				must(t, os.Remove(path+suffix))
			}
		}
	}
	replace := func(suffix string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			content, err := os.ReadFile(path + suffix)
			must(t, err)
			must(t, os.WriteFile(path+".other", content, 0o600))
			must(t, os.Rename(path+".other", path+suffix))
		}
	}
	for name, lose := range map[string]func(t *testing.T, path string){
		"all files removed": remove("", "-wal", "-shm", "-mark", "-serve", "-ticket"),
		"the file removed":  remove(""),
		"the file renamed":  func(t *testing.T, path string) { must(t, os.Rename(path, path+".old")) },
		"the file replaced": replace(""),
		"the file emptied":  func(t *testing.T, path string) { must(t, os.Truncate(path, 0)) },
		"the file overwritten": func(t *testing.T, path string) {
			must(t, os.WriteFile(path, storeWithWAL(t)[""][:4096], 0o600))
		},
		"the WAL removed":    remove("-wal"),
		"the WAL replaced":   replace("-wal"),
		"the index removed":  remove("-shm"),
		"the index replaced": replace("-shm"),
		"the mark removed":   remove("-mark"),
		"the lock removed":   remove("-serve"),
		"the directory renamed": func(t *testing.T, path string) {
			must(t, os.Rename(filepath.Dir(path), filepath.Dir(path)+".old"))
		},
		"another store": func(t *testing.T, path string) {
			for suffix, content := range storeWithWAL(t) {
				must(t, os.WriteFile(path+".other", content, 0o600))
				must(t, os.Rename(path+".other", path+suffix))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for use, call := range map[string]func(e *sqlite.Engine) error{
				"create": func(e *sqlite.Engine) error {
					return sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(2, 1))
				},
				"replay": func(e *sqlite.Engine) error {
					return sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(1, 1))
				},
				"poll": func(e *sqlite.Engine) error { _, err := e.State(t.Context()); return err },
				"stop": func(*sqlite.Engine) error { return store.ErrRemoved }, // before anything noticed it
			} {
				isWrite := use == "create" || use == "replay"
				if isWrite && slices.Contains(polled, name) {
					continue
				}
				path := filepath.Join(t.TempDir(), "store", "plants.db")
				must(t, os.Mkdir(filepath.Dir(path), 0o700))
				e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
				must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(1, 1)))
				lose(t, path)
				err := call(e)
				if !errors.Is(err, store.ErrRemoved) {
					t.Errorf("%s: got %v, want %v", use, err, store.ErrRemoved)
				}
				if errors.Is(err, store.ErrOutcomeUnknown) != isWrite {
					t.Errorf("%s: got %v; of unknown outcome: %v", use, err, isWrite)
				}
				before := sqlitetest.ReadFiles(t, path)
				must(t, e.Close())
				if after := sqlitetest.ReadFiles(t, path); !maps.EqualFunc(before, after, slices.Equal) {
					t.Errorf("%s: Close changed the files", use)
				}
			}
		})
	}
}

// storeWithWAL returns the files of another store, with plants in its WAL.
func storeWithWAL(t *testing.T) sqlitetest.Files {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(100, 10)))
	files := sqlitetest.ReadFiles(t, path)
	must(t, e.Close())
	return files
}
