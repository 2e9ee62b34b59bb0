// Package sqlite3 is the part of SQLite's C interface that the engine uses. It calls modernc.org/sqlite/lib, SQLite
// translated to Go, and so needs neither a C compiler nor a C library.
//
// The engine does not use database/sql because that hides features that it needs: a single writing connection, explicit
// checkpoints, the change count of each row, and bound values without an allocation each.
//
// Only one goroutine at a time may use a Conn and its statements, except for Interrupt, which any goroutine may call.
package sqlite3

import (
	"context"
	"iter"
	"net/url"
	"path/filepath"
	"time"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Conn is one connection to a database file.
type Conn struct {
	tls *libc.TLS
	db  uintptr // sqlite3*
	out uintptr // C memory of outBytes for out parameters

	run map[string]*Stmt // the statements of Run, by their text
}

// The layout of Conn.out: two out parameters of 4 bytes, or one of 8; the frames that the WAL hook stores; and two
// variable arguments.
const (
	outFrames = 8
	outArgs   = 16
	outBytes  = 32
)

// Open opens the database file at path for reading and writing, and creates it if it does not exist. The caller closes
// the connection. The error is an *Error. Connections of this package refuse to read views: the query of a view in an
// untrusted file may be endless.
func Open(path string) (*Conn, error) {
	return open(path, defaultVFS, lib.SQLITE_OPEN_READWRITE|lib.SQLITE_OPEN_CREATE)
}

// OpenBuffered opens the database file at path like Open, for a connection that commits or checkpoints often. It writes
// the frames of a commit into the WAL in few calls, and syncs the database while a checkpoint writes it, not only at
// the end; see writeBuffer. On Linux it syncs by fdatasync.
//
// The connection must keep SQLite's default of synchronous = FULL: then each commit in WAL mode syncs the WAL, and so
// flushes the buffer, before another connection can read its frames.
func OpenBuffered(path string) (*Conn, error) {
	vfs, err := registerVFS()
	if err != nil {
		return nil, err
	}
	return open(path, vfs, lib.SQLITE_OPEN_READWRITE|lib.SQLITE_OPEN_CREATE)
}

// OpenReadOnly opens the existing database file at path for reading only. It also reads a WAL beside the file, and
// leaves it unchanged. The caller closes the connection. The error is an *Error.
func OpenReadOnly(path string) (*Conn, error) {
	return open(path, defaultVFS, lib.SQLITE_OPEN_READONLY)
}

// OpenImmutable opens the existing database file at path for reading only. The file must not change while it is open.
// Files beside it are ignored: a journal or a WAL is neither read nor rolled back. The caller closes the connection.
// The error is an *Error.
func OpenImmutable(path string) (*Conn, error) {
	return open(fileURI(path, "immutable=1"), defaultVFS, lib.SQLITE_OPEN_READONLY|lib.SQLITE_OPEN_URI)
}

// OpenUnlocked opens the existing database file at path for reading and writing, without SQLite's locks: no other
// connection may open the file until Close. The error is an *Error.
func OpenUnlocked(path string) (*Conn, error) {
	return open(fileURI(path, "nolock=1"), defaultVFS, lib.SQLITE_OPEN_READWRITE|lib.SQLITE_OPEN_URI)
}

// fileURI returns a path as a URI filename (https://sqlite.org/uri.html).
func fileURI(path, option string) string {
	uri := url.URL{Scheme: "file", OmitHost: true, Path: filepath.Clean(path), RawQuery: option}
	return uri.String()
}

// defaultVFS is the VFS name that selects SQLite's default VFS.
const defaultVFS uintptr = 0

func open(path string, vfs uintptr, flags int32) (*Conn, error) {
	c := &Conn{tls: libc.NewTLS(), run: map[string]*Stmt{}}
	c.out = calloc(c.tls, outBytes)
	name := cString(c.tls, path)
	defer libc.Xfree(c.tls, name)
	// NOMUTEX: the owner of a connection lets one goroutine at a time use it.
	flags |= lib.SQLITE_OPEN_NOMUTEX | lib.SQLITE_OPEN_EXRESCODE
	code := lib.Xsqlite3_open_v2(c.tls, name, c.out, flags, vfs)
	c.db = *(*uintptr)(pointer(c.out))
	if code != lib.SQLITE_OK {
		err := c.newError("open", code)
		_ = c.Close() // the first error is the cause
		return nil, err
	}
	c.config(lib.SQLITE_DBCONFIG_ENABLE_VIEW, false)
	return c, nil
}

// Close closes the connection. If a statement of it is still open, Close returns an error and the connection stays
// open; the caller may close it again. The last connection of all processes to close a database checkpoints and removes
// the WAL.
func (c *Conn) Close() error {
	if c.db == 0 {
		return nil
	}
	for _, s := range c.run {
		s.Close()
	}
	clear(c.run)
	// Not sqlite3_close_v2: it would free the connection with its last statement, when c.tls is closed already.
	if code := lib.Xsqlite3_close(c.tls, c.db); code != lib.SQLITE_OK {
		return &Error{Op: "close", Code: int(code), Message: "a statement or a backup of the connection is still open"}
	}
	libc.Xfree(c.tls, c.out)
	c.tls.Close()
	c.db = 0
	return nil
}

// Exec runs the statements of sql in order and discards their rows.
func (c *Conn) Exec(sql string) error {
	text := cString(c.tls, sql)
	defer libc.Xfree(c.tls, text)
	return c.check(sql, lib.Xsqlite3_exec(c.tls, c.db, text, 0, 0, 0))
}

// Run runs one statement that returns no rows, with the values of its parameters. The connection keeps the statement
// for the next Run of the same text, so the texts of a program must be few.
func (c *Conn) Run(sql string, values ...any) error {
	s := c.run[sql]
	if s == nil {
		var err error
		if s, err = c.Prepare(sql); err != nil {
			return err
		}
		c.run[sql] = s
	}
	return s.Run(values...)
}

// Rows runs one statement with the values of its parameters. It yields the statement at each row; after an error, the
// last pair is nil and the error.
func (c *Conn) Rows(sql string, values ...any) iter.Seq2[*Stmt, error] {
	return func(yield func(*Stmt, error) bool) {
		s, err := c.Prepare(sql)
		if err != nil {
			yield(nil, err)
			return
		}
		defer s.Close()
		s.Bind(values...)
		for {
			ok, err := s.Step()
			if err != nil {
				yield(nil, err)
			}
			if err != nil || !ok || !yield(s, nil) {
				return
			}
		}
	}
}

// Collect calls row for each of the rows and returns its results; on error, those before it.
func Collect[T any](rows iter.Seq2[*Stmt, error], row func(*Stmt) T) (all []T, err error) {
	for s, err := range rows {
		if err != nil {
			return all, err
		}
		all = append(all, row(s))
	}
	return all, nil
}

// Row calls read with the statement at the first row of sql, and reports whether there is one.
func (c *Conn) Row(sql string, read func(*Stmt), values ...any) (found bool, err error) {
	s, err := c.Prepare(sql)
	if err != nil {
		return false, err
	}
	defer s.Close()
	s.Bind(values...)
	if found, err = s.Step(); found {
		read(s)
	}
	return found, err
}

// QueryInt runs sql and returns the integer in the first column of its first row; 0 if it has no row.
func (c *Conn) QueryInt(sql string, values ...any) (n int64, err error) {
	_, err = c.Row(sql, func(s *Stmt) { n = s.Int64(0) }, values...)
	return n, err
}

// QueryText runs sql and returns the text in the first column of its first row; "" if it has no row.
func (c *Conn) QueryText(sql string) (text string, err error) {
	_, err = c.Row(sql, func(s *Stmt) { text = s.Text(0) })
	return text, err
}

// During runs do and interrupts its statements on the connection when ctx ends; then an error of do becomes the error
// of ctx.
func (c *Conn) During(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	const every = 10 * time.Millisecond // an interruption between two statements has no effect
	ended, interrupted := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		for {
			c.Interrupt()
			select {
			case <-ended:
				return
			case <-time.After(every):
			}
		}
	})
	err := do()
	close(ended)
	if !stop() {
		<-interrupted // or it would interrupt the next statement
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err() // SQLite has several errors for an interruption
	}
	return err
}

