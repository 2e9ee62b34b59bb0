package sqlite3

import (
	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// CopyTo copies the whole database into the database of another connection, in steps of some pages
// (https://sqlite.org/c3ref/backup_finish.html). After each step it calls after with the number of
// copied pages and of all pages, and ends with the error of that. The caller must not use the other
// connection for anything but SyncFile until then.
//
// If the connection keeps a read transaction open, the copy has the state that this transaction reads, and writes of
// other connections do not restart it.
func (c *Conn) CopyTo(to *Conn, pages int, after func(copied, all int) error) (err error) {
	name := cString(c.tls, "main")
	defer libc.Xfree(c.tls, name)
	b := lib.Xsqlite3_backup_init(c.tls, to.db, name, c.db, name)
	if b == 0 {
		return to.newError("backup", lib.Xsqlite3_extended_errcode(to.tls, to.db))
	}
	code := int32(lib.SQLITE_OK)
	for code == lib.SQLITE_OK && err == nil {
		code = lib.Xsqlite3_backup_step(c.tls, b, int32(pages))
		if code == lib.SQLITE_OK || code == lib.SQLITE_DONE {
			all := int(lib.Xsqlite3_backup_pagecount(c.tls, b))
			err = after(all-int(lib.Xsqlite3_backup_remaining(c.tls, b)), all)
		}
	}
	lib.Xsqlite3_backup_finish(c.tls, b) // repeats an error of the last step
	if err == nil && code != lib.SQLITE_DONE {
		err = codeError(c.tls, "backup", code)
	}
	return err
}
