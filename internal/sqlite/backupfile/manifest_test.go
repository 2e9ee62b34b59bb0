package backupfile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/sqlite/sqlitetest"
)

// newBackup makes a backup of a store with 1000 plants.
func newBackup(t *testing.T) (backup string, m backupfile.Manifest) {
	t.Helper()
	source := filepath.Join(t.TempDir(), "source.db")
	backup = filepath.Join(t.TempDir(), "backup #1 50% done?.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: source})
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(0, 1000)))
	must(t, e.Close())
	m, err := backupfile.Backup(t.Context(), source, backup, "", nil)
	must(t, err)
	return backup, m
}

// TestVerifyFileComparesManifest shows that VerifyFile compares every value of the manifest, and that Restore refuses
// the same files.
func TestVerifyFileComparesManifest(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		damage func(t *testing.T, backup, manifest string)
		want   string // start of the first fault or of the error; "" for none
	}{
		{"undamaged", func(*testing.T, string, string) {}, ""},
		{"8 bytes that SQLite does not check", func(t *testing.T, backup, _ string) {
			overwrite(t, backup, 92, "8 bytes!") // the version of SQLite that wrote the file
		}, "its SHA-256 is "},
		{"truncated", resized(8192), "it has 8192 bytes; its manifest has "},
		{"empty", resized(0), "it has 0 bytes; its manifest has "},
		{"longer", resized(1 << 30), "it has 1073741824 bytes; its manifest has "},
		{"other plants", replacing(`"plants": 1000`, `"plants": 999`), "it has 1000 plants up to commit 1 of store "},
		{"other commits", replacing(`"commits": 1`, `"commits": 2`), "it has 1000 plants up to commit 1 of store "},
		{"other store", replacing(`"store": "`, `"store": "0`), "it has 1000 plants up to commit 1 of store "},
		{
			"no JSON", func(t *testing.T, _, manifest string) { mustWrite(t, manifest, "{") },
			"MANIFEST is not the manifest of a backup: ",
		},
		{
			"a huge manifest", func(t *testing.T, _, manifest string) { must(t, os.Truncate(manifest, 1<<40)) },
			"MANIFEST is not the manifest of a backup: ",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			backup, m := newBackup(t)
			manifest := backup + backupfile.ManifestSuffix
			test.damage(t, backup, manifest)
			want := strings.ReplaceAll(test.want, "MANIFEST", manifest)

			v, err := backupfile.VerifyFile(t.Context(), backup, nil)
			switch {
			case want == "":
				if err != nil || len(v.Faults) > 0 || !v.Manifest ||
					v.Plants != m.Plants || v.Commits != m.Commits || v.Store != m.Store {
					t.Errorf("got %+v, %v; want no fault", v, err)
				}
			case err != nil:
				if !strings.HasPrefix(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
			case !v.Manifest || len(v.Faults) == 0 || !strings.HasPrefix(v.Faults[0], want):
				t.Errorf("got %+v, want the fault %s", v, want)
			}

			path, copied := filepath.Join(t.TempDir(), "plants.db"), false
			_, err = backupfile.Restore(t.Context(), backup, path, false, func(int64, int64) { copied = true })
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("restore: got %v, want %q", err, want)
			}
			if copied && strings.Contains(want, "bytes") {
				t.Error("Restore copied a file of another size than in its manifest")
			}
			if left, _ := os.ReadDir(filepath.Dir(path)); err != nil && len(left) > 0 {
				t.Errorf("the failed restore left %v", left)
			}
		})
	}
}

func resized(size int64) func(t *testing.T, backup, manifest string) {
	return func(t *testing.T, backup, _ string) { must(t, os.Truncate(backup, size)) }
}

func replacing(old, replacement string) func(t *testing.T, backup, manifest string) {
	return func(t *testing.T, _, manifest string) {
		text, err := os.ReadFile(manifest)
		must(t, err)
		if !bytes.Contains(text, []byte(old)) {
			t.Fatalf("%s has no %s", text, old)
		}
		mustWrite(t, manifest, strings.Replace(string(text), old, replacement, 1))
	}
}

func overwrite(t *testing.T, path string, at int64, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	_, err = f.WriteAt([]byte(text), at)
	must(t, errors.Join(err, f.Close()))
}

