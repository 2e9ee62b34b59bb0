package sqlite

import (
	"errors"
	"fmt"
	"syscall"

	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// errReadOnly is the error of every write of a read-only engine.
var errReadOnly = errors.New("the store is open for reading only")

// classify wraps an error of SQLite in the matching error of package store.
func classify(err error) error {
	if err == nil {
		return nil
	}
	var fault *sqlite3.Error
	switch {
	case !errors.As(err, &fault):
		return err
	case fault.Busy():
		return fmt.Errorf("%w: %w", store.ErrBusy, err)
	case fault.Full():
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	case fault.Interrupted():
		return err
	default: // I/O errors, damage and unexpected errors
		return fmt.Errorf("%w: %w", store.ErrBroken, err)
	}
}

// diskFault wraps the error of a full disk in store.ErrFull, and the error of a failed disk or a damaged file in
// store.ErrBroken.
func diskFault(err error) error {
	var fault *sqlite3.Error
	isFault := errors.As(err, &fault)
	kind := error(nil)
	switch {
	case isFault && fault.Full():
		kind = store.ErrFull
	case isFault && (fault.IO() || fault.Corrupt()), errors.Is(err, syscall.EIO):
		kind = store.ErrBroken
	}
	if kind == nil || errors.Is(err, kind) {
		return err
	}
	return fmt.Errorf("%w: %w", kind, err)
}
