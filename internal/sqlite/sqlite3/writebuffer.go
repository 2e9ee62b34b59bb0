package sqlite3

import (
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// writeBuffer collects the frames of one commit before one write into the WAL. SQLite itself makes two write calls for
// each frame.
//
// The buffer is flushed before the WAL is synced, read, truncated, measured or closed. It is also flushed before a lock
// that excludes other connections is released, so that no frame of a rolled-back transaction overwrites one of another
// connection. If a write fails, a later call of the same transaction returns the error.
type writeBuffer struct {
	bytes  uintptr // bufferBytes of SQLite's memory
	used   int     // bytes in use
	offset int64   // where the first byte belongs in the file
	cut    bool    // see Conn.CommitCut
}

// bufferBytes is the size of a write buffer: 31 frames. SQLite's own xWrite writes less than 128 KiB: it masks the
// higher bits of the amount.
const bufferBytes = 127 << 10

// syncBytes is the amount of data after which a checkpoint syncs the database. Commits wait behind these syncs: many
// short ones delay them less than a long one at the end.
const syncBytes = 1 << 20

// flush writes the buffer of a WAL and empties it, even on error: then the transaction of its frames has failed.
func (f *file) flush(tls *libc.TLS) int32 {
	b := &f.buffer
	if b.used == 0 {
		return lib.SQLITE_OK
	}
	used := b.used
	b.used = 0
	return f.writeWAL(tls, b.bytes, int32(used), b.offset)
}

// writeWAL writes into the file of a WAL. If that fails, it measures the file, for Conn.CommitCut.
func (f *file) writeWAL(tls *libc.TLS, data uintptr, amount int32, offset int64) int32 {
	f.buffer.cut = false
	code := function[methodData](f.parentMethods().FxWrite)(tls, f.address, data, amount, offset)
	if code != lib.SQLITE_OK {
		const sizeBytes = 8
		size := tls.Alloc(sizeBytes)
		defer tls.Free(sizeBytes)
		measured := function[methodPointer](f.parentMethods().FxFileSize)(tls, f.address, size)
		f.buffer.cut = measured == lib.SQLITE_OK && *(*int64)(pointer(size)) < offset+int64(amount)
	}
	return code
}

func walWrite(tls *libc.TLS, address, data uintptr, amount int32, offset int64) int32 {
	f := fileAt(address)
	b := &f.buffer
	if offset != b.offset+int64(b.used) || b.used+int(amount) > bufferBytes {
		if code := f.flush(tls); code != lib.SQLITE_OK {
			return code
		}
	}
	if amount > bufferBytes {
		return f.writeWAL(tls, data, amount, offset)
	}
	if b.used == 0 {
		b.offset = offset
	}
	copy(unsafe.Slice((*byte)(pointer(b.bytes+uintptr(b.used))), amount), unsafe.Slice((*byte)(pointer(data)), amount))
	b.used += int(amount)
	return lib.SQLITE_OK
}

func walSync(tls *libc.TLS, address uintptr, flags int32) int32 {
	f := fileAt(address)
	if code := f.flush(tls); code != lib.SQLITE_OK {
		return code
	}
	return f.sync(tls, flags)
}

// databaseWrite writes at once: after the last write of a checkpoint SQLite calls a file control and ignores its
// result, so the error of a buffered write would be lost, and SQLite would count its pages as copied.
func databaseWrite(tls *libc.TLS, address, data uintptr, amount int32, offset int64) int32 {
	f := fileAt(address)
	code := function[methodData](f.parentMethods().FxWrite)(tls, f.address, data, amount, offset)
	if code != lib.SQLITE_OK {
		return code
	}
	if f.unsynced += int(amount); f.unsynced < syncBytes {
		return lib.SQLITE_OK
	}
	return databaseSync(tls, address, lib.SQLITE_SYNC_NORMAL)
}

func databaseSync(tls *libc.TLS, address uintptr, flags int32) int32 {
	f := fileAt(address)
	f.unsynced = 0
	return f.sync(tls, flags)
}

// sync syncs by fdatasync on Linux, which leaves out only the file's times.
func (f *file) sync(tls *libc.TLS, flags int32) int32 {
	if code, done := syncData(f.address); done {
		return code
	}
	return function[methodInt](f.parentMethods().FxSync)(tls, f.address, flags)
}
