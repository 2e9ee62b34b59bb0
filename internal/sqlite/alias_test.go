package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/sqlitetest"
)

// opens opens a store in each way, and restores a backup over it.
func opens(t *testing.T, path, backup string) map[string]error {
	t.Helper()
	errs := map[string]error{}
	for name, c := range map[string]sqlite.Config{
		"server": {Server: true}, "command": {}, "migrate": {Server: true, MustExist: true, Migrate: true},
	} {
		c.Path = path
		e, err := sqlite.Open(t.Context(), c)
		if err == nil {
			err = e.Close()
		}
		errs[name] = err
	}
	_, errs["restore"] = backupfile.Restore(t.Context(), backup, path, true, nil)
	return errs
}

// reads reads a store in each way.
func reads(t *testing.T, path string) map[string]error {
	t.Helper()
	errs := map[string]error{}
	e, err := sqlite.Open(t.Context(), sqlite.Config{Path: path, ReadOnly: true})
	if err == nil {
		err = e.Close()
	}
	errs["read"] = err
	_, errs["backup"] = backupfile.Backup(t.Context(), path, filepath.Join(t.TempDir(), "copy.db"), "", nil)
	_, errs["verify"] = backupfile.VerifyFile(t.Context(), path, nil)
	return errs
}

// TestHardLink shows that a store with two names is refused, because its WAL is beside one of them. A backup may have
// two names.
func TestHardLink(t *testing.T) {
	t.Parallel()
	path, backup := filepath.Join(t.TempDir(), "plants.db"), filepath.Join(t.TempDir(), "backup.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(0, 1)))
	_, err := backupfile.Backup(t.Context(), path, backup, "", nil)
	must(t, err)
	alias, linked := filepath.Join(t.TempDir(), "alias.db"), filepath.Join(t.TempDir(), "backup.db")
	must(t, os.Link(path, alias))
	const want = " has 2 names (hard links), and only one may be used, because the WAL is beside it: " +
		"remove the other names"
	for _, errs := range []map[string]error{opens(t, alias, backup), reads(t, alias)} {
		for name, err := range errs {
			if err == nil || err.Error() != alias+want {
				t.Errorf("%s: got %v, want %s", name, err, alias+want)
			}
		}
	}
	if files, err := os.ReadDir(filepath.Dir(alias)); err != nil || len(files) != 1 {
		t.Errorf("files %v, %v", files, err)
	}
	for name, err := range reads(t, path) { // beside its WAL
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(1, 1)))
	must(t, os.Remove(alias))
	must(t, e.Close())

	must(t, os.Link(backup, linked))
	must(t, os.Link(backup+backupfile.ManifestSuffix, linked+backupfile.ManifestSuffix))
	for name, err := range reads(t, linked) {
		if err != nil {
			t.Errorf("%s of a backup: %v", name, err)
		}
	}
	_, err = backupfile.Restore(t.Context(), linked, path, true, nil)
	must(t, err)
	if v, err := backupfile.Verify(t.Context(), path, nil); err != nil || len(v.Faults) > 0 || v.Plants != 1 {
		t.Errorf("the restored store: %+v, %v", v, err)
	}
}

// TestRenamedUnderServer shows that no second server opens a file that a server has open, although it was renamed.
func TestRenamedUnderServer(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has the lock")
	}
	path, other := filepath.Join(t.TempDir(), "plants.db"), filepath.Join(t.TempDir(), "other.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	must(t, os.Rename(path, other))
	second, err := sqlite.Open(t.Context(), sqlite.Config{Path: other, Server: true})
	if err == nil {
		_ = second.Close()
	}
	want := "another plantstore serves " + other + " under another path: stop it first"
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	must(t, os.Rename(other, path))
	must(t, e.Close())
	must(t, sqlitetest.Open(t, sqlite.Config{Path: path, Server: true}).Close())
}

// TestForeignOwner shows that files of another user are refused in a shared directory.
func TestForeignOwner(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can create files of another user")
	}
	const another = 12345
	source, backup := filepath.Join(t.TempDir(), "plants.db"), filepath.Join(t.TempDir(), "backup.db")
	must(t, sqlitetest.Open(t, sqlite.Config{Path: source}).Close())
	_, err := backupfile.Backup(t.Context(), source, backup, "", nil)
	must(t, err)
	stored, err := os.ReadFile(source)
	must(t, err)
	for name, content := range map[string]string{"an empty file": "", "a store": string(stored)} {
		for _, suffix := range []string{"", "-wal", "-shm", "-mark", "-serve", "-ticket"} {
			t.Run(name+suffix, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				path := filepath.Join(dir, "plants.db")
				if suffix != "" {
					mustWrite(t, path, content)
				}
				mustWrite(t, path+suffix, content)
				must(t, os.Chmod(path+suffix, 0o666))
				must(t, os.Chown(path+suffix, another, another))
				must(t, os.Chmod(dir, 0o777|os.ModeSticky))
				want := path + suffix + " belongs to another user, with the uid 12345: "
				for use, err := range opens(t, path, backup) {
					if use == "restore" && suffix == "-mark" { // which it removes
						continue
					}
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%s: got %v, want %s", use, err, want)
					}
				}
			})
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "plants.db")
	mustWrite(t, path, string(stored))
	must(t, errors.Join(os.Chown(path, another, another), os.Chown(dir, another, another)))
	for use, err := range opens(t, path, backup) {
		if err != nil {
			t.Errorf("%s by root in the user's directory: %v", use, err)
		}
	}
}
