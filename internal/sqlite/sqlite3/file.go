package sqlite3

import (
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// file is the sqlite3_file of a database or a WAL of the VFS
// (https://sqlite.org/c3ref/file.html). SQLite owns its memory, which is C
// memory, and passes its address to every method
// (https://sqlite.org/c3ref/io_methods.html). The parent's sqlite3_file follows
// it.
type file struct {
	current  uintptr                 // the address of methods; sqlite3_file has it first
	methods  lib.Tsqlite3_io_methods // the parent's version of them, so each file has its own
	buffer   writeBuffer             // of a WAL
	unsynced int                     // of a database: bytes written since its last sync
	wal      uintptr                 // of a database: *file of its WAL; 0 unless that is open
	database uintptr                 // of a WAL: *file of its database; 0 if that is closed
}

// fileBytes is the distance from a file to the parent's, which may need the
// alignment of an int64.
const fileBytes = (unsafe.Sizeof(file{}) + 7) &^ 7

func fileAt(address uintptr) *file { return (*file)(pointer(address)) }

func (f *file) address() uintptr { return uintptr(unsafe.Pointer(f)) }

// parent returns the address of the parent's sqlite3_file.
func (f *file) parent() uintptr { return f.address() + fileBytes }

func (f *file) parentMethods() *lib.Tsqlite3_io_methods {
	return (*lib.Tsqlite3_io_methods)(pointer((*lib.Tsqlite3_file)(pointer(f.parent())).FpMethods))
}

// setMethods makes SQLite call these methods, except for those that the
// parent's file does not have: SQLite checks for them.
func (f *file) setMethods(m lib.Tsqlite3_io_methods) {
	parent := f.parentMethods()
	m.FiVersion = min(3, parent.FiVersion)
	if m.FiVersion < 2 || parent.FxShmMap == 0 {
		m.FxShmMap, m.FxShmLock, m.FxShmBarrier, m.FxShmUnmap = 0, 0, 0, 0
	}
	if m.FiVersion < 3 || parent.FxFetch == 0 {
		m.FxFetch, m.FxUnfetch = 0, 0
	}
	f.methods = m
	f.current = uintptr(unsafe.Pointer(&f.methods))
}

// fileMethods are the methods that a database and a WAL share.
func fileMethods() lib.Tsqlite3_io_methods {
	closing, read, truncate, size, control := fileClose, fileRead, fileTruncate, fileSize, fileControl
	lock, unlock, checkReservedLock := fileLock, fileUnlock, fileCheckReservedLock
	sectorSize, deviceCharacteristics := fileSectorSize, fileDeviceCharacteristics
	shmMap, shmLock, shmBarrier, shmUnmap := fileShmMap, fileShmLock, fileShmBarrier, fileShmUnmap
	fetch, unfetch := fileFetch, fileUnfetch
	return lib.Tsqlite3_io_methods{
		FxClose:                 address(&closing),
		FxRead:                  address(&read),
		FxTruncate:              address(&truncate),
		FxFileSize:              address(&size),
		FxLock:                  address(&lock),
		FxUnlock:                address(&unlock),
		FxCheckReservedLock:     address(&checkReservedLock),
		FxFileControl:           address(&control),
		FxSectorSize:            address(&sectorSize),
		FxDeviceCharacteristics: address(&deviceCharacteristics),
		FxShmMap:                address(&shmMap),
		FxShmLock:               address(&shmLock),
		FxShmBarrier:            address(&shmBarrier),
		FxShmUnmap:              address(&shmUnmap),
		FxFetch:                 address(&fetch),
		FxUnfetch:               address(&unfetch),
	}
}

func databaseMethods() lib.Tsqlite3_io_methods {
	m, write, sync := fileMethods(), databaseWrite, databaseSync
	m.FxWrite, m.FxSync = address(&write), address(&sync)
	return m
}

func walMethods() lib.Tsqlite3_io_methods {
	m, write, sync := fileMethods(), walWrite, walSync
	m.FxWrite, m.FxSync = address(&write), address(&sync)
	return m
}

type (
	methodFile    = func(*libc.TLS, uintptr) int32
	methodInt     = func(*libc.TLS, uintptr, int32) int32
	methodSize    = func(*libc.TLS, uintptr, int64) int32
	methodPointer = func(*libc.TLS, uintptr, uintptr) int32
	methodData    = func(*libc.TLS, uintptr, uintptr, int32, int64) int32
	methodControl = func(*libc.TLS, uintptr, int32, uintptr) int32
	methodShmMap  = func(*libc.TLS, uintptr, int32, int32, int32, uintptr) int32
	methodShmLock = func(*libc.TLS, uintptr, int32, int32, int32) int32
	methodBarrier = func(*libc.TLS, uintptr)
	methodFetch   = func(*libc.TLS, uintptr, int64, int32, uintptr) int32
	methodUnfetch = func(*libc.TLS, uintptr, int64, uintptr) int32
)

// openWAL allocates the write buffer of a WAL, and connects it to its database.
func (f *file) openWAL(tls *libc.TLS, database *file) int32 {
	if f.buffer.bytes = lib.Xsqlite3_malloc(tls, bufferBytes); f.buffer.bytes == 0 {
		return lib.SQLITE_NOMEM // SQLite closes a file that has methods
	}
	f.database, database.wal = database.address(), f.address()
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
	closed := function[methodFile](f.parentMethods().FxClose)(tls, f.parent())
	*f = file{}
	if closed != lib.SQLITE_OK {
		return closed
	}
	return flushed
}

func fileRead(tls *libc.TLS, address, data uintptr, amount int32, offset int64) int32 {
	f := fileAt(address)
	if code := f.flush(tls); code != lib.SQLITE_OK {
		return code
	}
	return function[methodData](f.parentMethods().FxRead)(tls, f.parent(), data, amount, offset)
}

func fileTruncate(tls *libc.TLS, address uintptr, size int64) int32 {
	f := fileAt(address)
	if code := f.flush(tls); code != lib.SQLITE_OK {
		return code
	}
	return function[methodSize](f.parentMethods().FxTruncate)(tls, f.parent(), size)
}

func fileSize(tls *libc.TLS, address, size uintptr) int32 {
	f := fileAt(address)
	if code := f.flush(tls); code != lib.SQLITE_OK {
		return code
	}
	return function[methodPointer](f.parentMethods().FxFileSize)(tls, f.parent(), size)
}

func fileLock(tls *libc.TLS, address uintptr, level int32) int32 {
	f := fileAt(address)
	return function[methodInt](f.parentMethods().FxLock)(tls, f.parent(), level)
}

func fileUnlock(tls *libc.TLS, address uintptr, level int32) int32 {
	f := fileAt(address)
	return function[methodInt](f.parentMethods().FxUnlock)(tls, f.parent(), level)
}

func fileCheckReservedLock(tls *libc.TLS, address, result uintptr) int32 {
	f := fileAt(address)
	return function[methodPointer](f.parentMethods().FxCheckReservedLock)(tls, f.parent(), result)
}

func fileControl(tls *libc.TLS, address uintptr, op int32, argument uintptr) int32 {
	f := fileAt(address)
	if code := f.flush(tls); code != lib.SQLITE_OK {
		return code
	}
	return function[methodControl](f.parentMethods().FxFileControl)(tls, f.parent(), op, argument)
}

func fileSectorSize(tls *libc.TLS, address uintptr) int32 {
	f := fileAt(address)
	return function[methodFile](f.parentMethods().FxSectorSize)(tls, f.parent())
}

func fileDeviceCharacteristics(tls *libc.TLS, address uintptr) int32 {
	f := fileAt(address)
	return function[methodFile](f.parentMethods().FxDeviceCharacteristics)(tls, f.parent())
}

func fileShmMap(tls *libc.TLS, address uintptr, region, size, extend int32, mapped uintptr) int32 {
	f := fileAt(address)
	return function[methodShmMap](f.parentMethods().FxShmMap)(tls, f.parent(), region, size, extend, mapped)
}

// fileShmLock flushes the WAL before it releases a lock that excludes other
// connections, and releases the lock in any case. Frames that could not be
// written belong to no commit: those of a commit were written before its sync.
func fileShmLock(tls *libc.TLS, address uintptr, offset, n, flags int32) int32 {
	f := fileAt(address)
	flushed := int32(lib.SQLITE_OK)
	if flags&lib.SQLITE_SHM_UNLOCK != 0 && flags&lib.SQLITE_SHM_EXCLUSIVE != 0 && f.wal != 0 {
		flushed = fileAt(f.wal).flush(tls)
	}
	code := function[methodShmLock](f.parentMethods().FxShmLock)(tls, f.parent(), offset, n, flags)
	if code != lib.SQLITE_OK {
		return code
	}
	return flushed
}

func fileShmBarrier(tls *libc.TLS, address uintptr) {
	f := fileAt(address)
	function[methodBarrier](f.parentMethods().FxShmBarrier)(tls, f.parent())
}

func fileShmUnmap(tls *libc.TLS, address uintptr, remove int32) int32 {
	f := fileAt(address)
	return function[methodInt](f.parentMethods().FxShmUnmap)(tls, f.parent(), remove)
}

func fileFetch(tls *libc.TLS, address uintptr, offset int64, amount int32, data uintptr) int32 {
	f := fileAt(address)
	return function[methodFetch](f.parentMethods().FxFetch)(tls, f.parent(), offset, amount, data)
}

func fileUnfetch(tls *libc.TLS, address uintptr, offset int64, data uintptr) int32 {
	f := fileAt(address)
	return function[methodUnfetch](f.parentMethods().FxUnfetch)(tls, f.parent(), offset, data)
}
