//go:build !linux

package sqlite3

// syncData leaves syncing to SQLite.
func syncData(uintptr) (code int32, done bool) { return 0, false }
