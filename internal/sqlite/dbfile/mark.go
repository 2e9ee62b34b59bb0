package dbfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"plantstore/internal/safefile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// FILE-mark stores the commit mark: the number of the last acknowledged commit. It detects lost commits, which the
// store itself cannot: without its WAL, or with the WAL of another store, the file is an intact older state.
//
// The engine writes the mark after each commit and before the acknowledgement. It does not sync the mark, which would
// double the cost of a commit. So the mark is exact after a kill. After a power cut it may be older than the store, and
// then it detects less; it is never newer.
const (
	markMagic = "plntmark"
	markBytes = 28 // magic, store, commits, CRC-32C of these
)

// mark is the content of FILE-mark.
type mark struct{ store, commits int64 }

func (m mark) encode() []byte {
	b := append(make([]byte, 0, markBytes), markMagic...)
	b = binary.BigEndian.AppendUint64(b, uint64(m.store))
	b = binary.BigEndian.AppendUint64(b, uint64(m.commits))
	return binary.BigEndian.AppendUint32(b, store.Checksum(b))
}

// errNoMark means that a store has no mark: it is new, a copy or a backup, or the operator removed the mark to continue
// without the lost plants.
var errNoMark = errors.New("no mark")

// readMark reads a mark. It retries if the mark is damaged, because another process may be writing it.
func readMark(path string) (m mark, err error) {
	for range 3 {
		b, err := safefile.ReadSmall(path+MarkSuffix, markBytes)
		if errors.Is(err, os.ErrNotExist) || err == nil && len(b) == 0 {
			return mark{}, errNoMark
		}
		if err != nil {
			return mark{}, err
		}
		if len(b) == markBytes {
			m = mark{int64(binary.BigEndian.Uint64(b[8:])), int64(binary.BigEndian.Uint64(b[16:]))}
			if bytes.Equal(b, m.encode()) {
				return m, nil
			}
		}
		time.Sleep(CommandPoll)
	}
	return mark{}, fmt.Errorf("%s is damaged: if plantstore verify reports no other damage, remove it",
		path+MarkSuffix)
}

// RefuseNew returns an error if a new store at path would replace a lost one: the file was removed or emptied, and its
// mark was not.
func RefuseNew(path string) error {
	m, err := readMark(path)
	switch {
	case errors.Is(err, errNoMark), err == nil && m.commits == 0:
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%w: %s is missing or empty, and commit %d was acknowledged: "+
		"put the file and its WAL back, or restore a backup with --force; to start with an empty store, remove %s",
		store.ErrBroken, path, m.commits, path+MarkSuffix)
}

// CheckMark reads the state of a store and compares it with the mark; fault describes the difference. A server changes
// both, so CheckMark reads the mark first, and the connection must not have started to read in its transaction.
func CheckMark(c *sqlite3.Conn, path string) (s State, fault, err error) {
	m, errMark := readMark(path)
	if s, err = ReadState(c); err != nil {
		return s, nil, err
	}
	switch {
	case errors.Is(errMark, errNoMark):
		return s, nil, nil
	case errors.Is(errMark, os.ErrPermission):
		return s, nil, NotWritable(path+MarkSuffix, errMark)
	case errMark != nil:
		return s, errMark, nil
	case m.store != s.Store:
		fault = fmt.Errorf("%s is another store than before, or its WAL belongs to another store: "+
			"if that is intended, remove %s", path, path+MarkSuffix)
	case m.commits > s.Commits:
		fault = fmt.Errorf("%s has lost acknowledged plants: its last commit is %d, and commit %d was acknowledged; "+
			"its WAL (%s-wal) was removed, replaced or damaged. Put the WAL back or restore a backup; "+
			"to continue without the lost plants, remove %s",
			path, s.Commits, m.commits, path, path+MarkSuffix)
	}
	return s, fault, nil
}

// Mark is FILE-mark, open for writing.
type Mark struct {
	file  *os.File
	store int64
}

// OpenMark opens the mark of a store, or creates an empty one. The caller closes it.
func OpenMark(path string, s State) (*Mark, error) {
	f, err := openLock(path, MarkSuffix)
	if err != nil {
		return nil, err
	}
	return &Mark{f, s.Store}, nil
}

// Write writes the number of a commit that may be acknowledged. Two processes may write the marks of their commits in
// reverse order; the next commit corrects that.
func (m *Mark) Write(commits int64) error {
	_, err := m.file.WriteAt(mark{m.store, commits}.encode(), 0)
	return err
}

// Sync syncs the mark.
func (m *Mark) Sync() error { return m.file.Sync() }

// Close syncs and closes the mark: for a stopped store, it also detects commits that a power cut lost. Closing a nil
// mark does nothing.
func (m *Mark) Close() error {
	if m == nil {
		return nil
	}
	return errors.Join(m.file.Sync(), m.file.Close())
}
