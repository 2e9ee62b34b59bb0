package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"plantstore/internal/safefile"
)

const (
	scratchPattern = ".plantstore-scratch-*"
	scratchLock    = "lock" // a file in each scratch directory, locked by the process that uses it
)

// scratch is the directory of a drill. The kernel releases its lock with the process, so that another one can remove
// the directory of a killed process.
type scratch struct {
	path string
	lock *os.File
}

// newScratch creates a scratch directory. The caller removes it.
func newScratch(parent string) (*scratch, error) {
	path, err := os.MkdirTemp(parent, scratchPattern)
	if err != nil {
		return nil, err
	}
	lock, err := newLock(filepath.Join(path, scratchLock))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(path))
	}
	return &scratch{path, lock}, nil
}

// newLock creates a locked file. It locks the file before it gives it its name: else removeUnused of another process
// could lock it first.
func newLock(path string) (*os.File, error) {
	lock, err := os.OpenFile(path+".new", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if err = tryLock(lock); err == nil {
		err = os.Rename(lock.Name(), path)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

func (s *scratch) remove() error { return errors.Join(os.RemoveAll(s.path), s.lock.Close()) }

func tryLock(f *os.File) error {
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// removeScratch removes the scratch directories of killed processes of the same user.
func (s *Service) removeScratch() {
	paths, _ := filepath.Glob(filepath.Join(s.config.Scratch, scratchPattern)) // the error is about the pattern
	for _, path := range paths {
		switch removed, err := removeUnused(path); {
		case err != nil:
			s.config.Log.Warn("could not remove the scratch directory of a killed drill", "file", path, "error", err)
		case removed:
			s.config.Log.Info("removed the scratch directory of a killed drill", "file", path)
		}
	}
}

// removeUnused removes a scratch directory unless a process uses it.
func removeUnused(path string) (removed bool, err error) {
	const idle = time.Hour // longer than a process needs to create the lock
	info, err := os.Lstat(path)
	if err != nil || !info.IsDir() || !safefile.OwnedHere(info) {
		return false, nil // another process has removed it, or created it
	}
	lock, err := safefile.OpenRegular(filepath.Join(path, scratchLock), os.O_WRONLY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist) && time.Since(info.ModTime()) > idle:
		return true, os.RemoveAll(path)
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	defer lock.Close()
	if tryLock(lock) != nil {
		return false, nil // in use
	}
	return true, os.RemoveAll(path)
}
