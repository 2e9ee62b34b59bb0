package sqlite_test

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"plantstore/internal/safefile"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/sqlitetest"
)

// TestForeignLink shows that a symbolic link of another user to a store is refused: in a sticky directory, that user
// would choose the file of the store.
func TestForeignLink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, alias := filepath.Join(dir, "plants.db"), filepath.Join(dir, "alias.db")
	backup := filepath.Join(dir, "backup.db")
	must(t, sqlitetest.Open(t, sqlite.Config{Path: path}).Close())
	_, err := backupfile.Backup(t.Context(), path, backup, "", nil)
	must(t, err)
	must(t, os.Symlink(path, alias))
	must(t, sqlitetest.Open(t, sqlite.Config{Path: alias, MustExist: true}).Close()) // the user's own link
	const another = 12345
	if err := os.Lchown(alias, another, another); err != nil {
		t.Skipf("only root can change the owner of a link: %v", err)
	}
	_, errOpen := sqlite.Open(t.Context(), sqlite.Config{Path: alias})
	_, errRestore := backupfile.Restore(t.Context(), backup, alias, true, nil)
	want := alias + " is a symbolic link of another user; use the path of its target"
	for name, err := range map[string]error{"Open": errOpen, "Restore": errRestore} {
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

// TestPlantedFiles shows that every operation refuses a symbolic link or a FIFO in place of a file of the store, names
// it and leaves it unchanged.
func TestPlantedFiles(t *testing.T) {
	t.Parallel()
	plants := map[string]func(t *testing.T, path, target string){
		"a symbolic link": func(t *testing.T, path, target string) { must(t, os.Symlink(target, path)) },
		"a FIFO":          func(t *testing.T, path, _ string) { must(t, syscall.Mkfifo(path, 0o666)) },
	}
	opened := func(c sqlite.Config) func(t *testing.T, path, backup string) error {
		return func(t *testing.T, path, _ string) error {
			own := c // the subtests run in parallel
			own.Path = path
			e, err := sqlite.Open(t.Context(), own)
			if err == nil {
				must(t, e.Close())
			}
			return err
		}
	}
	all := []string{"-wal", "-shm", "-journal", "-mark", "-serve", "-ticket", "-move"}
	for _, use := range []struct {
		name     string
		suffixes []string
		do       func(t *testing.T, path, backup string) error
	}{
		{"server", all, opened(sqlite.Config{Server: true})},
		{"command", all, opened(sqlite.Config{MustExist: true})},
		{"verify", all, func(t *testing.T, path, _ string) error {
			_, err := backupfile.Verify(t.Context(), path, nil)
			return err
		}},
		{"backup", all, func(t *testing.T, path, _ string) error {
			_, err := backupfile.Backup(t.Context(), path, path+".copy", "", noProgress)
			return err
		}},
		{
			"restore",
			[]string{"-wal", "-shm", "-journal", "-serve", "-ticket"},
			func(t *testing.T, path, backup string) error {
				_, err := backupfile.Restore(t.Context(), backup, path, true, noProgress)
				return err
			},
		},
	} {
		for kind, plant := range plants {
			for _, suffix := range use.suffixes {
				t.Run(use.name+kind[1:]+suffix, func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					path, backup := filepath.Join(dir, "plants.db"), filepath.Join(dir, "backup.db")
					target := filepath.Join(dir, "target")
					e := sqlitetest.Open(t, sqlite.Config{Path: path})
					must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(0, 10)))
					must(t, e.Close())
					_, err := backupfile.Backup(t.Context(), path, backup, "", noProgress)
					must(t, err)
					before := sqlitetest.ReadFiles(t, path)
					mustWrite(t, target, "keep")
					mustRemove(t, path+suffix)
					plant(t, path+suffix, target)

					done := make(chan error, 1)
					go func() { done <- use.do(t, path, backup) }() // ends with the test, which waits for it
					select {
					case err = <-done:
					case <-time.After(time.Minute):
						t.Fatal("no result after a minute")
					}
					want := path + suffix + " is " + kind + ", not a regular file: remove it"
					if err == nil || !strings.HasSuffix(err.Error(), want) || !errors.Is(err, safefile.ErrNotRegular) {
						t.Errorf("got %v, want %s", err, want)
					}
					if got, err := os.ReadFile(target); string(got) != "keep" {
						t.Errorf("the target has %q (%v), want it unchanged", got, err)
					}
					if now, err := os.ReadFile(path); !bytes.Equal(now, before[""]) {
						t.Errorf("the store was changed (%v)", err)
					}
				})
			}
		}
	}
}

