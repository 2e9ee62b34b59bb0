package sqlite3

import (
	"errors"
	"syscall"

	lib "modernc.org/sqlite/lib"
)

// syncData syncs what a file holds, and reports whether it did. It leaves it
// to SQLite to sync a file that was just created, because SQLite then syncs
// the directory, too.
func syncData(file uintptr) (code int32, done bool) {
	f := (*lib.TunixFile)(pointer(file))
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
