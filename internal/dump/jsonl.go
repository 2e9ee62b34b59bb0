package dump

import (
	"bytes"
	"io"
	"iter"
)

// readLines reads JSON Lines: one plant per line.
func readLines(r io.Reader, rowMax, plantMax int) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		lr := lineReader{w: newWindow(r, rowMax), plantMax: plantMax}
		for lr.next() {
			if !yield(lr.row, nil) {
				return
			}
		}
		if err := lr.w.failure(lr.lines + 1); err != nil {
			yield(Row{}, err)
		}
	}
}

// lineReader is the state of readLines.
type lineReader struct {
	w        window
	plantMax int
	lines    int64 // number of lines read
	row      Row
}

// next reads the next row that is not blank. It returns false at the end of the
// input and after a failed read.
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
			l.row.Plant, l.row.Err = decode(raw, l.plantMax)
		}
		return true
	}
}

// skipLine discards a line that is too long. It returns false if a read fails
// before the line ends.
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
