package dump

import (
	"bytes"
	"fmt"
)

// arrayReader reads one JSON array of plants, element by element. It finds the end of an element by strings and the
// depth of brackets; plant.Decode checks whether the element is valid JSON.
type arrayReader struct {
	window

	members unknownMembers
	element int64 // number of the last one
	comma   bool  // the last element ended with a comma: another must follow
}

// open reads up to the opening bracket.
func (a *arrayReader) open(*File) error {
	c, ok := a.peek()
	switch {
	case !ok:
		return a.ended("the file is empty; a JSON file must contain an array: [] for no plants")
	case c != '[':
		return a.fail("the file must be a JSON array; it begins with %q; the format for one object per line is jsonl", c)
	}
	a.discard(1)
	return nil
}

// next reads the next element, and the comma after it.
func (a *arrayReader) next(row *Row) error {
	c, ok := a.peek()
	switch {
	case !ok:
		return a.ended("the array is not closed; expected ']' at the end")
	case c == ']' && !a.comma:
		return a.close()
	case c == ']' || c == '}' || c == ',':
		return a.fail("the array is invalid: expected a plant; got %q", c)
	}
	var s elementScan
	if !a.row(row, s.scan) {
		return a.ended("the array is not closed; the file ends inside the element of line %d", row.Line)
	}
	delimiter := a.unread()[0]
	if delimiter == '}' {
		return a.fail("the array is invalid: expected ',' or ']'; got '}'")
	}
	if a.comma = delimiter == ','; a.comma {
		a.discard(1)
	}
	a.element++
	row.Element = a.element
	if row.Err == nil {
		row.Raw = bytes.TrimRight(row.Raw, " \t\r\n")
		if lines := bytes.Count(row.Raw, []byte{'\n'}); row.LastLine > 0 {
			row.LastLine = 0
			if lines > 0 {
				row.LastLine = row.Line + int64(lines)
			}
		}
		row.Plant, row.Err = a.members.decode(row.Raw)
		if row.Err != nil && row.Plant.ID != 0 {
			row.Err = fmt.Errorf("id %d: %w", row.Plant.ID, row.Err)
		}
	}
	return nil
}

// close reads the closing bracket and checks that only white space follows it. Its error is io.EOF then.
func (a *arrayReader) close() error {
	a.discard(1)
	if c, ok := a.peek(); ok {
		return a.fail("expected the end of the file after the array; got %q", c)
	}
	return a.failure(a.line)
}

// peek skips white space and returns the byte after it, or false at the end of the input.
func (a *arrayReader) peek() (byte, bool) {
	for {
		rest := bytes.TrimLeft(a.unread(), " \t\r\n")
		a.discard(len(a.unread()) - len(rest))
		if len(rest) > 0 {
			return rest[0], true
		}
		if !a.fill() {
			return 0, false
		}
	}
}

// fail returns an error about the array.
func (a *arrayReader) fail(format string, args ...any) error {
	return fmt.Errorf("line %d: %s", a.line, fmt.Sprintf(format, args...))
}

// ended is fail at the end of the input. The error of a failed read takes precedence.
func (a *arrayReader) ended(format string, args ...any) error {
	if err := a.failure(a.line); !isEnd(err) {
		return err
	}
	return a.fail(format, args...)
}

// elementScan is the state of scanning an element.
type elementScan struct {
	depth     int  // open brackets
	inString  bool // inside quotes
	backslash bool // the last byte of the string was a backslash, which escapes the next byte
}

// scan is a scan for window.row. The byte after the element is a comma or a closing bracket.
func (s *elementScan) scan(data []byte) (n int, done bool) {
	now := *s // in registers, because the loop sees every byte of the file
	for i, c := range data {
		switch {
		case now.backslash:
			now.backslash = false
		case now.inString:
			now.backslash, now.inString = c == '\\', c != '"'
		case c == '"':
			now.inString = true
		case c == '{' || c == '[':
			now.depth++
		case now.depth == 0 && (c == '}' || c == ']' || c == ','):
			return i, true
		case c == '}' || c == ']':
			now.depth--
		}
	}
	*s = now
	return len(data), false
}
