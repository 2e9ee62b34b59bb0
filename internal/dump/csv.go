package dump

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"plantstore/internal/plant"
)

// columnsMax is the largest number of columns in a header. It bounds the memory for a row that consists of commas.
const columnsMax = 1024

// csvReader reads CSV as in RFC 4180, with any of four separators. It does not use encoding/csv, which turns CRLF
// inside quotes into LF and so changes the text of a cell.
type csvReader struct {
	window

	form    form
	columns columns
	options Options
	found   map[string]string // as in Found.Columns
	number  int64             // rows that are not blank
	torn    int64             // quoted cells end in their lines up to this one
	scan    csvScan           // state after the last row
}

// form is the form of a CSV file.
type form struct {
	header    string // as in the file
	separator byte
	lineEnd   string
}

const headerWanted = "a CSV file begins with a header with the columns id, name and optionally tag"

// open reads the header, which is the first row that is not blank.
func (r *csvReader) open(f *File) error {
	r.options = f.options
	r.look()
	var row Row
	switch err := r.scanRow(&row); {
	case isEnd(err):
		return errors.New("the file is empty; " + headerWanted)
	case err != nil:
		return err
	case row.Err != nil:
		return fmt.Errorf("line %d: invalid header: %w", row.Line, row.Err)
	case len(row.Raw) > windowBytes:
		return fmt.Errorf("line %d: the header is longer than %d bytes", row.Line, windowBytes)
	case len(r.scan.cells) > columnsMax:
		return fmt.Errorf("line %d: the header has more than %d columns", row.Line, columnsMax)
	}
	r.form.header = string(row.Raw)
	header := r.scan.texts(row.Raw)
	f.found.Separator = string(rune(r.form.separator))
	columns, err := findColumns(header, f.options, &f.found)
	if err != nil {
		rows := r.sample()
		return newHeaderError(row.Line, err, header, likelyOptions(f.options, header, rows), rows)
	}
	r.scan.header = header
	r.columns, r.found = columns, f.found.Columns
	return nil
}

// sample returns the first rows, which nobody reads after a HeaderError.
func (r *csvReader) sample() (rows [][]string) {
	const rowsMax = 100
	r.peek(windowBytes)
	r.err = cmp.Or(r.err, io.EOF) // the sample ends with the window
	var row Row
	for len(rows) < rowsMax && r.scanRow(&row) == nil {
		if row.Err == nil {
			rows = append(rows, r.scan.texts(row.Raw))
		}
	}
	return rows
}

// look finds the line end and the separator by the first line that is not blank: the separator in whose cells the
// columns have their names, else the most frequent one. Excel's line "sep=;" precedes the header, and chooses.
func (r *csvReader) look() {
	r.form.separator, r.form.lineEnd = ',', "\r\n"
	line := string(r.firstLine())
	if sep := strings.Trim(line, `"`); len(sep) == len("sep=;") && strings.EqualFold(sep[:4], "sep=") &&
		strings.IndexByte(separators, sep[4]) >= 0 {
		r.discard(len(line))
		r.form.separator = sep[4]
		r.scan.use(r.form.separator, r.lineEnd)
		return
	}
	wanted := slices.Concat([]string{"id", "name", "tag"}, r.options.IDFrom,
		slices.Collect(maps.Values(r.options.Columns)))
	best := 0
	for i := range len(separators) {
		const named = windowBytes // more than a line has separators
		separator := separators[i : i+1]
		score := strings.Count(line, separator)
		for _, cell := range strings.SplitN(line, separator, columnsMax) {
			if at, err := findColumn(wanted, strings.Trim(cell, `"`)); err == nil && at >= 0 {
				score += named
			}
		}
		if score > best {
			best, r.form.separator = score, separators[i]
		}
	}
	r.scan.use(r.form.separator, r.lineEnd)
}

// separators are the separators that look knows. The first ones take precedence.
const separators = ",;\t|"

