package sqlite3

import (
	"errors"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Session records the changes that a connection makes to the rows of some tables
// (https://sqlite.org/sessionintro.html). The caller closes it before the connection.
type Session struct {
	conn    *Conn
	session uintptr // sqlite3_session*
}

// Record starts a session. A table without a primary key is recorded by the ids of its rows.
func (c *Conn) Record(tables ...string) (*Session, error) {
	main := cString(c.tls, "main")
	defer libc.Xfree(c.tls, main)
	if code := lib.Xsqlite3session_create(c.tls, c.db, main, c.out); code != lib.SQLITE_OK {
		return nil, codeError(c.tls, "session", code)
	}
	s := &Session{c, *(*uintptr)(pointer(c.out))}
	*(*int32)(pointer(c.out)) = 1
	code := lib.Xsqlite3session_object_config(c.tls, s.session, lib.SQLITE_SESSION_OBJCONFIG_ROWID, c.out)
	for _, table := range tables {
		if code != lib.SQLITE_OK {
			break
		}
		name := cString(c.tls, table)
		code = lib.Xsqlite3session_attach(c.tls, s.session, name)
		libc.Xfree(c.tls, name)
	}
	if code != lib.SQLITE_OK {
		s.Close()
		return nil, codeError(c.tls, "session", code)
	}
	return s, nil
}

// Close ends the session.
func (s *Session) Close() { lib.Xsqlite3session_delete(s.conn.tls, s.session) }

// Patchset returns the changes since the start, in SQLite's format; none if no row changed. Of a deleted row it has the
// primary key only.
func (s *Session) Patchset() ([]byte, error) {
	c := s.conn
	code := lib.Xsqlite3session_patchset(c.tls, s.session, c.out, c.out+outArgs)
	if code != lib.SQLITE_OK {
		return nil, codeError(c.tls, "patchset", code)
	}
	size, address := *(*int32)(pointer(c.out)), *(*uintptr)(pointer(c.out + outArgs))
	if address == 0 {
		return nil, nil
	}
	defer lib.Xsqlite3_free(c.tls, address)
	return append([]byte(nil), unsafe.Slice((*byte)(pointer(address)), size)...), nil
}

// ErrConflict means that the rows of a database are not those that a changeset changes.
var ErrConflict = errors.New("the rows differ from those that were changed")

// Apply applies a changeset in a savepoint. No trigger runs, because the changeset has the rows that triggers
// changed. The error is ErrConflict if a row is not as it was before the change; then nothing is changed.
func (c *Conn) Apply(changeset []byte) error {
	if len(changeset) == 0 {
		return nil
	}
	c.config(lib.SQLITE_DBCONFIG_ENABLE_TRIGGER, false)
	defer c.config(lib.SQLITE_DBCONFIG_ENABLE_TRIGGER, true)
	memory := calloc(c.tls, len(changeset))
	defer libc.Xfree(c.tls, memory)
	copy(unsafe.Slice((*byte)(pointer(memory)), len(changeset)), changeset)
	code := lib.Xsqlite3changeset_apply(c.tls, c.db, int32(len(changeset)), memory, 0, address(abortOnConflict), 0)
	if code == lib.SQLITE_ABORT {
		return ErrConflict
	}
	return c.check("apply a changeset", code)
}

// abortOnConflict is the conflict handler of Apply.
func abortOnConflict(_ *libc.TLS, _ uintptr, _ int32, _ uintptr) int32 {
	return lib.SQLITE_CHANGESET_ABORT
}
