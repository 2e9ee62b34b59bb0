// Package dbfile is the SQLite file of a store and the files beside it: names, schema, commit mark, locks, and the rows
// that both the engine and package backupfile read.
package dbfile

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"plantstore/internal/safefile"
	"plantstore/internal/store"
)

// The suffixes of Plant Store's own files beside a store.
const (
	MarkSuffix    = "-mark"  // commit mark
	ServeSuffix   = "-serve" // lock of the server
	MoveSuffix    = "-move"  // shared by every process that may change the store, and locked by a move or a standby
	ticketSuffix  = "-ticket"
	promoteSuffix = "-promote"
	originSuffix  = "-origin"
)

// SQLiteSuffixes are the suffixes of SQLite's files beside a store.
var SQLiteSuffixes = []string{"-wal", "-shm", "-journal"}

var besideSuffixes = append(
	[]string{MarkSuffix, ServeSuffix, ticketSuffix, originSuffix, promoteSuffix, MoveSuffix}, SQLiteSuffixes...)

// RealPath resolves the symbolic links in a path, as SQLite does: the WAL, the commit mark and the lock files are
// beside the real file. If the file does not exist, RealPath resolves the links of the directory.
func RealPath(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

// Locate is RealPath for a store that will be written. It returns an error if the directory does not exist or is on a
// network file system, or if a link belongs to another user.
func Locate(path string) (string, error) {
	if err := safefile.RefuseForeignLinks(path); err != nil {
		return "", err
	}
	path = RealPath(path)
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return "", fmt.Errorf("the directory of the store: %w; create it, or use another path", err)
	case !info.IsDir():
		return "", fmt.Errorf("%s is not a directory", dir)
	}
	return path, refuseNetwork(dir)
}

// CheckNamed returns an error unless the path, which the user has entered, is a regular file.
func CheckNamed(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("%s is a directory: name a file in it", path)
	}
	return safefile.CheckRegular(path)
}

// CheckFile returns an error unless a process may write the store at path, whose file has the given properties. Another
// owner could read all plants and create tokens. A file with a second name, or one that is mounted, has a WAL and locks
// beside each of its paths, so processes would not see each other's commits.
func CheckFile(path string, file *syscall.Stat_t) error {
	if err := safefile.RefuseForeign(path, file.Uid); err != nil {
		return fmt.Errorf("%w: run plantstore as that user, or copy the file if you trust it", err)
	}
	return checkPaths(path, file)
}

// checkPaths returns an error if a file has more paths than this one.
func checkPaths(path string, file *syscall.Stat_t) error {
	switch {
	case file.Nlink > 1:
		return fmt.Errorf("%s has %d names (hard links), and only one may be used, because the WAL is beside it: "+
			"remove the other names", path, file.Nlink)
	case isMountPoint(path):
		return fmt.Errorf("%s is a mount point, so its WAL is not on the same volume: mount its directory instead", path)
	}
	return nil
}

// CheckBeside returns an error if a file with one of these suffixes beside a store is not a regular file, or belongs to
// another user than the store; without suffixes it checks all files. In a directory with other writers, a link would
// redirect writes to another file, a FIFO would block forever, and the owner of a WAL could change the store.
func CheckBeside(path string, suffixes ...string) error {
	if len(suffixes) == 0 {
		suffixes = besideSuffixes
	}
	for _, suffix := range suffixes {
		if err := safefile.CheckRegular(path + suffix); err != nil {
			return fmt.Errorf("%w: remove it", err)
		}
		if err := checkOwner(path, suffix); err != nil {
			return err
		}
	}
	return nil
}

// checkOwner returns an error if the file with that suffix beside a store belongs to another user than the store.
func checkOwner(path, suffix string) error {
	var file, beside syscall.Stat_t
	switch err := syscall.Lstat(path+suffix, &beside); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("stat %s: %w", path+suffix, err)
	case syscall.Lstat(path, &file) == nil && file.Uid == beside.Uid:
		return nil
	}
	if err := safefile.RefuseForeign(path+suffix, beside.Uid); err != nil {
		return fmt.Errorf("%w: remove it", err)
	}
	return nil
}

// WarnModes logs a warning for each file of a store that other users can read or write. SQLite creates a WAL with the
// mode of the store's file.
func WarnModes(path string, log *slog.Logger) {
	others := fs.FileMode(0o077)
	if dir, err := os.Stat(filepath.Dir(path)); err == nil && dir.Mode()&fs.ModeSetgid != 0 {
		others = 0o007 // the operator shares the directory with a group, as fsGroup of a Kubernetes pod does
	}
	for _, suffix := range append([]string{""}, besideSuffixes...) {
		info, err := os.Stat(path + suffix)
		if err == nil && info.Mode().Perm()&others != 0 {
			log.Warn("other users have access to a file of the store: run chmod 600",
				"file", path+suffix, "mode", info.Mode().Perm().String())
		}
	}
}

// HasWAL reports whether a store has a WAL that is not empty.
func HasWAL(path string) bool {
	wal, err := os.Stat(path + "-wal")
	return err == nil && wal.Size() > 0
}

// NoStore is the error for a path without a store.
func NoStore(path string) error {
	return fmt.Errorf("%w at %s", store.ErrNoStore, path)
}
