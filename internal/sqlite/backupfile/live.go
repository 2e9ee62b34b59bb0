package backupfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"plantstore/internal/safefile"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/journal"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// Live is the store of a standby: it repeats the commits of another server, and other connections may read it
// meanwhile. No other process may change the store. A power cut takes back commits that are not on stable storage,
// which the standby repeats.
type Live struct {
	replay      *Replay
	serve, move *os.File // locks
	path        string
	file        syscall.Stat_t // at path when it was opened
}

// OpenLive opens the store at path. The caller closes it.
func OpenLive(ctx context.Context, path string) (_ *Live, err error) {
	if path, err = dbfile.Locate(path); err != nil {
		return nil, err
	}
	if err := cmp.Or(dbfile.CheckNamed(path), dbfile.CheckBeside(path)); err != nil {
		return nil, err
	}
	l := &Live{path: path}
	defer func() {
		if err != nil {
			l.unlock()
		}
	}()
	if l.serve, err = dbfile.LockServe(ctx, path); err != nil {
		return nil, err
	}
	if l.move, err = dbfile.LockMove(path, true); err != nil {
		return nil, err
	}
	c, err := sqlite3.Open(path)
	if err != nil {
		return nil, dbfile.OpenFault(path, err)
	}
	c.BusyTimeout(dbfile.BusyMilliseconds)
	if l.replay, err = newReplay(c, path, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL"); err != nil {
		return nil, err
	}
	descriptor, err := c.Descriptor()
	if err == nil {
		err = syscall.Fstat(descriptor, &l.file)
	}
	if err == nil {
		err = dbfile.CheckFile(path, &l.file)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return l, nil
}

// CheckPlace returns an error if the file was removed or replaced since it was opened: the next process would not find
// what Repeat stores.
func (l *Live) CheckPlace() error {
	var now syscall.Stat_t
	if err := syscall.Stat(l.path, &now); err != nil {
		return fmt.Errorf("stat %s: %w", l.path, err)
	}
	if now.Ino != l.file.Ino || now.Dev != l.file.Dev {
		return fmt.Errorf("%s was replaced", l.path)
	}
	return nil
}

// Repeat repeats commits in one transaction: all or, after an error, none.
func (l *Live) Repeat(ctx context.Context, commits func(*Replay) error) error {
	err := l.replay.do(ctx, commits)
	if err != nil {
		_ = l.replay.conn.Exec("ROLLBACK") // fails if none has begun
	}
	if fault, ok := errors.AsType[*sqlite3.Error](err); ok && fault.Full() {
		err = fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	return err
}

// Commits returns the number of the last commit, and the history after it.
func (l *Live) Commits() (commits int64, history journal.History, err error) {
	s, err := dbfile.ReadState(l.replay.conn)
	if err == nil {
		history, _, err = dbfile.HistoryOf(l.replay.conn)
	}
	return s.Commits, history, err
}

// Close closes the store.
func (l *Live) Close() error {
	defer l.unlock()
	return l.replay.conn.Close()
}

func (l *Live) unlock() {
	_ = l.serve.Close()
	_ = l.move.Close() // returns an error if it is nil
}

// SetAside gives a store and what belongs to it another name in its directory, which it returns. No process may have it
// open.
func SetAside(ctx context.Context, path string) (aside string, err error) {
	if path, err = dbfile.Locate(path); err != nil {
		return "", err
	}
	lock, err := dbfile.LockServe(ctx, path)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := checkpointOld(path); err != nil {
		return "", err
	}
	aside = path + "-set-aside-" + time.Now().UTC().Format("20060102T150405.000Z")
	if _, err := os.Lstat(aside); !errors.Is(err, fs.ErrNotExist) {
		return "", errors.Join(err, fmt.Errorf("%s: %w", aside, fs.ErrExist))
	}
	if err := removeBeside(path); err != nil {
		return "", err
	}
	if err := os.Rename(path, aside); err != nil {
		return "", err
	}
	return aside, safefile.SyncDir(filepath.Dir(path))
}
