package sqlite3

import (
	"sync"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// vfsName is the name of the VFS that OpenBuffered uses. It is a shim over its
// parent, the default VFS of SQLite on Unix (https://sqlite.org/vfs.html, section
// 2.2): it opens each database and WAL as a file of its own, see file.go, and calls
// its parent for everything else. syncData requires the files of this parent.
const vfsName, parentName = "plantstore", "unix"

// registerVFS registers the VFS with SQLite and returns its name as a C
// string. SQLite uses both until the process ends, so they are never freed.
var registerVFS = sync.OnceValues(func() (name uintptr, err error) {
	tls := libc.NewTLS()
	defer tls.Close()
	nameOfParent, err := libc.CString(parentName)
	if err != nil {
		return 0, outOfMemory("register VFS")
	}
	defer libc.Xfree(tls, nameOfParent)
	parent := lib.Xsqlite3_vfs_find(tls, nameOfParent)
	if parent == 0 {
		return 0, &Error{Op: "register VFS", Code: lib.SQLITE_ERROR, Message: "SQLite has no VFS " + parentName}
	}
	vfs := libc.Xcalloc(tls, 1, lib.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_vfs{})))
	if name, err = libc.CString(vfsName); err != nil || vfs == 0 {
		return 0, outOfMemory("register VFS")
	}
	*(*lib.Tsqlite3_vfs)(pointer(vfs)) = newVFS(name, parent)
	const isDefault = 0
	if code := lib.Xsqlite3_vfs_register(tls, vfs, isDefault); code != lib.SQLITE_OK {
		return 0, codeError(tls, "register VFS", code)
	}
	return name, nil
})

// newVFS returns a VFS of version 2: version 3 adds only methods for tests
// (https://sqlite.org/c3ref/vfs.html).
func newVFS(name, parent uintptr) lib.Tsqlite3_vfs {
	p := (*lib.Tsqlite3_vfs)(pointer(parent))
	open, remove, access, fullPathname := vfsOpen, vfsDelete, vfsAccess, vfsFullPathname
	dlOpen, dlError, dlSym, dlClose := vfsDlOpen, vfsDlError, vfsDlSym, vfsDlClose
	randomness, sleep, getLastError := vfsRandomness, vfsSleep, vfsGetLastError
	currentTime, currentTimeInt64 := vfsCurrentTime, vfsCurrentTimeInt64
	return lib.Tsqlite3_vfs{
		FiVersion:          min(2, p.FiVersion),
		FszOsFile:          int32(fileBytes) + p.FszOsFile,
		FmxPathname:        p.FmxPathname,
		FzName:             name,
		FpAppData:          parent,
		FxOpen:             address(&open),
		FxDelete:           address(&remove),
		FxAccess:           address(&access),
		FxFullPathname:     address(&fullPathname),
		FxDlOpen:           address(&dlOpen),
		FxDlError:          address(&dlError),
		FxDlSym:            address(&dlSym),
		FxDlClose:          address(&dlClose),
		FxRandomness:       address(&randomness),
		FxSleep:            address(&sleep),
		FxCurrentTime:      address(&currentTime),
		FxGetLastError:     address(&getLastError),
		FxCurrentTimeInt64: address(&currentTimeInt64),
	}
}

// address converts a Go function to a C function pointer of the translated library:
// the address of its function value. The function must capture no variables: then Go
// neither frees nor moves its function value.
func address[F any](f *F) uintptr { return *(*uintptr)(unsafe.Pointer(f)) }

// function converts a C function pointer of the library to a Go function.
func function[F any](address uintptr) F { return *(*F)(unsafe.Pointer(&struct{ uintptr }{address})) }

// parentOf returns the address of the VFS that vfs is a shim over, and its methods.
func parentOf(vfs uintptr) (parent uintptr, methods *lib.Tsqlite3_vfs) {
	parent = (*lib.Tsqlite3_vfs)(pointer(vfs)).FpAppData
	return parent, (*lib.Tsqlite3_vfs)(pointer(parent))
}

