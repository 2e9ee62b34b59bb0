package dump

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"plantstore/internal/plant"
)

// readCSV reads CSV as in RFC 4180. It does not use encoding/csv, which turns
// CRLF inside quotes into LF and so changes the text of a cell.
func readCSV(r io.Reader, rowMax, plantMax int) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		c := csvReader{w: newWindow(r, rowMax), plantMax: plantMax}
		if err := c.readHeader(); err != nil {
			yield(Row{}, err)
			return
		}
		for c.next() {
			if !yield(c.row(), nil) {
				return
			}
		}
		if err := c.w.failure(c.lines + 1); err != nil {
			yield(Row{}, err)
		}
	}
}

// columnsMax is the largest number of columns in a header. It bounds the memory
// for a row that consists of commas.
const columnsMax = 1024

// csvReader is the state of readCSV.
type csvReader struct {
	w        window
	plantMax int
	lines    int64 // number of lines read
	header   string
	columns  columns

	// The current row, set by next. raw and cells are valid until the next row.
	line  int64
	raw   []byte   // nil if too long
	cells [][]byte // without quotes; at most columnsMax+1
	fault error    // why the row has no cells

	scan    rowScan
	scratch []byte // cells in which doubled quotes were replaced
}

// columns maps the cells of a row to the members of a plant.
type columns struct {
	count         int // of cells in each row
	id, name, tag int // index of the cell; -1 if absent
}

const headerWanted = "a CSV file begins with a header with the columns id, name and optionally tag, separated by commas"

// readHeader reads the header, which is the first row that is not blank.
func (r *csvReader) readHeader() error {
	if !r.next() {
		if err := r.w.failure(r.lines + 1); err != nil {
			return err
		}
		return errors.New("the file is empty; " + headerWanted)
	}
	err := r.fault
	if err != nil {
		return fmt.Errorf("line %d: invalid header: %w", r.line, err)
	}
	r.header = string(r.raw)
	if r.columns, err = findColumns(r.cells); err != nil {
		return fmt.Errorf("line %d: the header has %w", r.line, err)
	}
	return nil
}

// findColumns returns the columns of a header.
func findColumns(header [][]byte) (columns, error) {
	c := columns{count: len(header), id: -1, name: -1, tag: -1}
	if c.count > columnsMax {
		return c, fmt.Errorf("more than %d columns", columnsMax)
	}
	for i, cell := range header {
		if at := c.at(cell); at != nil {
			if *at >= 0 {
				return c, fmt.Errorf("the column %s twice", cell)
			}
			*at = i
		}
	}
	missing := ""
	switch {
	case c.id < 0 && c.name < 0:
		missing = "columns id and name"
	case c.id < 0:
		missing = "column id"
	case c.name < 0:
		missing = "column name"
	default:
		return c, nil
	}
	return c, fmt.Errorf("no %s; got %s; %s", missing, listed(header), headerWanted)
}

// at returns the field of the column with the given name, or nil for a column
// that a plant does not have.
func (c *columns) at(name []byte) *int {
	switch string(name) {
	case "id":
		return &c.id
	case "name":
		return &c.name
	case "tag":
		return &c.tag
	}
	return nil
}

// listed returns the first cells, quoted, for a message.
func listed(cells [][]byte) string {
	const cellsMax = 8
	var names []string
	for _, cell := range cells[:min(len(cells), cellsMax)] {
		names = append(names, plant.Quote(cell))
	}
	if len(cells) > cellsMax {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}

// next reads the next row that is not blank. It returns false at the end of the
// input and after a failed read.
func (r *csvReader) next() bool {
	for {
		r.line, r.fault = r.lines+1, nil
		if line := r.w.line(); line != nil && bytes.IndexByte(line, '"') < 0 {
			r.w.discard(len(line))
			r.lines++
			r.split(trimLineEnd(line))
		} else if !r.scanRow() {
			return false
		}
		if len(r.raw) > 0 || r.fault != nil {
			return true
		}
	}
}

// split splits a line without quotes into cells. Most lines have no quotes.
func (r *csvReader) split(line []byte) {
	r.raw, r.cells = line, r.cells[:0]
	if len(line) > r.w.rowMax {
		r.raw, r.fault = nil, errRowTooLong(r.w.rowMax)
		return
	}
	for rest := line; ; {
		i := bytes.IndexByte(rest, ',')
		if i < 0 {
			r.addCell(rest)
			break
		}
		r.addCell(rest[:i])
		rest = rest[i+1:]
	}
	if i := bytes.IndexByte(line, '\r'); i >= 0 {
		r.fault = columnFault(1+bytes.Count(line[:i], []byte{','}), faultReturn)
	}
}

func (r *csvReader) addCell(cell []byte) {
	if len(r.cells) <= columnsMax {
		r.cells = append(r.cells, cell)
	}
}

// scanRow reads a row that has quotes or is too long.
func (r *csvReader) scanRow() bool {
	s, tooLong := &r.scan, false
	s.reset()
	for !s.scan(r.w.unread()) {
		if s.pos > r.w.rowMax+len("\r") {
			tooLong = true
			r.w.discard(s.pos)
			s.pos = 0
		}
		if r.w.fill() {
			continue
		}
		if !isEnd(r.w.err) || s.pos == 0 && !tooLong {
			return false
		}
		s.endOfInput()
		break
	}
	r.endScan(tooLong)
	return true
}

// endScan sets the current row to the scanned bytes and discards them.
func (r *csvReader) endScan(tooLong bool) {
	s := &r.scan
	raw := trimLineEnd(r.w.unread()[:s.pos])
	r.w.discard(s.pos)
	r.lines += s.lines
	r.raw, r.fault, r.cells, r.scratch = raw, s.fault, r.cells[:0], r.scratch[:0]
	if tooLong || len(raw) > r.w.rowMax {
		r.raw, r.fault = nil, errRowTooLong(r.w.rowMax)
	}
	if r.fault != nil {
		return
	}
	for _, span := range s.cells {
		cell := raw[span.start:span.end]
		if span.quoted {
			cell = cell[1 : len(cell)-1]
		}
		if span.doubled {
			cell = r.undouble(cell)
		}
		r.addCell(cell)
	}
}

// undouble returns the cell with one quote for each doubled quote.
func (r *csvReader) undouble(cell []byte) []byte {
	start := len(r.scratch)
	for {
		i := bytes.IndexByte(cell, '"')
		if i < 0 {
			r.scratch = append(r.scratch, cell...)
			return r.scratch[start:len(r.scratch):len(r.scratch)]
		}
		r.scratch = append(r.scratch, cell[:i+1]...)
		cell = cell[i+2:]
	}
}
