package dump

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf8"

	"plantstore/internal/plant"
)

// row returns the current row.
func (r *csvReader) row() Row {
	row := Row{Line: r.line, Raw: r.raw, header: r.header, Err: r.fault}
	if row.Err == nil {
		row.Plant, row.Err = r.plant()
	}
	return row
}

// plant returns the plant in the cells of the current row, or an error with all
// faults of the row.
func (r *csvReader) plant() (plant.NewPlant, error) {
	if len(r.cells) != r.columns.count {
		return plant.NewPlant{}, r.countFault()
	}
	var p plant.NewPlant
	var faults plant.Faults
	idCell := r.cells[r.columns.id]
	id, ok := parseID(idCell)
	if !ok {
		addIDFault(&faults, idCell)
	}
	p.ID = id
	p.Name = text(&faults, r.cells[r.columns.name], "name", plant.CodeNameHasNUL)
	if r.columns.tag >= 0 && len(r.cells[r.columns.tag]) > 0 {
		p.Tag = plant.Tagged(text(&faults, r.cells[r.columns.tag], "tag", plant.CodeTagHasNUL))
	}
	if err := faults.Err(); err != nil {
		return plant.NewPlant{}, err
	}
	if err := checkSize(p, r.plantMax); err != nil {
		return plant.NewPlant{}, err
	}
	return p, nil
}

func (r *csvReader) countFault() error {
	n := strconv.Itoa(len(r.cells))
	if len(r.cells) > columnsMax {
		n = "more than " + strconv.Itoa(columnsMax)
	}
	return errors.New("the row has " + n + " cells, the header has " + strconv.Itoa(r.columns.count) +
		"; quote each cell that contains a comma")
}

// text returns the text of a cell, and adds its faults.
func text(faults *plant.Faults, cell []byte, column string, hasNUL plant.Code) string {
	cell = unguard(cell)
	if !utf8.Valid(cell) {
		faults.Add(plant.CodeBodyNotUTF8, column+" is not UTF-8; save the file as UTF-8")
	}
	if bytes.IndexByte(cell, 0) >= 0 {
		faults.Add(hasNUL, column+" contains the character U+0000; remove it")
	}
	return string(cell)
}

// parseID returns the id in a cell of decimal digits, with an optional minus
// sign. It refuses every other form, because a spreadsheet that writes 9.22E+18
// has rounded the id.
func parseID(cell []byte) (int64, bool) {
	if !isDigits(bytes.TrimPrefix(cell, []byte{'-'})) {
		return 0, false
	}
	id, err := strconv.ParseInt(string(cell), 10, 64)
	return id, err == nil
}

func isDigits(b []byte) bool {
	for _, c := range b {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(b) > 0
}

// addIDFault adds the reason for which parseID refused the cell.
func addIDFault(faults *plant.Faults, cell []byte) {
	const (
		integer = "id must be a 64-bit integer in decimal digits; got "
		between = "id must be from -9223372036854775808 to 9223372036854775807; got "
	)
	switch {
	case len(cell) == 0:
		faults.Add(plant.CodeIDMissing, integer+"an empty cell")
	case isDigits(bytes.TrimPrefix(cell, []byte{'-'})):
		faults.Add(plant.CodeIDOutOfRange, between+plant.Quote(cell))
	case isDecimal(cell):
		faults.Add(plant.CodeIDNotInteger, integer+plant.Quote(cell)+", which a spreadsheet may have rounded")
	default:
		faults.Add(plant.CodeIDWrongType, integer+plant.Quote(cell))
	}
}

// isDecimal reports whether a cell has the form of a number with a fraction, an
// exponent or separators, as spreadsheets write it.
func isDecimal(cell []byte) bool {
	const digits, others = "0123456789", ".,eE"
	return bytes.ContainsAny(cell, digits) && bytes.ContainsAny(cell, others) &&
		len(bytes.Trim(cell, digits+others+"+-")) == 0
}
