package sqlite3

import (
	"bytes"
	"fmt"
	"syscall"
	"time"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// Stmt is a prepared statement. Parameters count from 1, columns from 0.
//
// A statement copies bound texts and blobs into its own memory, outside Go's heap. Reset releases them: bind every
// parameter again after it.
type Stmt struct {
	conn  *Conn
	stmt  uintptr // sqlite3_stmt*
	sql   string
	text  []byte   // mapped memory for bound texts and blobs; text[:used] is bound
	used  int      // bytes of text
	older [][]byte // smaller memory that text replaced; bound until Reset
}

const textBytesMin = 64 << 10

// Prepare compiles one statement for repeated use. The caller closes it.
func (c *Conn) Prepare(sql string) (*Stmt, error) {
	text := cString(c.tls, sql)
	defer libc.Xfree(c.tls, text)
	code := lib.Xsqlite3_prepare_v3(c.tls, c.db, text, -1, lib.SQLITE_PREPARE_PERSISTENT, c.out, 0)
	if code != lib.SQLITE_OK {
		return nil, c.newError(sql, code)
	}
	return &Stmt{conn: c, stmt: *(*uintptr)(pointer(c.out)), sql: sql}, nil
}

// Close frees the statement. Closing it twice, or a nil one, does nothing.
func (s *Stmt) Close() {
	if s == nil || s.stmt == 0 {
		return
	}
	lib.Xsqlite3_finalize(s.conn.tls, s.stmt) // repeats the error that Step returned
	s.stmt = 0
	for _, text := range append(s.older, s.text) {
		_ = syscall.Munmap(text) // fails only for memory that is not mapped, such as none
	}
}

// Reset prepares the statement for other values and another run.
func (s *Stmt) Reset() {
	lib.Xsqlite3_reset(s.conn.tls, s.stmt) // repeats the error that Step returned
	s.used = 0
	for _, text := range s.older {
		_ = syscall.Munmap(text) // fails only for memory that is not mapped
	}
	s.older = s.older[:0]
}

// Step runs the statement to its next row. It returns false after the last row.
func (s *Stmt) Step() (row bool, err error) {
	switch code := lib.Xsqlite3_step(s.conn.tls, s.stmt); code {
	case lib.SQLITE_ROW:
		return true, nil
	case lib.SQLITE_DONE:
		return false, nil
	default:
		return false, s.conn.newError(s.sql, code)
	}
}

// Run binds values, runs a statement that returns no rows, and resets it.
func (s *Stmt) Run(values ...any) error {
	s.Bind(values...)
	_, err := s.Step()
	s.Reset()
	return err
}

// Bind binds values to the parameters, starting with the first: a time as microseconds since 1970, the zero time and
// nil as NULL, true as 1. It panics for a value of another type.
func (s *Stmt) Bind(values ...any) {
	for i, value := range values {
		switch v := value.(type) {
		case nil:
			s.BindNull(i + 1)
		case int:
			s.BindInt64(i+1, int64(v))
		case int64:
			s.BindInt64(i+1, v)
		case bool:
			s.BindInt64(i+1, libc.BoolInt64(v))
		case string:
			s.BindText(i+1, v)
		case []byte:
			s.BindBlob(i+1, v)
		case time.Time:
			if v.IsZero() {
				s.BindNull(i + 1)
			} else {
				s.BindInt64(i+1, v.UnixMicro())
			}
		default:
			panic(fmt.Sprintf("bind %T", value))
		}
	}
}

// BindInt64 binds an integer. Like all Bind methods it panics if the parameter does not exist.
func (s *Stmt) BindInt64(param int, v int64) {
	s.must(lib.Xsqlite3_bind_int64(s.conn.tls, s.stmt, int32(param), v))
}

// BindNull binds NULL.
func (s *Stmt) BindNull(param int) {
	s.must(lib.Xsqlite3_bind_null(s.conn.tls, s.stmt, int32(param)))
}

// BindText binds a text, which must be UTF-8.
func (s *Stmt) BindText(param int, v string) {
	address := s.store(v)
	s.must(lib.Xsqlite3_bind_text(s.conn.tls, s.stmt, int32(param), address, int32(len(v)), lib.SQLITE_STATIC))
}

// BindBlob binds bytes.
func (s *Stmt) BindBlob(param int, v []byte) {
	address := s.store(string(v))
	s.must(lib.Xsqlite3_bind_blob(s.conn.tls, s.stmt, int32(param), address, int32(len(v)), lib.SQLITE_STATIC))
}

// Int64 returns an integer column.
func (s *Stmt) Int64(column int) int64 {
	return lib.Xsqlite3_column_int64(s.conn.tls, s.stmt, int32(column))
}

// Time returns a column of microseconds since 1970; the zero time for NULL.
func (s *Stmt) Time(column int) time.Time {
	if s.Null(column) {
		return time.Time{}
	}
	return time.UnixMicro(s.Int64(column)).UTC()
}

// Null reports whether a column is NULL.
func (s *Stmt) Null(column int) bool {
	return lib.Xsqlite3_column_type(s.conn.tls, s.stmt, int32(column)) == lib.SQLITE_NULL
}

// Text returns a copy of a text or blob column; "" for NULL.
func (s *Stmt) Text(column int) string { return string(s.Bytes(column)) }

// Bytes returns a text or blob column without copying it; nil for NULL. The memory belongs to SQLite and is valid until
// the next call of Step, Reset or Close.
func (s *Stmt) Bytes(column int) []byte {
	address := lib.Xsqlite3_column_blob(s.conn.tls, s.stmt, int32(column))
	bytes := lib.Xsqlite3_column_bytes(s.conn.tls, s.stmt, int32(column))
	switch {
	case address != 0 && bytes != 0:
		return unsafe.Slice((*byte)(pointer(address)), bytes)
	case s.Null(column):
		return nil
	}
	return []byte{}
}

// Scan copies the columns of a row; NULL as the zero value. It panics for a pointer to another type.
func (s *Stmt) Scan(dest ...any) error {
	for i, d := range dest {
		switch d := d.(type) {
		case *int:
			*d = int(s.Int64(i))
		case *int64:
			*d = s.Int64(i)
		case *bool:
			*d = s.Int64(i) != 0
		case *string:
			*d = s.Text(i)
		case *[]byte:
			*d = bytes.Clone(s.Bytes(i))
		case *time.Time:
			*d = s.Time(i)
		default:
			panic(fmt.Sprintf("scan into %T", d))
		}
	}
	return nil
}

func (s *Stmt) must(code int32) {
	if code != lib.SQLITE_OK {
		panic(s.conn.newError("bind: "+s.sql, code))
	}
}

// store copies v into the statement's memory and returns the address of the copy.
func (s *Stmt) store(v string) uintptr {
	if s.used+len(v) >= len(s.text) { // >=: an empty text also needs an address
		s.grow(len(v))
	}
	address := uintptr(unsafe.Pointer(&s.text[s.used]))
	s.used += copy(s.text[s.used:], v)
	return address
}

// grow replaces the statement's memory by larger memory with space for more bytes.
func (s *Stmt) grow(more int) {
	if s.text != nil {
		s.older = append(s.older, s.text)
	}
	size := max(textBytesMin, 2*len(s.text))
	for size <= more {
		size *= 2
	}
	text, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		panic("out of memory: " + err.Error()) // like the Go runtime
	}
	s.text, s.used = text, 0
}