// vfsOpen opens each database and WAL as a file. The parent alone opens journals and
// temporary files.
func vfsOpen(tls *libc.TLS, vfs, name, opened uintptr, flags int32, outFlags uintptr) int32 {
	parent, methods := parentOf(vfs)
	open := function[func(*libc.TLS, uintptr, uintptr, uintptr, int32, uintptr) int32](methods.FxOpen)
	if flags&(lib.SQLITE_OPEN_MAIN_DB|lib.SQLITE_OPEN_WAL) == 0 {
		return open(tls, parent, name, opened, flags, outFlags)
	}
	f := fileAt(opened)
	*f = file{}
	code := open(tls, parent, name, f.parent(), flags, outFlags)
	if (*lib.Tsqlite3_file)(pointer(f.parent())).FpMethods == 0 {
		return code // not opened: SQLite does not close a file without methods
	}
	if flags&lib.SQLITE_OPEN_WAL == 0 {
		f.setMethods(databaseMethods())
		return code
	}
	f.setMethods(walMethods())
	if code != lib.SQLITE_OK {
		return code
	}
	return f.openWAL(tls, fileAt(lib.Xsqlite3_database_file_object(tls, name)))
}

func vfsDelete(tls *libc.TLS, vfs, name uintptr, syncDir int32) int32 {
	parent, methods := parentOf(vfs)
	return function[func(*libc.TLS, uintptr, uintptr, int32) int32](methods.FxDelete)(tls, parent, name, syncDir)
}

func vfsAccess(tls *libc.TLS, vfs, name uintptr, flags int32, result uintptr) int32 {
	parent, methods := parentOf(vfs)
	access := function[func(*libc.TLS, uintptr, uintptr, int32, uintptr) int32](methods.FxAccess)
	return access(tls, parent, name, flags, result)
}

func vfsFullPathname(tls *libc.TLS, vfs, name uintptr, size int32, full uintptr) int32 {
	parent, methods := parentOf(vfs)
	fullPathname := function[func(*libc.TLS, uintptr, uintptr, int32, uintptr) int32](methods.FxFullPathname)
	return fullPathname(tls, parent, name, size, full)
}

func vfsDlOpen(tls *libc.TLS, vfs, name uintptr) uintptr {
	parent, methods := parentOf(vfs)
	return function[func(*libc.TLS, uintptr, uintptr) uintptr](methods.FxDlOpen)(tls, parent, name)
}

func vfsDlError(tls *libc.TLS, vfs uintptr, size int32, message uintptr) {
	parent, methods := parentOf(vfs)
	function[func(*libc.TLS, uintptr, int32, uintptr)](methods.FxDlError)(tls, parent, size, message)
}

func vfsDlSym(tls *libc.TLS, vfs, library, name uintptr) uintptr {
	parent, methods := parentOf(vfs)
	return function[func(*libc.TLS, uintptr, uintptr, uintptr) uintptr](methods.FxDlSym)(tls, parent, library, name)
}

func vfsDlClose(tls *libc.TLS, vfs, library uintptr) {
	parent, methods := parentOf(vfs)
	function[func(*libc.TLS, uintptr, uintptr)](methods.FxDlClose)(tls, parent, library)
}

func vfsRandomness(tls *libc.TLS, vfs uintptr, size int32, bytes uintptr) int32 {
	parent, methods := parentOf(vfs)
	return function[func(*libc.TLS, uintptr, int32, uintptr) int32](methods.FxRandomness)(tls, parent, size, bytes)
}

func vfsSleep(tls *libc.TLS, vfs uintptr, microseconds int32) int32 {
	parent, methods := parentOf(vfs)
	return function[func(*libc.TLS, uintptr, int32) int32](methods.FxSleep)(tls, parent, microseconds)
}

func vfsCurrentTime(tls *libc.TLS, vfs, julianDay uintptr) int32 {
	parent, methods := parentOf(vfs)
	return function[func(*libc.TLS, uintptr, uintptr) int32](methods.FxCurrentTime)(tls, parent, julianDay)
}

func vfsGetLastError(tls *libc.TLS, vfs uintptr, size int32, message uintptr) int32 {
	parent, methods := parentOf(vfs)
	return function[func(*libc.TLS, uintptr, int32, uintptr) int32](methods.FxGetLastError)(tls, parent, size, message)
}

func vfsCurrentTimeInt64(tls *libc.TLS, vfs, milliseconds uintptr) int32 {
	parent, methods := parentOf(vfs)
	return function[func(*libc.TLS, uintptr, uintptr) int32](methods.FxCurrentTimeInt64)(tls, parent, milliseconds)
}
