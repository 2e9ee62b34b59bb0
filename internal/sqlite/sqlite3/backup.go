package sqlite3

import (
	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Backup is a copy of a database in the making
// (https://sqlite.org/c3ref/backup_finish.html). As long as the connection it
// comes from has a read transaction open, the copy is of what that sees, and
// what others write meanwhile does not disturb it.
type Backup struct {
	from, to *Conn
	backup   uintptr // sqlite3_backup*
}

// BackupTo begins to copy the whole database into another connection's, which
// nobody else may use meanwhile. The caller finishes the backup.
func (c *Conn) BackupTo(to *Conn) (*Backup, error) {
	name, err := libc.CString("main")
	if err != nil {
		return nil, &Error{Op: "backup", Code: lib.SQLITE_NOMEM, Message: "out of memory"}
	}
	defer libc.Xfree(c.tls, name)
	b := lib.Xsqlite3_backup_init(c.tls, to.db, name, c.db, name)
	if b == 0 {
		return nil, to.fault("backup", lib.Xsqlite3_extended_errcode(to.tls, to.db))
	}
	return &Backup{from: c, to: to, backup: b}, nil
}

// Step copies up to so many pages more, and reports whether that was all.
func (b *Backup) Step(pages int) (done bool, err error) {
	switch code := lib.Xsqlite3_backup_step(b.from.tls, b.backup, int32(pages)); code {
	case lib.SQLITE_OK:
		return false, nil
	case lib.SQLITE_DONE:
		return true, nil
	default:
		return false, &Error{Op: "backup", Code: int(code), Message: libc.GoString(lib.Xsqlite3_errstr(b.from.tls, code))}
	}
}

// Pages returns how many pages are copied and how many there are, as far as
// the last Step knew.
func (b *Backup) Pages() (copied, all int) {
	all = int(lib.Xsqlite3_backup_pagecount(b.from.tls, b.backup))
	return all - int(lib.Xsqlite3_backup_remaining(b.from.tls, b.backup)), all
}

// Finish ends the backup. If Step has not reported that it was all, what is
// copied is given up.
func (b *Backup) Finish() error {
	code := lib.Xsqlite3_backup_finish(b.from.tls, b.backup)
	if code != lib.SQLITE_OK {
		return &Error{Op: "backup", Code: int(code), Message: libc.GoString(lib.Xsqlite3_errstr(b.from.tls, code))}
	}
	return nil
}