// Changes returns the number of rows that the last INSERT, UPDATE or DELETE changed.
func (c *Conn) Changes() int { return int(lib.Xsqlite3_changes(c.tls, c.db)) }

// TotalChanges returns the number of rows changed since the connection was opened.
func (c *Conn) TotalChanges() int64 { return lib.Xsqlite3_total_changes64(c.tls, c.db) }

// ReadOnly reports whether SQLite opened the file for reading only, although the caller opened it for writing: its
// mode, its owner or its file system forbids writing.
func (c *Conn) ReadOnly() bool {
	const main = 0
	return lib.Xsqlite3_db_readonly(c.tls, c.db, main) == 1
}

// InTransaction reports whether a transaction is open. An error may end a transaction
// (https://sqlite.org/c3ref/get_autocommit.html).
func (c *Conn) InTransaction() bool { return lib.Xsqlite3_get_autocommit(c.tls, c.db) == 0 }

// BusyTimeout sets the time that later calls wait for a lock before they return an error for which Error.Busy reports
// true. The default is 0.
func (c *Conn) BusyTimeout(milliseconds int) {
	lib.Xsqlite3_busy_timeout(c.tls, c.db, int32(milliseconds))
}

// Interrupt makes the running call of the connection fail soon. Any goroutine may call it while the connection is open.
func (c *Conn) Interrupt() {
	tls := libc.NewTLS()
	defer tls.Close()
	lib.Xsqlite3_interrupt(tls, c.db)
}

// KeepWAL sets whether Close leaves the WAL unchanged, even as the last connection to its database.
func (c *Conn) KeepWAL(keep bool) { c.config(lib.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep) }

