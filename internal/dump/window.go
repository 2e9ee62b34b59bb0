package dump

import (
	"bytes"
	"fmt"
	"io"

	"golang.org/x/text/encoding"
)

// windowBytes is the size of the window while rows are short.
const windowBytes = 64 << 10

// window is a buffer of unread bytes of a reader: fill reads more of them, and discard removes them. It grows only if
// fill finds it full.
type window struct {
	r          io.Reader
	rowMax     int // bytes of the longest row that is kept
	buf        []byte
	start, end int   // the unread bytes are buf[start:end]
	line       int64 // line of the first unread byte, from 1
	err        error // why r returns no more bytes; io.EOF at the end of the input
	lineEnd    byte  // LF, or CR in a file without LF
	rowStart   int   // where the last row begins in buf until the next fill; -1 if buf has not all of it
}

func newWindow(r io.Reader, rowMax int) window {
	return window{r: r, rowMax: rowMax, buf: make([]byte, windowBytes), line: 1, lineEnd: '\n'}
}

// decode continues with the unread bytes in UTF-8. Nothing has been discarded.
func (w *window) decode(from *encoding.Decoder) {
	head := bytes.Clone(w.unread())
	rest := w.r
	if w.err != nil {
		rest = &failedReader{w.err}
	}
	*w = newWindow(from.Reader(io.MultiReader(bytes.NewReader(head), rest)), w.rowMax)
}

// failedReader is the rest of a reader that has returned an error.
type failedReader struct{ err error }

func (r failedReader) Read([]byte) (int, error) { return 0, r.err }

// peek returns the first n unread bytes, or all bytes up to the end of the input.
func (w *window) peek(n int) []byte {
	for w.end-w.start < n && w.fill() {
	}
	return w.unread()[:min(n, w.end-w.start)]
}

// unread returns the bytes that are not discarded. They are valid until the next fill, even if it fails.
func (w *window) unread() []byte { return w.buf[w.start:w.end] }

func (w *window) discard(n int) {
	w.line += int64(bytes.Count(w.unread()[:n], []byte{w.lineEnd}))
	w.start += n
}

// fill reads at least one more byte. It returns false if it cannot; err is the reason.
func (w *window) fill() bool {
	if w.err != nil {
		return false
	}
	if w.start > 0 {
		w.start, w.end = 0, copy(w.buf, w.unread())
	}
	if w.end == len(w.buf) {
		w.buf = append(w.buf, make([]byte, len(w.buf))...)
	}
	n, err := io.ReadAtLeast(w.r, w.buf[w.end:], 1)
	w.end += n
	w.err = err
	return err == nil
}

func (w *window) skipByteOrderMark() {
	mark := []byte("\uFEFF")
	if bytes.Equal(w.peek(len(mark)), mark) {
		w.discard(len(mark))
	}
}

// row reads a row with its line end, if it has one, and sets its Line, Raw and Err. scan continues the row with more
// bytes: it returns the number of bytes that belong to the row, and whether the row ends after them. row returns false
// if the input ends first.
func (w *window) row(row *Row, scan func(data []byte) (n int, done bool)) (done bool) {
	row.Place, row.Err = Place{Line: w.line}, nil // not the whole row, which costs write barriers
	size, tooLong := 0, false
	for more := true; more; more = !done && w.fill() {
		var n int
		n, done = scan(w.unread()[size:])
		if size += n; size > w.rowMax+len("\r\n") && !done {
			w.discard(size)
			size, tooLong = 0, true
		}
	}
	row.Raw = w.trimLineEnd(w.unread()[:size])
	w.rowStart = w.start
	w.discard(size)
	last := w.line
	if w.start > 0 && w.buf[w.start-1] == w.lineEnd {
		last--
	}
	if last > row.Line {
		row.LastLine = last
	}
	if tooLong {
		w.rowStart = -1
	}
	if tooLong || len(row.Raw) > w.rowMax {
		row.Raw = nil
		row.Err = fmt.Errorf("the row is longer than %d bytes; check for a missing quote or bracket", w.rowMax)
	}
	return done
}

// trimLineEnd returns the row without its LF, CRLF or, at the end of the input, CR.
func (w *window) trimLineEnd(row []byte) []byte {
	if w.lineEnd == '\r' {
		return bytes.TrimSuffix(row, []byte{'\r'})
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(row, []byte{'\n'}), []byte{'\r'})
}

// isEnd reports whether a reader's error is the end of its input.
func isEnd(err error) bool {
	return err == io.EOF //nolint:errorlint // a reader ends with io.EOF itself; an error that wraps it is a failure
}

// failure returns the error that ended the input at the given line: io.EOF at the end of the input.
func (w *window) failure(line int64) error {
	if isEnd(w.err) {
		return io.EOF
	}
	return fmt.Errorf("read line %d: %w", line, w.err)
}
