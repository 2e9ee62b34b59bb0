package dump

import (
	"bytes"
	"fmt"
	"io"
	"iter"
)

// readArray reads one JSON array of plants, element by element.
func readArray(r io.Reader, rowMax, plantMax int) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		a := arrayReader{w: newWindow(r, rowMax), plantMax: plantMax, line: 1}
		more := a.open()
		for more && a.next() {
			if !yield(a.row, nil) {
				return
			}
		}
		if a.err != nil {
			yield(Row{}, a.err)
		}
	}
}

// arrayReader is the state of readArray. It finds the end of an element by
// strings and the depth of brackets; decode checks whether the element is valid
// JSON.
type arrayReader struct {
	w        window
	plantMax int
	line     int64 // of the first unread byte
	comma    bool  // the last element ended with a comma: another must follow
	row      Row
	err      error
}

// open reads up to the opening bracket.
func (a *arrayReader) open() bool {
	c, ok := a.peek()
	if !ok {
		return a.ended("the file is empty; a JSON file must contain an array: [] for no plants")
	}
	if c != '[' {
		return a.fail("the file must be a JSON array; it begins with %q; the format for one object per line is jsonl", c)
	}
	a.w.discard(1)
	return true
}

// next reads the next element, or returns false at the end of the array.
func (a *arrayReader) next() bool {
	c, ok := a.peek()
	switch {
	case !ok:
		return a.ended("the array is not closed; expected ']' at the end")
	case c == ']' && !a.comma:
		return a.close()
	case c == ']' || c == '}' || c == ',':
		return a.fail("the array is invalid: expected a plant; got %q", c)
	}
	return a.element()
}

// close reads the closing bracket and checks that only white space follows it.
func (a *arrayReader) close() bool {
	a.w.discard(1)
	if c, ok := a.peek(); ok {
		return a.fail("expected the end of the file after the array; got %q", c)
	}
	a.err = a.w.failure(a.line)
	return false
}

// peek skips white space and returns the byte after it, or false at the end of
// the input.
func (a *arrayReader) peek() (byte, bool) {
	for {
		for i, c := range a.w.unread() {
			switch c {
			case '\n':
				a.line++
			case ' ', '\t', '\r':
			default:
				a.w.discard(i)
				return c, true
			}
		}
		a.w.discard(len(a.w.unread()))
		if !a.w.fill() {
			return 0, false
		}
	}
}

// element reads one element, up to the comma or bracket after it.
func (a *arrayReader) element() bool {
	a.row = Row{Line: a.line}
	var s elementScan
	scanned, tooLong := 0, false
	for {
		data := a.w.unread()
		n, done := s.scan(data[scanned:])
		a.line += int64(bytes.Count(data[scanned:scanned+n], []byte{'\n'}))
		scanned += n
		tooLong = tooLong || scanned > a.w.rowMax
		if done {
			return a.finish(data[:scanned], data[scanned], tooLong)
		}
		if tooLong {
			a.w.discard(scanned)
			scanned = 0
		}
		if !a.w.fill() {
			return a.ended("the array is not closed; the file ends inside the element of line %d", a.row.Line)
		}
	}
}

// finish sets the row to an element that ends before the byte delimiter.
func (a *arrayReader) finish(raw []byte, delimiter byte, tooLong bool) bool {
	a.w.discard(len(raw))
	a.comma = delimiter == ','
	switch {
	case delimiter == '}':
		return a.fail("the array is invalid: expected ',' or ']'; got '}'")
	case a.comma:
		a.w.discard(1)
	}
	if tooLong {
		a.row.Err = errRowTooLong(a.w.rowMax)
		return true
	}
	a.row.Raw = bytes.TrimRight(raw, " \t\r\n")
	a.row.Plant, a.row.Err = decode(a.row.Raw, a.plantMax)
	return true
}

// fail sets the error that ends the input.
func (a *arrayReader) fail(format string, args ...any) bool {
	a.err = fmt.Errorf("line %d: %s", a.line, fmt.Sprintf(format, args...))
	return false
}

// ended is fail at the end of the input. The error of a failed read takes
// precedence.
func (a *arrayReader) ended(format string, args ...any) bool {
	if a.err = a.w.failure(a.line); a.err == nil {
		a.fail(format, args...)
	}
	return false
}

// elementScan is the state of scanning an element.
type elementScan struct {
	depth     int  // of open brackets
	inString  bool // inside quotes
	backslash bool // the last byte of the string was a backslash, which escapes the next byte
}

// scan continues an element. It returns the number of bytes that belong to it,
// and whether the byte after them ends it.
func (s *elementScan) scan(data []byte) (n int, done bool) {
	for i := 0; i < len(data); i++ {
		if s.inString {
			i += s.string(data[i:]) - 1
			continue
		}
		switch data[i] {
		case '"':
			s.inString = true
		case '{', '[':
			s.depth++
		case '}', ']':
			if s.depth == 0 {
				return i, true
			}
			s.depth--
		case ',':
			if s.depth == 0 {
				return i, true
			}
		}
	}
	return len(data), false
}

// string continues a string, up to its end or the end of data.
func (s *elementScan) string(data []byte) (n int) {
	for i, c := range data {
		switch {
		case s.backslash:
			s.backslash = false
		case c == '\\':
			s.backslash = true
		case c == '"':
			s.inString = false
			return i + 1
		}
	}
	return len(data)
}
