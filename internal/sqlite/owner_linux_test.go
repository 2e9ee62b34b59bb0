package sqlite_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/sqlitetest"
	"plantstore/internal/store"
)

// TestNotWritable shows that a store without write permission is not reported as damaged.
func TestNotWritable(t *testing.T) {
	t.Parallel()
	const advice = "check the owner and the mode of the file and of its directory"
	for _, test := range []struct {
		name      string
		file, dir fs.FileMode
		want      string
	}{
		{"file", 0o444, 0o777, "PATH is not writable: " + advice},
		{"directory", 0o666, 0o555, "PATH is not writable: " + advice + ": "},
		{"mark", 0o666, 0o777, "PATH-mark is not writable: " + advice + ": "},
		{"unreadable file", 0o000, 0o777, "PATH is not writable: " + advice + ": "},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "dir")
			must(t, os.Mkdir(dir, 0o700))
			path := filepath.Join(dir, "plants.db")
			must(t, sqlitetest.Open(t, sqlite.Config{Path: path}).Close())
			must(t, os.Chmod(path, test.file))
			must(t, os.Chmod(path+"-mark", 0))
			must(t, os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o711))
			must(t, os.Chmod(filepath.Dir(dir), 0o711))
			must(t, os.Chmod(dir, test.dir))
			t.Cleanup(func() { must(t, os.Chmod(dir, 0o700)) })
			for _, c := range []sqlite.Config{{Server: true}, {MustExist: true}} {
				c.Path = path
				err := unprivileged(t, func() error {
					if _, err := os.Lstat(path); err != nil {
						return errUnreachable
					}
					e, err := sqlite.Open(t.Context(), c)
					if err == nil {
						_ = e.Close()
					}
					return err
				})
				if errors.Is(err, errUnreachable) {
					t.Skip("another user cannot reach the directory of the tests")
				}
				want := strings.ReplaceAll(test.want, "PATH", path)
				if err == nil || !strings.HasPrefix(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
				if errors.Is(err, store.ErrBroken) {
					t.Errorf("%v wraps %v", err, store.ErrBroken)
				}
			}
		})
	}
}

var errUnreachable = errors.New("another user cannot reach it")

// unprivileged runs do without the file permissions of root, on a thread that ends with it.
func unprivileged(t *testing.T, do func() error) error {
	t.Helper()
	if os.Geteuid() != 0 {
		return do()
	}
	done := make(chan error, 1)
	go func() { // ends with do; this function waits for it
		const otherUser = 65534
		runtime.LockOSThread() // never unlocked, so the runtime ends the thread
		if err := unix.Setfsuid(otherUser); err != nil {
			done <- err
			return
		}
		done <- do()
	}()
	return <-done
}

// TestFilesOfRoot shows that root creates a store and the files beside it for the owner of the store, else for the
// owner of the directory.
func TestFilesOfRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can create files for another user")
	}
	const owner = 4321
	source, backup := filepath.Join(t.TempDir(), "plants.db"), filepath.Join(t.TempDir(), "backup.db")
	must(t, sqlitetest.Open(t, sqlite.Config{Path: source}).Close())
	_, err := backupfile.Backup(t.Context(), source, backup, "", nil)
	must(t, err)
	stored := func(t *testing.T, path string) {
		must(t, sqlitetest.Open(t, sqlite.Config{Path: path}).Close())
		must(t, os.Chown(path, owner, owner))
		for _, suffix := range []string{"-mark", "-move", "-ticket"} {
			must(t, os.Remove(path+suffix))
		}
	}
	inDirectory := func(t *testing.T, path string) { must(t, os.Chown(filepath.Dir(path), owner, owner)) }
	restore := func(t *testing.T, path string) {
		_, err := backupfile.Restore(t.Context(), backup, path, true, nil)
		must(t, err)
	}
	for name, steps := range map[string][]func(t *testing.T, path string){
		"a command":           {stored},
		"create":              {inDirectory},
		"restore":             {inDirectory, restore},
		"restore over a file": {stored, restore},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "plants.db")
			for _, step := range steps {
				step(t, path)
			}
			e := sqlitetest.Open(t, sqlite.Config{Path: path})
			must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(0, 1)))
			files, err := filepath.Glob(path + "*")
			must(t, err)
			if len(files) < 5 { // the WAL and its index too
				t.Errorf("files %q", files)
			}
			for _, file := range files {
				var info unix.Stat_t
				must(t, unix.Stat(file, &info))
				if info.Uid != owner || info.Gid != owner {
					t.Errorf("%s has the owner %d and the group %d, want %d", file, info.Uid, info.Gid, owner)
				}
			}
			must(t, e.Close())
		})
	}
}
