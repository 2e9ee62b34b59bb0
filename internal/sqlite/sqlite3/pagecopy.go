package sqlite3

import (
	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Backup copies a database in steps (https://sqlite.org/c3ref/backup_finish.html).
// If the source connection keeps a read transaction open, the copy has the state
// that this transaction reads, and writes of other connections do not restart it.
type Backup struct {
	from   *Conn
	backup uintptr // sqlite3_backup*
}

// BackupTo starts a backup of the whole database into the database of another
// connection. The caller must not use that connection until it finishes the
// backup.
func (c *Conn) BackupTo(to *Conn) (*Backup, error) {
	name, err := libc.CString("main")
	if err != nil {
		return nil, outOfMemory("backup")
	}
	defer libc.Xfree(c.tls, name)
	b := lib.Xsqlite3_backup_init(c.tls, to.db, name, c.db, name)
	if b == 0 {
		return nil, to.newError("backup", lib.Xsqlite3_extended_errcode(to.tls, to.db))
	}
	return &Backup{from: c, backup: b}, nil
}

// Step copies up to that many pages. It reports whether the backup is complete.
func (b *Backup) Step(pages int) (done bool, err error) {
	switch code := lib.Xsqlite3_backup_step(b.from.tls, b.backup, int32(pages)); code {
	case lib.SQLITE_OK:
		return false, nil
	case lib.SQLITE_DONE:
		return true, nil
	default:
		return false, codeError(b.from.tls, "backup", code)
	}
}

// Pages returns the number of copied pages and of all pages, as of the last Step.
func (b *Backup) Pages() (copied, all int) {
	all = int(lib.Xsqlite3_backup_pagecount(b.from.tls, b.backup))
	return all - int(lib.Xsqlite3_backup_remaining(b.from.tls, b.backup)), all
}

// Finish ends the backup. It discards the copy unless Step reported it complete.
func (b *Backup) Finish() error {
	code := lib.Xsqlite3_backup_finish(b.from.tls, b.backup)
	if code != lib.SQLITE_OK {
		return codeError(b.from.tls, "backup", code)
	}
	return nil
}