// firstLine returns the first line that is not blank, without its line end, as far as the window has it. It discards
// the blank lines, and sets lineEnd.
func (r *csvReader) firstLine() []byte {
	for len(r.peek(2)) > 0 && (r.unread()[0] == '\r' || r.unread()[0] == '\n') {
		r.setLineEnd(r.unread())
		r.discard(1)
	}
	quoted := false
	for n := 0; n < windowBytes && len(r.peek(n+1)) > n; n++ {
		switch c := r.unread()[n]; {
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '\r' || c == '\n'):
			r.setLineEnd(r.peek(n + 2)[n:])
			return r.unread()[:n]
		}
	}
	return r.peek(windowBytes)
}

// setLineEnd sets the line end to CR if a text that begins with a line end begins with CR without LF.
func (r *csvReader) setLineEnd(text []byte) {
	r.lineEnd, r.form.lineEnd = '\n', "\r\n"
	if text[0] == '\r' && len(text) > 1 && text[1] != '\n' {
		r.lineEnd, r.form.lineEnd = '\r', "\r"
	}
}

// next returns the next row that is not blank and has a cell that is not empty.
func (r *csvReader) next(row *Row) error {
	for {
		if err := r.scanRow(row); err != nil {
			return err
		}
		if row.Err != nil || !r.scan.emptyFrom(row.Raw, 0) {
			break
		}
	}
	r.number++
	row.form = &r.form
	if row.Err == nil {
		row.Err = r.setPlant(row)
	}
	return nil
}

// scanRow returns the next row that is not blank, without its plant, and sets scan.
//
// A quote without its closing one makes a row of all lines up to the next quote. If such a row has a fault, its lines
// are read again, each as a row: so a quote costs one row. A row of several lines is not read a third time, because
// quoted cells end in their lines then.
func (r *csvReader) scanRow(row *Row) error {
	for {
		r.scan.reset()
		r.scan.oneLine = r.line <= r.torn
		done := r.row(row, r.scanPart)
		blank := row.Err == nil && len(row.Raw) == 0
		switch {
		case !done && (blank || !isEnd(r.err)):
			return r.failure(row.Line)
		case blank:
			continue
		case !done:
			r.scan.endOfInput()
		}
		if row.Err == nil {
			row.Err = r.scan.fault
		}
		if row.LastLine > 0 && r.rowStart >= 0 && (row.Err != nil || r.hasWrongCount()) {
			r.torn = row.LastLine
			r.start, r.line = r.rowStart, row.Line
			continue
		}
		return nil
	}
}

// scanPart is a scan for window.row. In a row that is too long, it ends a quoted cell: with the row, if that has
// several lines, else with the line.
func (r *csvReader) scanPart(data []byte) (n int, done bool) {
	before := r.scan.scanned
	n, done = r.scan.scan(data)
	if size := before + n; size > r.rowMax+len("\r\n") && r.scan.state == inQuotes && !done {
		r.scan.state = r.scan.refuse(faultOpen)
		done = size <= len(r.unread()) && bytes.IndexByte(r.unread()[:r.rowMax], r.lineEnd) >= 0
	}
	return n, done
}

// hasWrongCount reports whether a row without a fault has more or fewer cells than the header.
func (r *csvReader) hasWrongCount() bool {
	return r.columns.count > 0 && len(r.scan.cells) != r.columns.count
}

// listed returns the first names for a message.
func listed(names []string) string {
	const namesMax = 40
	var list []string
	for _, name := range names[:min(len(names), namesMax)] {
		list = append(list, shown(name))
	}
	if len(names) > namesMax {
		list = append(list, "…")
	}
	return strings.Join(list, ", ")
}

// shown returns the name of a column for a message: in quotes unless it is clear without them.
func shown(name string) string {
	quoted := plant.Quote([]byte(name))
	if name == "" || name != strings.TrimSpace(name) || strings.ContainsAny(name, ",;()") || quoted != `"`+name+`"` {
		return quoted
	}
	return name
}
