package sqlite3

import (
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// gathered is what stands between SQLite and one open file of a Conn: the WAL,
// whose writes are gathered, or the database. It lives in C memory, and begins
// with the table of methods that SQLite calls for the file, so that a method
// which is handed the file finds it there
// (https://sqlite.org/c3ref/io_methods.html).
type gathered struct {
	methods  lib.Tsqlite3_io_methods // SQLite's own, but for walMethods or databaseMethods
	original uintptr                 // *lib.Tsqlite3_io_methods, SQLite's own
	file     uintptr                 // sqlite3_file*
	other    uintptr                 // *gathered of the connection's other file; 0 once that is closed
	bytes    uintptr                 // of the WAL: gatherBytes of C memory
	used     int                     // of bytes
	at       int64                   // where in the file bytes begin
	unsynced int                     // of the database: bytes written since it was last synced
}

// gatherBytes is how much is written at once: 31 frames.
// SQLite's own xWrite takes less than 128 KiB: it masks off what is above.
const gatherBytes = 127 << 10

// steadyBytes is after how much that a checkpoint has written it syncs the
// database. Commits wait behind its syncs, so many short ones cost them less
// than one long one at its end.
const steadyBytes = 1 << 20

// GatherWrites makes the connection write the frames of a commit in as few
// calls as possible. SQLite itself makes two calls a frame; at full load that
// is a seventh of the server's time. The connection must be in WAL mode with
// synchronous = FULL, and stay so: there each commit ends with a sync, before
// any other connection may look for its frames.
//
// What is gathered is written before the WAL is synced, and before anything
// else is done with it: read, cut, measured, closed. It is also written before
// a lock that excludes other connections is given back, so that nothing of a
// transaction that failed is written into one of another connection. An error
// of writing is returned by a later call than SQLite's, but within the same
// transaction.
//
// Only the WAL's writes are gathered. Those of a checkpoint into the database
// must fail at once: what follows the last of them is a file control whose
// result SQLite does not look at, and then it takes the pages for copied.
//
// The database is synced not only when a checkpoint ends but also while it
// writes, each time after steadyBytes.
//
// On Linux both files are synced by fdatasync, which leaves out only what is
// not needed to read the data back: a file's times.
func (c *Conn) GatherWrites() error {
	if _, err := c.QueryInt("SELECT count(*) FROM sqlite_schema"); err != nil { // opens the WAL
		return err
	}
	bytes := libc.Xmalloc(c.tls, gatherBytes)
	if bytes == 0 {
		return outOfMemory()
	}
	wal, err := c.gather(lib.SQLITE_FCNTL_JOURNAL_POINTER, walMethods) // in WAL mode that is the WAL
	if err != nil {
		libc.Xfree(c.tls, bytes)
		return err
	}
	wal.bytes = bytes
	file, err := c.gather(lib.SQLITE_FCNTL_FILE_POINTER, databaseMethods)
	if err != nil {
		return err
	}
	wal.other, file.other = uintptr(unsafe.Pointer(file)), uintptr(unsafe.Pointer(wal))
	return nil
}

// gather puts methods of its own before those of the file that a file control
// names.
func (c *Conn) gather(which int32, methods func(*lib.Tsqlite3_io_methods)) (*gathered, error) {
	if code := lib.Xsqlite3_file_control(c.tls, c.db, 0, which, c.out); code != lib.SQLITE_OK {
		return nil, c.fault("file control", code)
	}
	file := *(*uintptr)(pointer(c.out))
	original := (*lib.Tsqlite3_file)(pointer(file)).FpMethods
	if original == 0 {
		return nil, &Error{Op: "gather", Code: lib.SQLITE_MISUSE, Message: "the connection is not in WAL mode"}
	}
	place := libc.Xcalloc(c.tls, 1, lib.Tsize_t(unsafe.Sizeof(gathered{})))
	if place == 0 {
		return nil, outOfMemory()
	}
	g := (*gathered)(pointer(place))
	*g = gathered{methods: *(*lib.Tsqlite3_io_methods)(pointer(original)), original: original, file: file}
	methods(&g.methods)
	(*lib.Tsqlite3_file)(pointer(file)).FpMethods = place
	return g, nil
}

func outOfMemory() error {
	return &Error{Op: "gather", Code: lib.SQLITE_NOMEM, Message: "out of memory"}
}

func walMethods(m *lib.Tsqlite3_io_methods) {
	closing, reading, writing := gatheredClose, gatheredRead, gatheredWrite
	truncating, syncing, sizing, controlling := gatheredTruncate, gatheredSync, gatheredSize, gatheredControl
	m.FxClose = address(&closing)
	m.FxRead = address(&reading)
	m.FxWrite = address(&writing)
	m.FxTruncate = address(&truncating)
	m.FxSync = address(&syncing)
	m.FxFileSize = address(&sizing)
	m.FxFileControl = address(&controlling)
}

// databaseMethods are called for the database, also for the locks of the WAL.
func databaseMethods(m *lib.Tsqlite3_io_methods) {
	closing, writing, syncing, shmLocking := gatheredClose, steadyWrite, steadySync, gatheredShmLock
	m.FxClose = address(&closing)
	m.FxWrite = address(&writing)
	m.FxSync = address(&syncing)
	m.FxShmLock = address(&shmLocking)
}

// address turns a Go function into what the translated library takes for a C
// function pointer: the address of a function value. That of a function
// without captured variables is never freed.
func address[F any](f *F) uintptr { return *(*uintptr)(unsafe.Pointer(f)) }

// function turns a C function pointer of the library into a Go function.
func function[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&struct{ uintptr }{address})) }

