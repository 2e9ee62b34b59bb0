package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"sync/atomic"
	"syscall"

	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/store"
)

// The files of an open store must stay at their paths: the next process would not find a commit in a file that was
// removed or replaced, and another process could write at the same time without the index of the WAL or the lock of
// the server. So the engine checks the paths of the file and its WAL, which have the commit, before each
// acknowledgement, and all paths with each poll: five calls of lstat for each commit cost 5 % of the rate with 64
// connections. Plant Store never makes the database file smaller: if it is, another program has overwritten it.

// place is the path of an open file.
type place struct {
	path string
	file syscall.Stat_t

	holds bool         // commits
	grows bool         // the file never becomes smaller than size
	size  atomic.Int64 // size of the file when it was last checked
}

// placeDatabase adds the file that the writer has opened, and checks its owner and its paths.
func (e *Engine) placeDatabase() error {
	descriptor, err := e.writer.Descriptor()
	if err != nil {
		return err
	}
	p := &place{path: e.path, holds: true, grows: true} // the rollback of a journal may shorten it before the first check
	if err := syscall.Fstat(descriptor, &p.file); err != nil {
		return fmt.Errorf("stat %s: %w", p.path, err)
	}
	e.places = []*place{p}
	return dbfile.CheckFile(e.path, &p.file)
}

// placeBeside adds the file with that suffix, which was just opened.
func (e *Engine) placeBeside(suffix string) error {
	p := &place{path: e.path + suffix, holds: suffix == walSuffix}
	if err := syscall.Lstat(p.path, &p.file); err != nil {
		return fmt.Errorf("stat %s: %w", p.path, err)
	}
	if err := dbfile.CheckBeside(e.path, suffix); err != nil { // it may not have existed before
		return err
	}
	e.places = append(e.places, p)
	return nil
}

var errReplaced = errors.New("was replaced or removed after plantstore had opened it")

const walSuffix = "-wal"

// checkPlaces returns an error that wraps errReplaced if a file is no longer at its path, or was overwritten.
// Unless all is set, it looks only at those that hold commits.
func (e *Engine) checkPlaces(all bool) error {
	for _, p := range e.places {
		if !all && !p.holds {
			continue
		}
		size := p.size.Load() // before Lstat, because the file may grow
		var now syscall.Stat_t
		switch err := syscall.Lstat(p.path, &now); {
		case err == nil && now.Ino == p.file.Ino && now.Dev == p.file.Dev && (!p.grows || now.Size >= size):
			p.size.CompareAndSwap(size, now.Size)
		case err == nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
			return fmt.Errorf("%s %w", p.path, errReplaced)
		default:
			return fmt.Errorf("stat %s: %w", p.path, err)
		}
	}
	return nil
}

// checkNotReplaced is checkPlaces before a write. The caller has locked FILE-serve or the write ticket, so no restore
// can replace the file after the check.
func (e *Engine) checkNotReplaced() error {
	if err := e.checkPlaces(true); err != nil {
		return diskFault(fmt.Errorf("%w; start plantstore again", err))
	}
	return nil
}

// checkKept is checkPlaces after a write; its error wraps store.ErrBroken.
func (e *Engine) checkKept(all bool) error {
	switch err := e.checkPlaces(all); {
	case err == nil:
		return nil
	case errors.Is(err, errReplaced):
		return fmt.Errorf("%w: %w; put the store's files back or restore a backup before you start plantstore again",
			store.ErrRemoved, err)
	default:
		return fmt.Errorf("%w: %w", store.ErrBroken, err)
	}
}
