package dump

import (
	"errors"
	"fmt"
	"strings"

	"plantstore/internal/plant"
)

// columnsMax is the largest number of columns in a header. It bounds the memory for a row that consists of commas.
const columnsMax = 1024

// csvReader reads CSV as in RFC 4180. It does not use encoding/csv, which turns CRLF inside quotes into LF and so
// changes the text of a cell.
type csvReader struct {
	window

	header  string
	columns columns
	scan    csvScan // state after the last row
}

// columns maps the cells of a row to the members of a plant.
type columns struct {
	count         int // cells in each row
	id, name, tag int // index of the cell; -1 if absent
}

const headerWanted = "a CSV file begins with a header with the columns id, name and optionally tag, separated by commas"

// open reads the header, which is the first row that is not blank.
func (r *csvReader) open() error {
	var row Row
	switch err := r.scanRow(&row); {
	case isEnd(err):
		return errors.New("the file is empty; " + headerWanted)
	case err != nil:
		return err
	case row.Err != nil:
		return fmt.Errorf("line %d: invalid header: %w", row.Line, row.Err)
	}
	r.header = string(row.Raw)
	columns, err := findColumns(r.scan.texts(row.Raw))
	if err != nil {
		return fmt.Errorf("line %d: the header has %w", row.Line, err)
	}
	r.columns = columns
	return nil
}

// next returns the next row that is not blank.
func (r *csvReader) next(row *Row) error {
	if err := r.scanRow(row); err != nil {
		return err
	}
	row.header = r.header
	if row.Err == nil {
		row.Err = r.setPlant(row)
	}
	return nil
}

// scanRow returns the next row that is not blank, without its plant, and sets scan.
func (r *csvReader) scanRow(row *Row) error {
	for {
		r.scan.reset()
		done := r.row(row, r.scan.scan)
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
		return nil
	}
}

func findColumns(header []string) (columns, error) {
	c := columns{count: len(header), id: -1, name: -1, tag: -1}
	if c.count > columnsMax {
		return c, fmt.Errorf("more than %d columns", columnsMax)
	}
	known := map[string]*int{"id": &c.id, "name": &c.name, "tag": &c.tag}
	for i, name := range header {
		if at := known[name]; at != nil {
			if *at >= 0 {
				return c, fmt.Errorf("the column %s twice", name)
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

// listed returns the first cells, quoted, for a message.
func listed(cells []string) string {
	const cellsMax = 8
	var names []string
	for _, cell := range cells[:min(len(cells), cellsMax)] {
		names = append(names, plant.Quote([]byte(cell)))
	}
	if len(cells) > cellsMax {
		names = append(names, "…")
	}
	return strings.Join(names, ", ")
}