// TestBackupIsImmutable shows that foreign files beside a backup change neither the backup nor the results of
// VerifyFile and Restore, with and without a manifest.
func TestBackupIsImmutable(t *testing.T) {
	t.Parallel()
	backup, m := newBackup(t)
	journal := hotJournal(t, backup)
	wal := filepath.Join(t.TempDir(), "wal.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: wal, Server: true})
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(0, 1000)))
	others := sqlitetest.ReadFiles(t, wal)
	must(t, e.Close())
	mustWrite(t, backup+"-journal", string(journal))
	mustWrite(t, backup+"-wal", string(others["-wal"]))
	mustWrite(t, backup+"-shm", "shm")
	for _, manifest := range []bool{true, false} {
		if !manifest {
			mustRemove(t, backup+backupfile.ManifestSuffix)
		}
		before := readDir(t, filepath.Dir(backup))
		v, err := backupfile.VerifyFile(t.Context(), backup, nil)
		if err != nil || len(v.Faults) > 0 || v.Manifest != manifest || v.Plants != m.Plants {
			t.Errorf("manifest %t: %+v, %v; want no fault", manifest, v, err)
		}
		if manifest {
			_, err := backupfile.Restore(t.Context(), backup, filepath.Join(t.TempDir(), "plants.db"), false, nil)
			must(t, err)
		}
		if after := readDir(t, filepath.Dir(backup)); !maps.Equal(before, after) {
			t.Errorf("manifest %t: the directory had %v and has %v",
				manifest, slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
			for name := range before {
				if before[name] != after[name] {
					t.Errorf("%s was changed", name)
				}
			}
		}
	}
}

// hotJournal returns a journal that SQLite would roll back into the database at path.
func hotJournal(t *testing.T, path string) []byte {
	t.Helper()
	other := filepath.Join(t.TempDir(), "other.db")
	content, err := os.ReadFile(path)
	must(t, err)
	mustWrite(t, other, string(content))
	sqlitetest.Exec(t, other, "UPDATE plants SET name = 'forged'")
	c, err := sqlite3.Open(other)
	must(t, err)
	// With a small cache, SQLite writes pages before the end of the transaction.
	must(t, c.Exec("PRAGMA cache_size = 2; BEGIN; UPDATE plants SET name = 'once more'"))
	journal, err := os.ReadFile(other + "-journal")
	must(t, errors.Join(err, c.Close()))

	mustWrite(t, other, string(content)) // to check that SQLite rolls it back
	mustWrite(t, other+"-journal", string(journal))
	c, err = sqlite3.Open(other)
	must(t, err)
	_ = c.Exec("SELECT * FROM plants") // may fail on the mixed pages
	must(t, c.Close())
	if after, err := os.ReadFile(other); err != nil || bytes.Equal(after, content) {
		t.Fatalf("the journal has no effect, so this test shows nothing (%v)", err)
	}
	return journal
}

// readDir returns the contents of the files of a directory by name.
func readDir(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	all := map[string]string{}
	for _, entry := range entries {
		text, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		must(t, err)
		all[entry.Name()] = fmt.Sprintf("%d %x", len(text), text)
	}
	return all
}

// TestRestoreInterrupted shows that a canceled restore leaves no file.
func TestRestoreInterrupted(t *testing.T) {
	t.Parallel()
	backup, _ := newBackup(t)
	path := filepath.Join(t.TempDir(), "plants.db")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := backupfile.Restore(ctx, backup, path, false, func(int64, int64) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) > 0 {
		t.Errorf("files left: %v (%v)", left, err)
	}
}

// TestVerifyFileOfStore shows that VerifyFile reads a store with its WAL and its commit mark.
func TestVerifyFileOfStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plants.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(0, 10)))
	v, err := backupfile.VerifyFile(t.Context(), path, nil)
	if err != nil || len(v.Faults) > 0 || v.Plants != 10 || v.Manifest {
		t.Errorf("served: %+v, %v; want 10 plants", v, err)
	}
	must(t, e.Close())

	backup, _ := newBackup(t)
	content, err := os.ReadFile(backup)
	must(t, err)
	mustWrite(t, path, string(content)) // without restore, so the mark of the old store remains
	v, err = backupfile.VerifyFile(t.Context(), path, nil)
	if err != nil || len(v.Faults) != 1 || !strings.Contains(v.Faults[0], "is another store than before") {
		t.Errorf("a replaced file: %+v, %v; want the fault of the mark", v, err)
	}
}

// TestVerifyFileWhileServerStarts shows that VerifyFile does not call a restored store damaged because a server has
// begun to write to it.
func TestVerifyFileWhileServerStarts(t *testing.T) {
	t.Parallel()
	backup, _ := newBackup(t)
	path := filepath.Join(t.TempDir(), "plants.db")
	_, err := backupfile.Restore(t.Context(), backup, path, false, nil)
	must(t, err)
	var start sync.Once
	v, err := backupfile.VerifyFile(t.Context(), path, func(int64, int64) {
		start.Do(func() {
			e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
			must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(1000, 1000)))
			must(t, e.Close())
		})
	})
	if err == nil || err.Error() != path+" was changed while it was read: try again" {
		t.Errorf("%+v, %v; want the error that the file was changed", v, err)
	}
	v, err = backupfile.VerifyFile(t.Context(), path, nil)
	if err != nil || len(v.Faults) > 0 {
		t.Errorf("again: %+v, %v; want no fault", v, err)
	}
}
