package sqlite

import (
	"bytes"
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

// FILE-mark remembers the number of the last commit that was acknowledged. The
// file itself cannot: a WAL that was deleted, replaced by that of another store
// or damaged takes back the last commits with everything that could tell of
// them, and what is left is in perfect order.
//
// The mark is written after each commit and before anybody hears of it, but not
// synced, which would double the cost of a commit. So it is exact when the
// process was killed. After a power cut it may be older than the store, and
// finds less; it is never newer.
const (
	markSuffix = "-mark"
	markMagic  = "plntmark"
	markBytes  = 28 // magic, store, commits, CRC-32C of these
)

// mark is what FILE-mark says.
type mark struct{ store, commits int64 }

func (m mark) encode() []byte {
	b := append(make([]byte, 0, markBytes), markMagic...)
	b = binary.BigEndian.AppendUint64(b, uint64(m.store))
	b = binary.BigEndian.AppendUint64(b, uint64(m.commits))
	return binary.BigEndian.AppendUint32(b, store.Checksum(b))
}

// errNoMark means that a store has no mark: it is new, a copy or a backup, or
// its operator took the mark away to go on with what is there.
var errNoMark = errors.New("no mark")

// readMark reads a mark. Another process may be writing it, so it looks again
// before it takes it for damaged.
func readMark(path string) (m mark, err error) {
	for range 3 {
		b, err := readSmall(path+markSuffix, markBytes)
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
		time.Sleep(commandPoll)
	}
	return mark{}, fmt.Errorf("%s is damaged: if plantstore verify reports no other damage, remove it", path+markSuffix)
}

// readSmall reads a file, but not more than a byte beyond a length: a longer file is not what the caller looks for.
func readSmall(path string, bytesMax int64) ([]byte, error) {
	f, err := safefile.OpenRegular(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, bytesMax+1))
}

// check compares a mark with the state of the store. The error says what to do.
func (m mark) check(path string, s state) error {
	switch {
	case m.store != s.store:
		return fmt.Errorf("%s is another store than before, or its WAL belongs to another store: if that is intended, remove %s", path, path+markSuffix)
	case m.commits > s.commits:
		return fmt.Errorf("%s has lost acknowledged plants: its last commit is %d, and commit %d was acknowledged; its WAL (%s-wal) was removed, replaced or damaged. Put the WAL back or restore a backup; to continue without the lost plants, remove %s",
			path, s.commits, m.commits, path, path+markSuffix)
	}
	return nil
}

// storeName is how users read the number of a store.
func storeName(store int64) string { return fmt.Sprintf("%016x", uint64(store)) }

var errNoState = fmt.Errorf("%w: the table state has no row", store.ErrBroken)

// state is the one row of that table.
type state struct{ store, commits, plants, digests, tokenDigests int64 }

func readState(c *sqlite3.Conn) (state, error) {
	s, err := c.Prepare("SELECT store, commits, plants, digests, token_digests FROM state")
	if err != nil {
		return state{}, err
	}
	defer s.Close()
	ok, err := s.Step()
	if err == nil && !ok {
		err = errNoState
	}
	if err != nil {
		return state{}, err
	}
	return state{s.Int64(0), s.Int64(1), s.Int64(2), s.Int64(3), s.Int64(4)}, nil
}

// checkMark reads the state of a store and holds it against the mark; wrong is
// what the mark says against it. A transaction of the connection must not have
// read anything yet: the mark is read first, for a server moves both.
func checkMark(c *sqlite3.Conn, path string) (s state, wrong, err error) {
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

// openMark begins to keep the mark.
func (e *Engine) openMark() (err error) {
	s, err := readState(e.writer)
	if err != nil {
		return err
	}
	if e.markFile, err = openLock(e.path + markSuffix); err != nil {
		return err
	}
	e.store = s.store
	if !e.server && served(e.path) {
		return nil // the server keeps it
	}
	if err := e.putMark(s.commits); err != nil {
		return err
	}
	return e.markFile.Sync()
}

// putMark notes that a commit may be acknowledged. Two processes that commit
// one after the other may do this in the other order; the next commit mends it.
func (e *Engine) putMark(commits int64) error {
	_, err := e.markFile.WriteAt(mark{e.store, commits}.encode(), 0)
	return err
}

// closeMark makes the mark durable, so that what happens to a stopped store is
// noticed after a power cut, too.
func (e *Engine) closeMark() error {
	if e.markFile == nil {
		return nil
	}
	return errors.Join(e.markFile.Sync(), e.markFile.Close())
}
