package dump

import (
	"bytes"
	"io"
	"iter"
)

// readLines reads JSON Lines: one plant a line, as plant.Decode takes it.
func readLines(r io.Reader, rowMax int) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		l := lineReader{w: newWindow(r, rowMax)}
		for l.next() {
			if !yield(l.row, nil) {
				return
			}
		}
		if err := l.w.failure(l.lines + 1); err != nil {
			yield(Row{}, err)
		}
	}
}

// lineReader is the state of reading JSON Lines.
type lineReader struct {
	w     window
	lines int64 // how many lines were read
	row   Row
}

// next reads the next row that is not blank, or returns false.
func (l *lineReader) next() bool {
	for {
		line := l.w.line()
		if line == nil {
			if len(l.w.unread()) <= l.w.rowMax || !l.skipLine() {
				return false
			}
			l.row = Row{Line: l.lines, Err: errRowTooLong(l.w.rowMax)}
			return true
		}
		l.w.discard(len(line))
		l.lines++
		raw := trimLineEnd(line)
		if len(bytes.TrimLeft(raw, " \t\r")) == 0 {
			continue
		}
		l.row = Row{Line: l.lines, Raw: raw}
		if len(raw) > l.w.rowMax {
			l.row.Raw, l.row.Err = nil, errRowTooLong(l.w.rowMax)
		} else {
			l.row.Plant, l.row.Err = decode(raw)
		}
		return true
	}
}

// skipLine passes over a line that is too long. It returns false if the input
// fails before the line ends.
func (l *lineReader) skipLine() bool {
	for {
		data := l.w.unread()
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			l.w.discard(i + 1)
			break
		}
		l.w.discard(len(data))
		if !l.w.fill() {
			if !isEnd(l.w.err) {
				return false
			}
			break
		}
	}
	l.lines++
	return true
}