// gatheredOf finds what stands before a file.
func gatheredOf(file uintptr) (*gathered, *lib.Tsqlite3_io_methods) {
	g := (*gathered)(pointer((*lib.Tsqlite3_file)(pointer(file)).FpMethods))
	return g, (*lib.Tsqlite3_io_methods)(pointer(g.original))
}

type (
	fileMethod     = func(*libc.TLS, uintptr) int32
	fileMethodInt  = func(*libc.TLS, uintptr, int32) int32
	fileMethodSize = func(*libc.TLS, uintptr, int64) int32
	fileMethodOut  = func(*libc.TLS, uintptr, uintptr) int32
	fileMethodCtl  = func(*libc.TLS, uintptr, int32, uintptr) int32
	fileMethodData = func(*libc.TLS, uintptr, uintptr, int32, int64) int32
	fileMethodLock = func(*libc.TLS, uintptr, int32, int32, int32) int32
)

// flush writes what is gathered. After an error nothing is gathered: the
// transaction that it belongs to has failed.
func (g *gathered) flush(tls *libc.TLS) int32 {
	if g.used == 0 {
		return lib.SQLITE_OK
	}
	used := g.used
	g.used = 0
	write := function[fileMethodData]((*lib.Tsqlite3_io_methods)(pointer(g.original)).FxWrite)
	return write(tls, g.file, g.bytes, int32(used), g.at)
}

func gatheredWrite(tls *libc.TLS, file, data uintptr, amount int32, at int64) int32 {
	g, original := gatheredOf(file)
	if at != g.at+int64(g.used) || g.used+int(amount) > gatherBytes {
		if code := g.flush(tls); code != lib.SQLITE_OK {
			return code
		}
	}
	if amount > gatherBytes {
		return function[fileMethodData](original.FxWrite)(tls, file, data, amount, at)
	}
	if g.used == 0 {
		g.at = at
	}
	copy(unsafe.Slice((*byte)(pointer(g.bytes+uintptr(g.used))), amount), unsafe.Slice((*byte)(pointer(data)), amount))
	g.used += int(amount)
	return lib.SQLITE_OK
}

func gatheredRead(tls *libc.TLS, file, data uintptr, amount int32, at int64) int32 {
	g, original := gatheredOf(file)
	if code := g.flush(tls); code != lib.SQLITE_OK {
		return code
	}
	return function[fileMethodData](original.FxRead)(tls, file, data, amount, at)
}

func gatheredTruncate(tls *libc.TLS, file uintptr, size int64) int32 {
	g, original := gatheredOf(file)
	if code := g.flush(tls); code != lib.SQLITE_OK {
		return code
	}
	return function[fileMethodSize](original.FxTruncate)(tls, file, size)
}

func gatheredSync(tls *libc.TLS, file uintptr, flags int32) int32 {
	g, original := gatheredOf(file)
	if code := g.flush(tls); code != lib.SQLITE_OK {
		return code
	}
	return sync(tls, original, file, flags)
}

func sync(tls *libc.TLS, original *lib.Tsqlite3_io_methods, file uintptr, flags int32) int32 {
	if code, done := syncData(file); done {
		return code
	}
	return function[fileMethodInt](original.FxSync)(tls, file, flags)
}

func steadySync(tls *libc.TLS, file uintptr, flags int32) int32 {
	g, original := gatheredOf(file)
	g.unsynced = 0
	return sync(tls, original, file, flags)
}

func steadyWrite(tls *libc.TLS, file, data uintptr, amount int32, at int64) int32 {
	g, original := gatheredOf(file)
	if code := function[fileMethodData](original.FxWrite)(tls, file, data, amount, at); code != lib.SQLITE_OK {
		return code
	}
	if g.unsynced += int(amount); g.unsynced < steadyBytes {
		return lib.SQLITE_OK
	}
	return steadySync(tls, file, lib.SQLITE_SYNC_NORMAL)
}

func gatheredSize(tls *libc.TLS, file, size uintptr) int32 {
	g, original := gatheredOf(file)
	if code := g.flush(tls); code != lib.SQLITE_OK {
		return code
	}
	return function[fileMethodOut](original.FxFileSize)(tls, file, size)
}

func gatheredControl(tls *libc.TLS, file uintptr, op int32, argument uintptr) int32 {
	g, original := gatheredOf(file)
	if code := g.flush(tls); code != lib.SQLITE_OK {
		return code
	}
	return function[fileMethodCtl](original.FxFileControl)(tls, file, op, argument)
}

// gatheredShmLock gives a lock back whatever happens. What could not be written
// before is of no commit: that of a commit was written when it was synced.
func gatheredShmLock(tls *libc.TLS, file uintptr, offset, n, flags int32) int32 {
	g, original := gatheredOf(file)
	flushed := int32(lib.SQLITE_OK)
	if flags&lib.SQLITE_SHM_UNLOCK != 0 && flags&lib.SQLITE_SHM_EXCLUSIVE != 0 && g.other != 0 {
		flushed = (*gathered)(pointer(g.other)).flush(tls)
	}
	if code := function[fileMethodLock](original.FxShmLock)(tls, file, offset, n, flags); code != lib.SQLITE_OK {
		return code
	}
	return flushed
}

// gatheredClose takes itself out of the file before SQLite closes it.
func gatheredClose(tls *libc.TLS, file uintptr) int32 {
	g, original := gatheredOf(file)
	flushed := g.flush(tls)
	(*lib.Tsqlite3_file)(pointer(file)).FpMethods = g.original
	if g.other != 0 {
		(*gathered)(pointer(g.other)).other = 0
	}
	libc.Xfree(tls, g.bytes)
	libc.Xfree(tls, uintptr(unsafe.Pointer(g)))
	if code := function[fileMethod](original.FxClose)(tls, file); code != lib.SQLITE_OK {
		return code
	}
	return flushed
}
