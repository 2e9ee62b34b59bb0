package sqlite3

import (
	"errors"
	"syscall"

	lib "modernc.org/sqlite/lib"
)

// syncData syncs the data of a sqlite3_file of SQLite's "unix" VFS, and reports whether it did. SQLite itself syncs a
// file that it just created, because it then syncs the directory, too.
func syncData(unixFile uintptr) (code int32, done bool) {
	f := (*lib.TunixFile)(pointer(unixFile))
	if f.FctrlFlags&lib.UNIXFILE_DIRSYNC != 0 {
		return 0, false
	}
	for {
		err := syscall.Fdatasync(int(f.Fh))
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return lib.SQLITE_IOERR_FSYNC, true
		}
		return lib.SQLITE_OK, true
	}
}
