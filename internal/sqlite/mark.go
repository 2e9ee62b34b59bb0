package sqlite

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"plantstore/internal/safefile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// FILE-mark has the commit mark: the number of the last acknowledged commit. It detects lost
// commits, which the store itself cannot: without its WAL, or with the WAL of another store,
// the file is an intact older state.
//
// The engine writes the mark after each commit and before the acknowledgement. It does not
// sync the mark, which would double the cost of a commit. So the mark is exact after a kill.
// After a power cut it may be older than the store and detect less; it is never newer.
const (
	markSuffix = "-mark"
	markMagic  = "plntmark"
	markBytes  = 28 // magic, store, commits, CRC-32C of these
)

// commitMark is the content of FILE-mark.
type commitMark struct{ store, commits int64 }

func (m commitMark) encode() []byte {
	b := append(make([]byte, 0, markBytes), markMagic...)
	b = binary.BigEndian.AppendUint64(b, uint64(m.store))
	b = binary.BigEndian.AppendUint64(b, uint64(m.commits))
	return binary.BigEndian.AppendUint32(b, store.Checksum(b))
}

// errNoMark means that a store has no mark: it is new, a copy or a backup, or the operator
// has removed the mark to continue without the lost plants.
var errNoMark = errors.New("no mark")

// readMark reads a mark. It retries before it returns that the mark is damaged, because
// another process may be writing it.
func readMark(path string) (m commitMark, err error) {
	for range 3 {
		b, err := readSmall(path+markSuffix, markBytes)
		if errors.Is(err, os.ErrNotExist) || err == nil && len(b) == 0 {
			return commitMark{}, errNoMark
		}
		if err != nil {
			return commitMark{}, err
		}
		if len(b) == markBytes {
			m = commitMark{int64(binary.BigEndian.Uint64(b[8:])), int64(binary.BigEndian.Uint64(b[16:]))}
			if bytes.Equal(b, m.encode()) {
				return m, nil
			}
		}
		time.Sleep(commandPoll)
	}
	return commitMark{}, fmt.Errorf("%s is damaged: if plantstore verify reports no other damage, remove it",
		path+markSuffix)
}

// readSmall reads at most one byte more than bytesMax, so that the caller can refuse a longer
// file.
func readSmall(path string, bytesMax int64) ([]byte, error) {
	f, err := safefile.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, bytesMax+1))
}

// check returns an error if the store at path, which has state s, is another store than the
// mark's or has lost acknowledged commits.
func (m commitMark) check(path string, s state) error {
	switch {
	case m.store != s.store:
		return fmt.Errorf("%s is another store than before, or its WAL belongs to another store: "+
			"if that is intended, remove %s", path, path+markSuffix)
	case m.commits > s.commits:
		return fmt.Errorf("%s has lost acknowledged plants: its last commit is %d, and commit %d was acknowledged; "+
			"its WAL (%s-wal) was removed, replaced or damaged. Put the WAL back or restore a backup; "+
			"to continue without the lost plants, remove %s",
			path, s.commits, m.commits, path, path+markSuffix)
	}
	return nil
}

// refuseNew returns an error if a new store at path would replace a lost one: the file was removed or emptied, and
// its mark was not.
func refuseNew(path string) error {
	m, err := readMark(path)
	switch {
	case errors.Is(err, errNoMark), err == nil && m.commits == 0:
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%w: %s is missing or empty, and commit %d was acknowledged: "+
		"put the file and its WAL back, or restore a backup; to start with an empty store, remove %s",
		store.ErrBroken, path, m.commits, path+markSuffix)
}

// storeName returns the number of a store as users see it.
func storeName(store int64) string { return fmt.Sprintf("%016x", uint64(store)) }

var errNoState = fmt.Errorf("%w: the table state has no row", store.ErrBroken)

// state is the row of the table state.
type state struct{ store, commits, plants, digests, tokenDigests int64 }

func readState(c *sqlite3.Conn) (st state, err error) {
	err = stateRow(c, "store, commits, plants, digests, token_digests", func(s *sqlite3.Stmt) {
		st = state{s.Int64(0), s.Int64(1), s.Int64(2), s.Int64(3), s.Int64(4)}
	})
	return st, err
}

// stateRow calls read with columns of the table state.
func stateRow(c *sqlite3.Conn, columns string, read func(*sqlite3.Stmt)) error {
	found, err := c.Row("SELECT "+columns+" FROM state", read)
	if err == nil && !found {
		err = errNoState
	}
	return err
}

// checkMark reads the state of a store and compares it with the mark; fault is the
// difference. It reads the mark first, because a server changes both. So the connection must
// not have read anything in its transaction.
func checkMark(c *sqlite3.Conn, path string) (s state, fault, err error) {
	m, errMark := readMark(path)
	if s, err = readState(c); err != nil {
		return s, nil, err
	}
	switch {
	case errors.Is(errMark, errNoMark):
		return s, nil, nil
	case errors.Is(errMark, os.ErrPermission):
		return s, nil, notWritable(path+markSuffix, errMark)
	case errMark != nil:
		return s, errMark, nil
	}
	return s, m.check(path, s), nil
}

// openMark opens FILE-mark and writes the current mark. A command locks the write ticket for
// this: the mark of a replaced file would be wrong for the new one.
func (e *Engine) openMark(ctx context.Context) (err error) {
	s, err := readState(e.writer)
	if err != nil {
		return err
	}
	if e.markFile, err = openLock(e.path, markSuffix); err != nil {
		return err
	}
	e.store = s.store
	if !e.server {
		if served(e.path) {
			return nil // the server writes it
		}
		if err := e.lockTicket(ctx); err != nil {
			return err
		}
		defer e.unlockTicket()
	}
	if err := e.writeMark(s.commits); err != nil {
		return err
	}
	return e.markFile.Sync()
}

// writeMark writes the number of a commit that may be acknowledged. Two processes may write
// the marks of their commits in reverse order; the next commit corrects that.
func (e *Engine) writeMark(commits int64) error {
	_, err := e.markFile.WriteAt(commitMark{e.store, commits}.encode(), 0)
	return err
}

// closeMark syncs the mark, so that it also detects lost commits of a stopped store after a
// power cut.
func (e *Engine) closeMark() error {
	if e.markFile == nil {
		return nil
	}
	return errors.Join(e.markFile.Sync(), e.markFile.Close())
}
