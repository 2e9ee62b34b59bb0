package dump

import (
	"bytes"
	"fmt"
	"io"
)

// windowBytes is the size of the window while rows are short.
const windowBytes = 64 << 10

// window is a buffer of unread bytes of a reader: fill reads more of them, and
// discard removes them. It grows only if fill finds it full.
type window struct {
	r          io.Reader
	rowMax     int // bytes of the longest row that is kept
	buf        []byte
	start, end int   // the unread bytes are buf[start:end]
	err        error // why r returns no more bytes; io.EOF at the end of the input
}

func newWindow(r io.Reader, rowMax int) window {
	w := window{r: r, rowMax: rowMax, buf: make([]byte, windowBytes)}
	w.skipByteOrderMark()
	return w
}

// unread returns the bytes that are not discarded. They are valid until the next
// fill, even if it fails.
func (w *window) unread() []byte { return w.buf[w.start:w.end] }

func (w *window) discard(n int) { w.start += n }

// fill reads at least one more byte. It returns false if it cannot; err is the
// reason.
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
	const emptyReadsMax = 100
	for range emptyReadsMax {
		n, err := w.r.Read(w.buf[w.end:])
		w.end += n
		w.err = err
		if n > 0 || err != nil {
			return n > 0
		}
	}
	w.err = io.ErrNoProgress
	return false
}

func (w *window) skipByteOrderMark() {
	mark := []byte("\uFEFF")
	for w.end-w.start < len(mark) && w.fill() {
	}
	if bytes.HasPrefix(w.unread(), mark) {
		w.discard(len(mark))
	}
}

// line returns the next line with its line end; the last line may have none. It
// returns nil at the end of the input, after a failed read, and for a line that
// is longer than rowMax.
func (w *window) line() []byte {
	searched := 0
	for {
		data := w.unread()
		if i := bytes.IndexByte(data[searched:], '\n'); i >= 0 {
			return data[:searched+i+1]
		}
		searched = len(data)
		if searched > w.rowMax+len("\r") {
			return nil
		}
		if w.fill() {
			continue
		}
		if isEnd(w.err) && searched > 0 {
			return w.unread()
		}
		return nil
	}
}

// isEnd reports whether a reader's error is the end of its input.
func isEnd(err error) bool {
	return err == io.EOF //nolint:errorlint // a reader ends with io.EOF itself; an error that wraps it is a failure
}

// failure returns the error that ended the input at the given line, or nil at
// the end of the input.
func (w *window) failure(line int64) error {
	if w.err == nil || isEnd(w.err) {
		return nil
	}
	return fmt.Errorf("read line %d: %w", line, w.err)
}

// trimLineEnd returns the line without its LF, CRLF or, at the end of the input,
// CR.
func trimLineEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'})
}