// config sets an option of the connection (https://sqlite.org/c3ref/c_dbconfig_defensive.html).
func (c *Conn) config(option int32, on bool) {
	arguments := libc.VaList(c.out+outArgs, libc.BoolInt32(on), uintptr(0))
	lib.Xsqlite3_db_config(c.tls, c.db, option, arguments) // fails only for an unknown option
}

// TrackWAL makes WALFrames return the length of the WAL. It also disables SQLite's automatic checkpoints, which use the
// same hook.
func (c *Conn) TrackWAL() {
	lib.Xsqlite3_wal_hook(c.tls, c.db, address(storeFrames), c.out+outFrames)
}

// storeFrames is SQLite's WAL hook: SQLite calls it after each commit in WAL mode.
func storeFrames(_ *libc.TLS, to, _, _ uintptr, frames int32) int32 {
	*(*int32)(pointer(to)) = frames
	return lib.SQLITE_OK
}

// WALFrames returns the number of frames in the WAL after the last commit of this connection, including frames of other
// processes (https://sqlite.org/c3ref/wal_hook.html).
func (c *Conn) WALFrames() int { return int(*(*int32)(pointer(c.out + outFrames))) }

// CheckpointMode is a mode of https://sqlite.org/c3ref/wal_checkpoint_v2.html.
type CheckpointMode int32

// Passive copies as many frames as possible without waiting. Truncate waits for readers and writers up to the busy
// timeout, copies all frames and empties the WAL.
const (
	Passive  CheckpointMode = lib.SQLITE_CHECKPOINT_PASSIVE
	Truncate CheckpointMode = lib.SQLITE_CHECKPOINT_TRUNCATE
)

// Checkpoint copies frames of the WAL into the database file. It returns the number of frames in the WAL, and the
// number of these that are copied.
func (c *Conn) Checkpoint(mode CheckpointMode) (frames, copied int, err error) {
	code := lib.Xsqlite3_wal_checkpoint_v2(c.tls, c.db, 0, int32(mode), c.out, c.out+4)
	if code != lib.SQLITE_OK {
		return 0, 0, c.newError("checkpoint", code)
	}
	return int(*(*int32)(pointer(c.out))), int(*(*int32)(pointer(c.out + 4))), nil
}

// CommitCut reports that the last COMMIT, which failed, will never take effect: the WAL ends before the last byte of
// the failed write, and SQLite writes the frame that completes a commit last. It is false if SQLite overwrites frames
// of an earlier WAL: these may supply the bytes that the failed write lacks. The connection must come from
// OpenBuffered.
func (c *Conn) CommitCut() bool {
	file, err := c.file()
	if err != nil {
		return false
	}
	wal := fileAt(file).wal
	return wal != 0 && fileAt(wal).buffer.cut
}

// file returns the address of the sqlite3_file of the database.
func (c *Conn) file() (address uintptr, err error) {
	code := lib.Xsqlite3_file_control(c.tls, c.db, 0, lib.SQLITE_FCNTL_FILE_POINTER, c.out)
	return *(*uintptr)(pointer(c.out)), c.check("file pointer", code)
}

// SyncFile syncs the database file through SQLite's descriptor. Closing another descriptor of the file would release
// SQLite's locks on it (https://sqlite.org/howtocorrupt.html, section 2.2).
func (c *Conn) SyncFile() error {
	file, err := c.file()
	if err != nil {
		return err
	}
	methods := (*lib.Tsqlite3_io_methods)(pointer((*lib.Tsqlite3_file)(pointer(file)).FpMethods))
	code := function[methodInt](methods.FxSync)(c.tls, file, lib.SQLITE_SYNC_NORMAL)
	if code != lib.SQLITE_OK { // the connection does not store this error
		return codeError(c.tls, "sync", code)
	}
	return nil
}

// Descriptor returns SQLite's descriptor of the database file, which is valid until Close. The caller must not close
// it; see SyncFile.
func (c *Conn) Descriptor() (int, error) {
	file, err := c.file()
	if err != nil {
		return 0, err
	}
	return int((*lib.TunixFile)(pointer(file)).Fh), nil
}

// Version returns the library's version as X*1000000 + Y*1000 + Z.
func Version() int {
	tls := libc.NewTLS()
	defer tls.Close()
	return int(lib.Xsqlite3_libversion_number(tls))
}

// calloc returns zeroed C memory. Like the Go runtime, it panics without memory.
func calloc(tls *libc.TLS, bytes int) uintptr {
	memory := libc.Xcalloc(tls, 1, lib.Tsize_t(bytes))
	if memory == 0 {
		panic("out of memory")
	}
	return memory
}

// cString returns a copy of a text in C memory.
func cString(tls *libc.TLS, text string) uintptr {
	memory := calloc(tls, len(text)+1)
	copy(unsafe.Slice((*byte)(pointer(memory)), len(text)), text)
	return memory
}

// pointer turns an address of C memory into a pointer. This is sound because Go's garbage collector neither moves nor
// frees that memory. The indirection keeps go vet from reporting arithmetic on a Go pointer.
func pointer(address uintptr) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}
