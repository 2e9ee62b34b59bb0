package dbfile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"

	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// BusyMilliseconds is the time that a reading connection waits for the short locks of recovery.
const BusyMilliseconds = 2000

// OpenForReading opens a store for reading. If the WAL has frames, the connection is read-only, so that Close keeps the
// WAL. Otherwise it is writable, so that Close removes the empty WAL that SQLite creates.
func OpenForReading(path string) (*sqlite3.Conn, error) {
	if err := cmp.Or(CheckNamed(path), CheckBeside(path)); err != nil {
		return nil, err
	}
	if HasWAL(path) {
		return open(path, sqlite3.OpenReadOnly)
	}
	if err := refuseAlias(path); err != nil {
		return nil, err
	}
	return open(path, sqlite3.Open)
}

// refuseAlias returns an error if a store without a WAL has a second path, which may have one. A backup has none.
func refuseAlias(path string) error {
	var file syscall.Stat_t
	if err := syscall.Stat(path, &file); err != nil {
		return fmt.Errorf("stat %s: %w", path, err)
	}
	alias := checkPaths(path, &file)
	if alias == nil {
		return nil
	}
	c, err := OpenImmutable(path)
	if err != nil {
		return err
	}
	readVersion, err := c.QueryText("SELECT hex(substr(data, 20, 1)) FROM sqlite_dbpage WHERE pgno = 1")
	if err != nil || readVersion != "02" { // another fault of the file is for the caller
		alias = nil
	}
	return errors.Join(alias, c.Close())
}

// OpenImmutable opens the file of a store for reading, without its WAL. The file must not change while it is open.
func OpenImmutable(path string) (*sqlite3.Conn, error) { return open(path, sqlite3.OpenImmutable) }

func open(path string, how func(string) (*sqlite3.Conn, error)) (*sqlite3.Conn, error) {
	c, err := how(path)
	if err != nil {
		return nil, OpenFault(path, err)
	}
	c.BusyTimeout(BusyMilliseconds)
	err = c.Exec(`
		PRAGMA query_only = ON;
		PRAGMA cell_size_check = ON;
		PRAGMA trusted_schema = OFF;
		PRAGMA ignore_check_constraints = ON;
	`)
	if err != nil {
		return nil, errors.Join(OpenFault(path, err), c.Close())
	}
	return c, nil
}

// CheckHeader returns an error if the write version in the header makes SQLite treat the file as read-only (section
// 1.3.3 of SQLite's file format). No integrity check finds that.
func CheckHeader(c *sqlite3.Conn) error {
	version, err := c.QueryText("SELECT hex(substr(data, 19, 1)) FROM sqlite_dbpage WHERE pgno = 1")
	switch {
	case err != nil:
		return err
	case version == "01", version == "02", version == "": // an empty file has no header
		return nil
	}
	return fmt.Errorf("its header has the write version 0x%s, want 0x01 or 0x02", version)
}

// OpenFault explains the usual errors of the first access to a file.
func OpenFault(path string, err error) error {
	var fault *sqlite3.Error
	switch {
	case errors.As(err, &fault) && fault.NotDatabase():
		return fmt.Errorf("%s is not a plant store: it is not an SQLite database", path)
	case errors.As(err, &fault) && fault.NotWritable():
		return NotWritable(path, err)
	case errors.As(err, &fault) && fault.Full():
		return fmt.Errorf("open %s: %w: %w", path, store.ErrFull, err)
	}
	return fmt.Errorf("open %s: %w", path, err)
}

// NotWritable returns an error with advice; the cause may be nil.
func NotWritable(path string, cause error) error {
	const advice = "check the owner and the mode of the file and of its directory"
	if cause == nil {
		return fmt.Errorf("%s is not writable: %s", path, advice)
	}
	return fmt.Errorf("%s is not writable: %s: %w", path, advice, cause)
}

// Read calls do with a connection to the store at path, and interrupts it when ctx ends.
func Read(ctx context.Context, path string, do func(c *sqlite3.Conn) error) error {
	c, err := OpenForReading(path)
	if err != nil {
		return err
	}
	return errors.Join(c.During(ctx, func() error { return do(c) }), c.Close())
}
