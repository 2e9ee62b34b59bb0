// Package sqlite3 is SQLite's C interface, as much of it as the engine uses,
// over modernc.org/sqlite/lib: SQLite translated to Go, so no C compiler is
// needed and nothing is linked.
//
// It stands in for database/sql because the engine needs what that hides: one
// writing connection that is always the same, checkpoints by name, the change
// count of each row, and no allocation a bound value.
//
// A Conn and its statements are for one goroutine at a time; only Interrupt
// may be called from another.
package sqlite3

import (
	"fmt"
	"strings"
	"syscall"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Conn is one connection to a database file.
type Conn struct {
	tls *libc.TLS
	db  uintptr // sqlite3*
	out uintptr // C memory of outBytes for results by pointer
}

// The layout of Conn.out: two results of a call, what the WAL hook notes, and
// two variable arguments.
const (
	outFrames = 8
	outArgs   = 16
	outBytes  = 32
)

// Open opens the database file at path for reading and writing, and creates
// it if it is not there. The caller closes the connection. The error is an
// *Error. No connection of this package reads a view that is in the file: it may
// be a query without an end.
func Open(path string) (*Conn, error) {
	return open(path, defaultVFS, lib.SQLITE_OPEN_READWRITE|lib.SQLITE_OPEN_CREATE)
}

// OpenBuffered opens the database file at path like Open, for a connection that
// commits or checkpoints often. It writes the frames of a commit into the WAL in
// few calls, and syncs the database while a checkpoint writes it, not only at the
// end; see writeBuffer. On Linux it syncs by fdatasync.
//
// The connection must keep SQLite's default of synchronous = FULL: there each
// commit in WAL mode syncs the WAL, and so flushes the buffer, before another
// connection can read its frames.
func OpenBuffered(path string) (*Conn, error) {
	vfs, err := registerVFS()
	if err != nil {
		return nil, err
	}
	return open(path, vfs, lib.SQLITE_OPEN_READWRITE|lib.SQLITE_OPEN_CREATE)
}

// OpenToRead opens the database file at path, which must be there, for reading
// only. What a WAL beside it holds is read, too, and stays where it is. The
// caller closes the connection. The error is an *Error.
func OpenToRead(path string) (*Conn, error) {
	return open(path, defaultVFS, lib.SQLITE_OPEN_READONLY)
}

// OpenImmutable opens the database file at path, which must be there and which nothing changes meanwhile, for reading only.
// Files beside it count for nothing: a journal or a WAL is neither read nor rolled back. The caller closes the
// connection. The error is an *Error.
func OpenImmutable(path string) (*Conn, error) {
	return open(immutableURI(path), defaultVFS, lib.SQLITE_OPEN_READONLY|lib.SQLITE_OPEN_URI)
}

// immutableURI returns a path in the form of https://sqlite.org/uri.html.
func immutableURI(path string) string {
	var uri strings.Builder
	uri.WriteString("file:")
	if strings.HasPrefix(path, "/") {
		uri.WriteString("//") // an empty authority, lest a path that begins with // be taken for one
	}
	for i := range len(path) {
		switch path[i] {
		case '%', '?', '#':
			fmt.Fprintf(&uri, "%%%02X", path[i])
		default:
			uri.WriteByte(path[i])
		}
	}
	uri.WriteString("?immutable=1")
	return uri.String()
}

// defaultVFS is SQLite's own, as the name of a VFS.
const defaultVFS uintptr = 0

func open(path string, vfs uintptr, flags int32) (*Conn, error) {
	c := &Conn{tls: libc.NewTLS()}
	c.out = libc.Xcalloc(c.tls, 1, outBytes)
	name, err := libc.CString(path)
	if c.out == 0 || err != nil {
		return nil, &Error{Op: "open", Code: lib.SQLITE_NOMEM, Message: "out of memory"}
	}
	defer libc.Xfree(c.tls, name)
	// NOMUTEX: each connection has one user at a time, which its owner's lock sees to.
	code := lib.Xsqlite3_open_v2(c.tls, name, c.out, flags|lib.SQLITE_OPEN_NOMUTEX|lib.SQLITE_OPEN_EXRESCODE, vfs)
	c.db = *(*uintptr)(pointer(c.out))
	if code != lib.SQLITE_OK {
		err := c.fault("open", code)
		_ = c.Close() // the connection was never good; the first error is the one that tells
		return nil, err
	}
	c.config(lib.SQLITE_DBCONFIG_ENABLE_VIEW, false)
	return c, nil
}

// Close closes the connection. If a statement or a Backup of it is still open,
// Close returns an error, and the connection stays open until Close is called
// again. The last connection of all processes to close checkpoints and removes
// the WAL.
func (c *Conn) Close() error {
	if c.db == 0 {
		return nil
	}
	// Not sqlite3_close_v2: it leaves a connection with an open statement to that statement, which would outlive its thread.
	if code := lib.Xsqlite3_close(c.tls, c.db); code != lib.SQLITE_OK {
		return &Error{Op: "close", Code: int(code), Message: "a statement or a backup of the connection is still open"}
	}
	libc.Xfree(c.tls, c.out)
	c.tls.Close()
	c.db = 0
	return nil
}

// Exec runs the statements of sql one after the other and drops their rows.
func (c *Conn) Exec(sql string) error {
	text, err := libc.CString(sql)
	if err != nil {
		return &Error{Op: sql, Code: lib.SQLITE_NOMEM, Message: "out of memory"}
	}
	defer libc.Xfree(c.tls, text)
	return c.check(sql, lib.Xsqlite3_exec(c.tls, c.db, text, 0, 0, 0))
}

// QueryInt runs sql, which must yield one integer.
func (c *Conn) QueryInt(sql string) (int64, error) {
	s, err := c.Prepare(sql)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	if ok, err := s.Step(); err != nil || !ok {
		return 0, err
	}
	return s.Int64(0), nil
}

// QueryText runs sql, which must yield one text.
func (c *Conn) QueryText(sql string) (string, error) {
	s, err := c.Prepare(sql)
	if err != nil {
		return "", err
	}
	defer s.Close()
	if ok, err := s.Step(); err != nil || !ok {
		return "", err
	}
	return s.Text(0), nil
}

// Changes returns how many rows the last INSERT, UPDATE or DELETE changed.
func (c *Conn) Changes() int { return int(lib.Xsqlite3_changes(c.tls, c.db)) }

// TotalChanges returns how many rows were changed since the connection was opened.
func (c *Conn) TotalChanges() int64 { return lib.Xsqlite3_total_changes64(c.tls, c.db) }

// ReadOnly reports whether the file cannot be written to, for its mode, its owner
// or its file system, although it was opened for that.
func (c *Conn) ReadOnly() bool {
	name, err := libc.CString("main")
	if err != nil {
		panic("out of memory: " + err.Error()) // as the Go runtime does when it gets none
	}
	defer libc.Xfree(c.tls, name)
	return lib.Xsqlite3_db_readonly(c.tls, c.db, name) == 1
}

// InTransaction reports whether a transaction is open: an error may or may
// not have ended it (https://sqlite.org/c3ref/get_autocommit.html).
func (c *Conn) InTransaction() bool { return lib.Xsqlite3_get_autocommit(c.tls, c.db) == 0 }

// BusyTimeout makes every later call wait that many milliseconds for a lock
// before it fails with an error for which Error.Busy holds. The default is 0.
func (c *Conn) BusyTimeout(milliseconds int) {
	lib.Xsqlite3_busy_timeout(c.tls, c.db, int32(milliseconds))
}

// Interrupt makes the call that runs on the connection fail soon. It may be
// called from any goroutine while the connection is open.
func (c *Conn) Interrupt() {
	tls := libc.NewTLS()
	defer tls.Close()
	lib.Xsqlite3_interrupt(tls, c.db)
}

// KeepWAL decides whether Close leaves the WAL as it is, also as the last
// connection to its file.
func (c *Conn) KeepWAL(keep bool) { c.config(lib.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep) }

// config sets an option of the connection (https://sqlite.org/c3ref/c_dbconfig_defensive.html).
func (c *Conn) config(option int32, on bool) {
	v := int32(0)
	if on {
		v = 1
	}
	lib.Xsqlite3_db_config(c.tls, c.db, option, libc.VaList(c.out+outArgs, v, uintptr(0))) // fails only for an unknown option
}

// TrackWAL makes WALFrames tell how long the WAL is. It also ends SQLite's
// own automatic checkpoints, which use the same hook.
func (c *Conn) TrackWAL() {
	hook := noteFrames
	lib.Xsqlite3_wal_hook(c.tls, c.db, address(&hook), c.out+outFrames)
}

// noteFrames is called by the library after each commit in WAL mode. The
// translated library takes a C function pointer for the address of a Go
// function value, and a function without captured variables is never freed.
func noteFrames(_ *libc.TLS, note, _, _ uintptr, frames int32) int32 {
	*(*int32)(pointer(note)) = frames
	return lib.SQLITE_OK
}

// WALFrames returns how many frames the WAL held after this connection's last
// commit, those of other processes included (https://sqlite.org/c3ref/wal_hook.html).
func (c *Conn) WALFrames() int { return int(*(*int32)(pointer(c.out + outFrames))) }

// CheckpointMode is how far a checkpoint goes
// (https://sqlite.org/c3ref/wal_checkpoint_v2.html).
type CheckpointMode int32

// Passive copies what it can without waiting; Truncate waits for readers and
// writers as long as the busy timeout says, copies all and empties the WAL.
const (
	Passive  CheckpointMode = lib.SQLITE_CHECKPOINT_PASSIVE
	Truncate CheckpointMode = lib.SQLITE_CHECKPOINT_TRUNCATE
)

// Checkpoint copies frames of the WAL into the database file. It returns how
// many frames the WAL holds, and how many of them are copied by now.
func (c *Conn) Checkpoint(mode CheckpointMode) (frames, copied int, err error) {
	code := lib.Xsqlite3_wal_checkpoint_v2(c.tls, c.db, 0, int32(mode), c.out, c.out+4)
	if code != lib.SQLITE_OK {
		return 0, 0, c.fault("checkpoint", code)
	}
	return int(*(*int32)(pointer(c.out))), int(*(*int32)(pointer(c.out + 4))), nil
}

// SyncFile syncs the database file through SQLite's own descriptor of it: to
// open and close another one would drop the locks that SQLite holds on it
// (https://sqlite.org/howtocorrupt.html, section 2.2).
func (c *Conn) SyncFile() error {
	code := lib.Xsqlite3_file_control(c.tls, c.db, 0, lib.SQLITE_FCNTL_FILE_POINTER, c.out)
	if code != lib.SQLITE_OK {
		return c.fault("file pointer", code)
	}
	file := *(*uintptr)(pointer(c.out))
	methods := (*lib.Tsqlite3_io_methods)(pointer((*lib.Tsqlite3_file)(pointer(file)).FpMethods))
	code = function[methodInt](methods.FxSync)(c.tls, file, lib.SQLITE_SYNC_NORMAL)
	if code != lib.SQLITE_OK { // the connection itself knows nothing of it
		return &Error{Op: "sync", Code: int(code), Message: libc.GoString(lib.Xsqlite3_errstr(c.tls, code))}
	}
	return nil
}

// Version returns the library's version as X*1000000 + Y*1000 + Z.
func Version() int {
	tls := libc.NewTLS()
	defer tls.Close()
	return int(lib.Xsqlite3_libversion_number(tls))
}

func (c *Conn) check(op string, code int32) error {
	if code == lib.SQLITE_OK {
		return nil
	}
	return c.fault(op, code)
}

func (c *Conn) fault(op string, code int32) *Error {
	fault := &Error{Op: op, Code: int(code), Message: libc.GoString(lib.Xsqlite3_errmsg(c.tls, c.db))}
	if code == lib.SQLITE_CANTOPEN || fault.IO() && code != lib.SQLITE_IOERR_FSYNC { // syncData goes past libc
		fault.Errno = syscall.Errno(lib.Xsqlite3_system_errno(c.tls, c.db))
	}
	return fault
}

// Error is a result code of SQLite (https://sqlite.org/rescode.html).
type Error struct {
	Op      string        // what was run: a statement, or the name of a call
	Code    int           // the extended result code
	Message string        // SQLite's own words
	Errno   syscall.Errno // what the operating system said; 0 if SQLite does not tell
}

// Unwrap returns what the operating system said.
func (e *Error) Unwrap() error {
	if e.Errno == 0 {
		return nil
	}
	return e.Errno
}

func (e *Error) Error() string {
	const runesMax = 60
	op := []rune(strings.Join(strings.Fields(e.Op), " ")) // statements are written over several lines
	if len(op) > runesMax {
		op = append(op[:runesMax], '…')
	}
	said := ""
	if e.Errno != 0 {
		said = e.Errno.Error() + "; "
	}
	return fmt.Sprintf("%s: %s (%sSQLite error %d)", string(op), e.Message, said, e.Code)
}

func (e *Error) primary() int { return e.Code & 0xff }

// Busy reports whether another connection held a lock that was needed.
func (e *Error) Busy() bool {
	return e.primary() == lib.SQLITE_BUSY || e.primary() == lib.SQLITE_LOCKED
}

// Full reports whether the disk had no room (ENOSPC) or a quota is used up
// (EDQUOT), which is an I/O error to SQLite.
func (e *Error) Full() bool {
	return e.primary() == lib.SQLITE_FULL || e.Code == lib.SQLITE_IOERR_WRITE && e.Errno == syscall.EDQUOT
}

// NotWritable reports whether the file or its directory cannot be written to, or
// not be opened, for their mode, their owner or their file system.
func (e *Error) NotWritable() bool {
	denied := e.Errno == syscall.EACCES || e.Errno == syscall.EPERM || e.Errno == syscall.EROFS
	return e.primary() == lib.SQLITE_READONLY || e.Code == lib.SQLITE_CANTOPEN && denied
}

// Interrupted reports whether Interrupt ended the call.
func (e *Error) Interrupted() bool { return e.primary() == lib.SQLITE_INTERRUPT }

// IO reports whether the operating system returned an error that has no
// meaning of its own to SQLite.
func (e *Error) IO() bool { return e.primary() == lib.SQLITE_IOERR }

// Corrupt reports whether the file is damaged.
func (e *Error) Corrupt() bool { return e.primary() == lib.SQLITE_CORRUPT }

// NotDatabase reports whether the file is no SQLite database.
func (e *Error) NotDatabase() bool { return e.primary() == lib.SQLITE_NOTADB }

// pointer turns an address of C memory into a pointer. Go's collector neither
// moves nor frees that memory, which is why this is sound; the detour keeps vet
// from taking it for arithmetic on a Go pointer.
func pointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}
