package dump

import (
	"bytes"
	"errors"

	"plantstore/internal/plant"
)

// lineReader reads JSON Lines: one plant per line.
type lineReader struct {
	window

	members unknownMembers
}

func (l *lineReader) open(*File) error {
	if string(l.peek(1)) == "[" {
		return errors.New("the file begins with '['; the format of one array of plants is json")
	}
	return nil
}

// unknownMembers counts the rows with a member that no plant has, by the name of the member.
type unknownMembers map[string]int64

func (u unknownMembers) decode(row []byte) (plant.NewPlant, error) {
	return plant.DecodeRow(row, func(name []byte) {
		const namesMax, nameBytesMax = 40, 100
		if name = name[:min(len(name), nameBytesMax)]; u[string(name)] > 0 || len(u) < namesMax {
			u[string(name)]++
		}
	})
}

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
			row.Plant, row.Err = l.members.decode(row.Raw)
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