// TestPlantedStore shows that Open refuses a dangling link and a FIFO as the file of the store.
func TestPlantedStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dangling, fifo := filepath.Join(dir, "dangling.db"), filepath.Join(dir, "fifo.db")
	must(t, os.Symlink("nowhere", dangling))
	must(t, syscall.Mkfifo(fifo, 0o666))
	for path, want := range map[string]string{
		dangling: "create the store: " + dangling + " is a symbolic link, not a regular file",
		fifo:     fifo + " is a FIFO, not a regular file",
	} {
		_, err := sqlite.Open(t.Context(), sqlite.Config{Path: path})
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "nowhere")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the target of the link: %v, want %v", err, fs.ErrNotExist)
	}
}

// TestModes shows that a server warns of exactly the files that other users can read or write.
func TestModes(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plants.db")
	must(t, sqlitetest.Open(t, sqlite.Config{Path: path}).Close())
	const shared = fs.ModeSetgid | 0o770 // for a group, as Kubernetes sets it with the fsGroup of a pod
	for _, test := range []struct {
		dir, mode fs.FileMode
		want      string // mode in the warnings; "" for no warning
	}{
		{0o770, 0o600, ""},
		{0o770, 0o640, "-rw-r-----"},
		{0o770, 0o666, "-rw-rw-rw-"},
		{shared, 0o660, ""},
		{shared, 0o664, "-rw-rw-r--"},
	} {
		must(t, os.Chmod(filepath.Dir(path), test.dir))
		must(t, os.Chmod(path, test.mode))
		var log syncBuffer
		e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true, Log: slog.New(slog.NewTextHandler(&log, nil))})
		must(t, e.Close())
		var got []string
		for line := range strings.Lines(log.String()) {
			const warning = `level=WARN msg="other users have access to a file of the store: run chmod 600" `
			if _, attrs, ok := strings.Cut(line, warning); ok {
				got = append(got, strings.ReplaceAll(strings.TrimSpace(attrs), `"`, "")) // the log quotes a path with spaces
			}
		}
		var want []string
		if test.want != "" { // SQLite has created the WAL with the mode of the store
			for _, suffix := range []string{"", "-wal", "-shm"} {
				want = append(want, "file="+path+suffix+" mode="+test.want)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("mode %v in %v: warned of %q, want %q", test.mode, test.dir, got, want)
		}
	}
}

// TestPlantedBesideTemporary shows that a backup opens no file beside its temporary file, whose name other users can
// read: it ignores their links and their WAL of another store.
func TestPlantedBesideTemporary(t *testing.T) {
	t.Parallel()
	other := filepath.Join(t.TempDir(), "other.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: other, Server: true})
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(0, 1000)))
	wal, err := os.ReadFile(other + "-wal")
	must(t, err)
	victim := filepath.Join(t.TempDir(), "victim")
	for name, plant := range map[string]func(t *testing.T, temp string){
		"a link for the WAL":     func(t *testing.T, temp string) { must(t, os.Symlink(victim, temp+"-wal")) },
		"a link for the index":   func(t *testing.T, temp string) { must(t, os.Symlink(victim, temp+"-shm")) },
		"a link for the journal": func(t *testing.T, temp string) { must(t, os.Symlink(victim, temp+"-journal")) },
		"a directory":            func(t *testing.T, temp string) { must(t, os.Mkdir(temp+"-wal", 0o700)) },
		"a WAL":                  func(t *testing.T, temp string) { mustWrite(t, temp+"-wal", string(wal)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, dir := filepath.Join(t.TempDir(), "plants.db"), t.TempDir()
			e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
			must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(5000, 10)))
			planted := false
			backup := filepath.Join(dir, "backup.db")
			m, err := backupfile.Backup(t.Context(), path, backup, "", func(int64, int64) {
				temps, _ := filepath.Glob(filepath.Join(dir, ".backup.db.*"))
				if !planted && len(temps) == 1 {
					planted = true
					plant(t, temps[0])
				}
			})
			must(t, err)
			if !planted {
				t.Fatal("the test has not found the temporary file")
			}
			v, err := backupfile.VerifyFile(t.Context(), backup, nil)
			must(t, err)
			if len(v.Faults) > 0 || v.Plants != 10 || m.Plants != 10 {
				t.Errorf("the backup: %+v; its manifest: %+v", v, m)
			}
			if _, err := os.Lstat(victim); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the target of the link: %v, want %v", err, fs.ErrNotExist)
			}
		})
	}
}
