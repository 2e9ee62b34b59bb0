package sqlite_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/sqlitetest"
)

// TestMountedFile mounts the file of a store alone, as a container can, in a mount namespace of its own.
func TestMountedFile(t *testing.T) {
	t.Parallel()
	path, backup := filepath.Join(t.TempDir(), "plants.db"), filepath.Join(t.TempDir(), "backup.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path, Server: true})
	_, err := backupfile.Backup(t.Context(), path, backup, "", nil)
	must(t, err)
	mounted := filepath.Join(t.TempDir(), "mounted.db")
	mustWrite(t, mounted, "")
	var errOpen, errRead map[string]error
	err = mount(path, mounted, func() { errOpen, errRead = opens(t, mounted, backup), reads(t, mounted) })
	if errors.Is(err, unix.EPERM) {
		t.Skip("only root can mount")
	}
	must(t, err)
	want := mounted + " is a mount point, so its WAL is not on the same volume: mount its directory instead"
	for _, errs := range []map[string]error{errOpen, errRead} {
		for use, err := range errs {
			if err == nil || err.Error() != want {
				t.Errorf("%s: got %v, want %s", use, err, want)
			}
		}
	}
	if files, err := os.ReadDir(filepath.Dir(mounted)); err != nil || len(files) != 1 {
		t.Errorf("files %v, %v", files, err)
	}
	must(t, sqlitetest.Insert(t.Context(), e, sqlitetest.Batch(0, 1)))
	must(t, e.Close())
}

// mount calls do on a thread with a mount of its own, which ends with it.
func mount(from, to string, do func()) error {
	done := make(chan error, 1)
	go func() { // ends with do; this function waits for it
		runtime.LockOSThread() // never unlocked, so the runtime ends the thread
		err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		if err == nil {
			err = unix.Mount(from, to, "", unix.MS_BIND, "")
		}
		if err == nil {
			do()
		}
		done <- err
	}()
	return <-done
}
