package sqlite3

import (
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// file is what the VFS adds to the parent's sqlite3_file of a database or a WAL (https://sqlite.org/c3ref/file.html).
// It follows the sqlite3_file in the same C memory. SQLite owns the memory and passes the address of the sqlite3_file
// to every method (https://sqlite.org/c3ref/io_methods.html).
type file struct {
	address  uintptr                 // where the sqlite3_file is
	parent   uintptr                 // the parent's methods
	methods  lib.Tsqlite3_io_methods // the parent's methods, some of them replaced
	buffer   writeBuffer             // for a WAL
	unsynced int                     // for a database: bytes written since its last sync
	wal      uintptr                 // for a database: the sqlite3_file of its WAL; 0 unless that is open
	database uintptr                 // for a WAL: the sqlite3_file of its database; 0 if that is closed
}

// parentBytes is the size of the parent's sqlite3_file, rounded up to the alignment of a file.
const parentBytes = (unsafe.Sizeof(lib.TunixFile{}) + 7) &^ 7

// fileAt returns the file of the sqlite3_file at an address.
func fileAt(address uintptr) *file { return (*file)(pointer(address + parentBytes)) }

func (f *file) parentMethods() *lib.Tsqlite3_io_methods {
	return (*lib.Tsqlite3_io_methods)(pointer(f.parent))
}

func (f *file) replaceDatabaseMethods() {
	m := &f.methods
	m.FxWrite, m.FxSync = address(databaseWrite), address(databaseSync)
	if m.FiVersion >= 2 && m.FxShmLock != 0 { // SQLite checks whether a file has shared memory
		m.FxShmLock = address(databaseShmLock)
	}
}

func (f *file) replaceWALMethods() {
	m := &f.methods
	m.FxWrite, m.FxSync, m.FxRead = address(walWrite), address(walSync), address(walRead)
	m.FxTruncate, m.FxFileSize, m.FxFileControl = address(walTruncate), address(walFileSize), address(walFileControl)
}

type (
	methodFile    = func(*libc.TLS, uintptr) int32
	methodInt     = func(*libc.TLS, uintptr, int32) int32
	methodSize    = func(*libc.TLS, uintptr, int64) int32
	methodPointer = func(*libc.TLS, uintptr, uintptr) int32
	methodData    = func(*libc.TLS, uintptr, uintptr, int32, int64) int32
	methodControl = func(*libc.TLS, uintptr, int32, uintptr) int32
	methodShmLock = func(*libc.TLS, uintptr, int32, int32, int32) int32
)

// openWAL allocates the write buffer of a WAL, and connects it to its database.
func (f *file) openWAL(tls *libc.TLS, database *file) int32 {
	if f.buffer.bytes = lib.Xsqlite3_malloc(tls, bufferBytes); f.buffer.bytes == 0 {
		return lib.SQLITE_NOMEM // SQLite closes a file that has methods
	}
	f.database, database.wal = database.address, f.address
	return lib.SQLITE_OK
}

func fileClose(tls *libc.TLS, address uintptr) int32 {
	f := fileAt(address)
	flushed := f.flush(tls)
	lib.Xsqlite3_free(tls, f.buffer.bytes)
	if f.database != 0 {
		fileAt(f.database).wal = 0
	}
	if f.wal != 0 {
		fileAt(f.wal).database = 0
	}
	closed := function[methodFile](f.parentMethods().FxClose)(tls, address)
	*f = file{}
	if closed != lib.SQLITE_OK {
		return closed
	}
	return flushed
}

func walRead(tls *libc.TLS, address, data uintptr, amount int32, offset int64) int32 {
	f := fileAt(address)
	if code := f.flush(tls); code != lib.SQLITE_OK {
		return code
	}
	return function[methodData](f.parentMethods().FxRead)(tls, address, data, amount, offset)
}

func walTruncate(tls *libc.TLS, address uintptr, size int64) int32 {
	f := fileAt(address)
	if code := f.flush(tls); code != lib.SQLITE_OK {
		return code
	}
	return function[methodSize](f.parentMethods().FxTruncate)(tls, address, size)
}

func walFileSize(tls *libc.TLS, address, size uintptr) int32 {
	f := fileAt(address)
	if code := f.flush(tls); code != lib.SQLITE_OK {
		return code
	}
	return function[methodPointer](f.parentMethods().FxFileSize)(tls, address, size)
}

func walFileControl(tls *libc.TLS, address uintptr, op int32, argument uintptr) int32 {
	f := fileAt(address)
	if code := f.flush(tls); code != lib.SQLITE_OK {
		return code
	}
	return function[methodControl](f.parentMethods().FxFileControl)(tls, address, op, argument)
}

// databaseShmLock flushes the WAL before it releases a lock that excludes other connections, and releases the lock even
// if that fails. The lost frames belong to no commit, because the sync of a commit flushes its frames.
func databaseShmLock(tls *libc.TLS, address uintptr, offset, n, flags int32) int32 {
	f := fileAt(address)
	flushed := int32(lib.SQLITE_OK)
	if flags&lib.SQLITE_SHM_UNLOCK != 0 && flags&lib.SQLITE_SHM_EXCLUSIVE != 0 && f.wal != 0 {
		flushed = fileAt(f.wal).flush(tls)
	}
	code := function[methodShmLock](f.parentMethods().FxShmLock)(tls, address, offset, n, flags)
	if code != lib.SQLITE_OK {
		return code
	}
	return flushed
}
