package sqlite3

import (
	"sync"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// vfsName is the name of the VFS that OpenBuffered uses. It is a copy of its parent, SQLite's default VFS on Unix, with
// another open: that one replaces some methods of each database and WAL, see vfsfile.go. syncData requires the files of
// this parent.
const vfsName, parentName = "plantstore", "unix"

// vfs is the sqlite3_vfs (https://sqlite.org/c3ref/vfs.html) in C memory.
type vfs struct {
	lib.Tsqlite3_vfs
	parentOpen uintptr // the parent's xOpen
}

// registerVFS registers the VFS with SQLite and returns its name as a C string. SQLite uses both until the process
// ends, so they are never freed.
var registerVFS = sync.OnceValues(func() (name uintptr, err error) {
	tls := libc.NewTLS()
	defer tls.Close()
	nameOfParent := cString(tls, parentName)
	defer libc.Xfree(tls, nameOfParent)
	parent := lib.Xsqlite3_vfs_find(tls, nameOfParent)
	if parent == 0 {
		return 0, &Error{Op: "register VFS", Code: lib.SQLITE_ERROR, Message: "SQLite has no VFS " + parentName}
	}
	registered := calloc(tls, int(unsafe.Sizeof(vfs{})))
	name = cString(tls, vfsName)
	v := (*vfs)(pointer(registered))
	v.Tsqlite3_vfs = *(*lib.Tsqlite3_vfs)(pointer(parent))
	v.parentOpen = v.FxOpen
	v.FzName, v.FszOsFile, v.FxOpen = name, int32(parentBytes+unsafe.Sizeof(file{})), address(vfsOpen)
	const isDefault = 0
	if code := lib.Xsqlite3_vfs_register(tls, registered, isDefault); code != lib.SQLITE_OK {
		return 0, codeError(tls, "register VFS", code)
	}
	return name, nil
})

// address converts a Go function to a C function pointer of the translated library: the address of its function value.
// The function must capture no variables: then Go neither frees nor moves its function value.
func address[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

// function converts a C function pointer of the library to a Go function.
func function[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&struct{ uintptr }{address})) }

// vfsOpen replaces the methods of each database and WAL. Journals and temporary files keep the parent's methods.
func vfsOpen(tls *libc.TLS, self, name, opened uintptr, flags int32, outFlags uintptr) int32 {
	open := function[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32]((*vfs)(pointer(self)).parentOpen)
	code := open(tls, self, name, opened, flags, outFlags)
	if flags&(lib.SQLITE_OPEN_MAIN_DB|lib.SQLITE_OPEN_WAL) == 0 {
		return code
	}
	methods := &(*lib.Tsqlite3_file)(pointer(opened)).FpMethods
	if *methods == 0 {
		return code // not opened: SQLite does not close a file without methods
	}
	f := fileAt(opened)
	*f = file{address: opened, parent: *methods, methods: *(*lib.Tsqlite3_io_methods)(pointer(*methods))}
	*methods = uintptr(unsafe.Pointer(&f.methods))
	f.methods.FxClose = address(fileClose)
	if flags&lib.SQLITE_OPEN_WAL == 0 {
		f.replaceDatabaseMethods()
		return code
	}
	f.replaceWALMethods()
	if code != lib.SQLITE_OK {
		return code
	}
	return f.openWAL(tls, fileAt(lib.Xsqlite3_database_file_object(tls, name)))
}
