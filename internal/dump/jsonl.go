package dump

import (
	"bytes"

	"plantstore/internal/plant"
)

// lineReader reads JSON Lines: one plant per line.
type lineReader struct{ window }

func (l *lineReader) open(*File) error { return nil }

// next returns the next row that is not blank.
func (l *lineReader) next(row *Row) error {
	for {
		done := l.row(row, scanLine)
		blank := row.Err == nil && len(bytes.TrimLeft(row.Raw, " \t\r")) == 0
		switch {
		case !done && (blank || !isEnd(l.err)):
			return l.failure(row.Line)
		case blank:
			continue
		case row.Err == nil:
			row.Plant, row.Err = plant.Decode(row.Raw)
		}
		return nil
	}
}

// scanLine is a scan for window.row.
func scanLine(data []byte) (n int, done bool) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, true
	}
	return len(data), false
}
