package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// TestVersion shows that the linked SQLite is one without a defect that can corrupt the WAL when two connections write
// and checkpoint concurrently (https://sqlite.org/wal.html, "The WAL-reset bug").
func TestVersion(t *testing.T) {
	t.Parallel()
	if got := sqlite3.Version(); got < 3_051_003 {
		t.Errorf("SQLite %d can corrupt a store: at least 3051003 is required", got)
	}
	if got := Version(); !strings.HasPrefix(got, "3.") {
		t.Errorf("Version() = %q", got)
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	other := errors.New("other")
	for _, test := range []struct {
		code int
		want error // nil: only the error itself
	}{
		{5, store.ErrBusy},           // SQLITE_BUSY
		{5 | 2<<8, store.ErrBusy},    // SQLITE_BUSY_SNAPSHOT
		{6, store.ErrBusy},           // SQLITE_LOCKED
		{9, nil},                     // SQLITE_INTERRUPT
		{10, store.ErrBroken},        // SQLITE_IOERR
		{10 | 4<<8, store.ErrBroken}, // SQLITE_IOERR_FSYNC
		{11, store.ErrBroken},        // SQLITE_CORRUPT
		{13, store.ErrFull},          // SQLITE_FULL
	} {
		fault := &sqlite3.Error{Op: "step", Code: test.code, Message: "words"}
		got := classify(fault)
		if !errors.Is(got, fault) {
			t.Errorf("code %d: %v does not wrap the error", test.code, got)
		}
		for _, kind := range []error{store.ErrBusy, store.ErrFull, store.ErrBroken} {
			if errors.Is(got, kind) != (test.want != nil && errors.Is(test.want, kind)) {
				t.Errorf("code %d: %v, want it to wrap only %v", test.code, got, test.want)
			}
		}
	}
	if got := classify(other); !errors.Is(got, other) || errors.Is(got, store.ErrBroken) {
		t.Errorf("another error: %v", got)
	}
}

func TestDiskFault(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want error // nil: only the error itself
	}{
		{&sqlite3.Error{Code: 10 | 4<<8}, store.ErrBroken}, // SQLITE_IOERR_FSYNC
		{&sqlite3.Error{Code: 11}, store.ErrBroken},        // SQLITE_CORRUPT
		{&os.PathError{Op: "fsync", Path: "plants.db-mark", Err: syscall.EIO}, store.ErrBroken},
		{&sqlite3.Error{Code: 10 | 19<<8, Errno: syscall.EIO}, store.ErrBroken},  // SQLITE_IOERR_SHMSIZE
		{&sqlite3.Error{Code: 10 | 19<<8, Errno: syscall.ENOSPC}, store.ErrFull}, // SQLITE_IOERR_SHMSIZE
		{&sqlite3.Error{Code: 10 | 3<<8, Errno: syscall.EDQUOT}, store.ErrFull},  // SQLITE_IOERR_WRITE
		{&sqlite3.Error{Code: 13}, store.ErrFull},                                // SQLITE_FULL
		{&sqlite3.Error{Code: 14}, nil},                                          // SQLITE_CANTOPEN
		{&sqlite3.Error{Code: 26}, nil},                                          // SQLITE_NOTADB
		{os.ErrPermission, nil},
	} {
		got := diskFault(test.err)
		if !errors.Is(got, test.err) || errors.Is(got, store.ErrBroken) != errors.Is(test.want, store.ErrBroken) ||
			errors.Is(got, store.ErrFull) != errors.Is(test.want, store.ErrFull) {
			t.Errorf("%v: got %v, want it to wrap %v", test.err, got, test.want)
		}
	}
}

// TestJournalIsFull fills the journal: it starts a new history, and later commits empty it.
func TestJournalIsFull(t *testing.T) {
	t.Parallel()
	e, err := Open(t.Context(), Config{Path: filepath.Join(t.TempDir(), "plantstore.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	e.recorder.bytesMax = 1000
	_, started, err := e.StartJournal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const commits = 200
	for id := range int64(commits) {
		create := store.Create{Plant: plant.NewPlant{ID: id, Plant: plant.Plant{Name: "Rosa canina"}}, At: time.Now()}
		if _, err := e.Insert(t.Context(), []store.Create{create}); err != nil {
			t.Fatal(err)
		}
	}
	previous, all, err := e.Journal(t.Context(), 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	bytes := int64(0)
	for _, c := range all {
		bytes += int64(len(c.Changes))
	}
	stored, err := e.reader.QueryInt("SELECT journal_bytes FROM plantstore")
	if err != nil || previous == started || bytes > e.recorder.bytesMax || stored != bytes {
		t.Errorf("the journal has %d bytes, %d in the state, and the history of its start: %v, %v",
			bytes, stored, previous == started, err)
	}
}
