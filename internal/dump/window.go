package dump

import (
	"bytes"
	"fmt"
	"io"
)

// windowBytes is how much of the input a read holds while rows are short.
const windowBytes = 64 << 10

// window shows the unread bytes of a reader. Its user takes them away with
// discard and asks for more with fill. It holds no more than its user leaves in
// it, and what fill adds.
type window struct {
	r          io.Reader
	rowMax     int // the longest row that is read
	buf        []byte
	start, end int   // the unread bytes are buf[start:end]
	err        error // why no more bytes come; io.EOF at the proper end
}

func newWindow(r io.Reader, rowMax int) window {
	w := window{r: r, rowMax: rowMax, buf: make([]byte, windowBytes)}
	w.skipByteOrderMark()
	return w
}

// unread returns the bytes that were read and not discarded. They stay valid
// until the next fill, even one that fails.
func (w *window) unread() []byte { return w.buf[w.start:w.end] }

func (w *window) discard(n int) { w.start += n }

// fill adds at least one byte to the unread ones, or returns false; then err
// says why.
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

// line returns the next line with its line end, or what is left of the input
// if that has none. It returns nil at the end of the input, at a failure, and
// for a line that is longer than a row may be.
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

// isEnd tells whether a reader's error is the proper end of its input.
func isEnd(err error) bool {
	return err == io.EOF //nolint:errorlint // io.Reader ends with io.EOF itself; in another error it is a failure
}

// failure returns why the input ended before its proper end, or nil. line is
// where that was.
func (w *window) failure(line int64) error {
	if w.err == nil || isEnd(w.err) {
		return nil
	}
	return fmt.Errorf("read line %d: %w", line, w.err)
}

// trimLineEnd returns the line without its LF or CRLF. A CR that ends the
// input counts as a line end too.
func trimLineEnd(line []byte) []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte{'\n'}), []byte{'\r'})
}
