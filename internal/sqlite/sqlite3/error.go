package sqlite3

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Error is an error of SQLite (https://sqlite.org/rescode.html).
type Error struct {
	Op      string        // the statement, or the name of the call
	Code    int           // the extended result code
	Message string        // SQLite's message
	Errno   syscall.Errno // the error of the operating system; 0 if SQLite does not report one
}

// Unwrap returns the error of the operating system, or nil.
func (e *Error) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

func (e *Error) Error() string {
	const runesMax = 60
	op := []rune(strings.Join(strings.Fields(e.Op), " ")) // statements span lines
	if len(op) > runesMax {
		op = append(op[:runesMax], '…')
	}
	cause := ""
	if e.Errno != 0 {
		cause = e.Errno.Error() + "; "
	}
	return fmt.Sprintf("%s: %s (%sSQLite error %d)", string(op), e.Message, cause, e.Code)
}

func (e *Error) primary() int { return e.Code & 0xff }

// IsBusy reports whether err is an Error for which Busy reports true.
func IsBusy(err error) bool {
	var fault *Error
	return errors.As(err, &fault) && fault.Busy()
}

// Busy reports whether another connection has a lock that the call needs.
func (e *Error) Busy() bool {
	return e.primary() == lib.SQLITE_BUSY || e.primary() == lib.SQLITE_LOCKED
}

// Full reports whether the disk is full (ENOSPC) or a quota is exhausted (EDQUOT). SQLite reports some of these as I/O
// errors: a quota, and no space for the index of the WAL, as at the start.
func (e *Error) Full() bool {
	noSpace := e.Errno == syscall.ENOSPC || e.Errno == syscall.EDQUOT
	return e.primary() == lib.SQLITE_FULL ||
		noSpace && (e.Code == lib.SQLITE_IOERR_WRITE || e.Code == lib.SQLITE_IOERR_SHMSIZE)
}

// NotWritable reports whether the mode, the owner or the file system of the file or its directory forbids writing or
// opening it.
func (e *Error) NotWritable() bool {
	denied := e.Errno == syscall.EACCES || e.Errno == syscall.EPERM || e.Errno == syscall.EROFS
	return e.primary() == lib.SQLITE_READONLY || e.Code == lib.SQLITE_CANTOPEN && denied
}

// Interrupted reports whether Interrupt ended the call.
func (e *Error) Interrupted() bool { return e.primary() == lib.SQLITE_INTERRUPT }

// IO reports whether the operating system returned an error for which SQLite has no specific code.
func (e *Error) IO() bool { return e.primary() == lib.SQLITE_IOERR }

// Corrupt reports whether the file is damaged.
func (e *Error) Corrupt() bool { return e.primary() == lib.SQLITE_CORRUPT }

// NotDatabase reports whether the file is not an SQLite database.
func (e *Error) NotDatabase() bool { return e.primary() == lib.SQLITE_NOTADB }

// check returns nil for SQLITE_OK.
func (c *Conn) check(op string, code int32) error {
	if code == lib.SQLITE_OK {
		return nil
	}
	return c.newError(op, code)
}

// newError returns the error of the call that just returned code.
func (c *Conn) newError(op string, code int32) *Error {
	err := &Error{Op: op, Code: int(code), Message: libc.GoString(lib.Xsqlite3_errmsg(c.tls, c.db))}
	if code == lib.SQLITE_CANTOPEN || err.IO() && code != lib.SQLITE_IOERR_FSYNC { // syncData does not set libc's errno
		err.Errno = syscall.Errno(lib.Xsqlite3_system_errno(c.tls, c.db))
	}
	return err
}

// codeError returns the error of a result code that no connection stores.
func codeError(tls *libc.TLS, op string, code int32) *Error {
	return &Error{Op: op, Code: int(code), Message: libc.GoString(lib.Xsqlite3_errstr(tls, code))}
}
