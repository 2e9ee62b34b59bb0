package dump

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"plantstore/internal/plant"
)

// setPlant sets the plant of a row that has been scanned. It returns an error with all faults of the row.
func (r *csvReader) setPlant(row *Row) error {
	if len(r.scan.cells) != r.columns.count {
		return r.countFault()
	}
	var faults plant.Faults
	row.Plant.ID = id(&faults, r.scan.text(row.Raw, r.columns.id))
	row.Plant.Name = text(&faults, r.scan.text(row.Raw, r.columns.name), "name", plant.CodeNameHasNUL)
	row.Plant.Tag = plant.Tag{}
	if r.columns.tag >= 0 {
		if cell := r.scan.text(row.Raw, r.columns.tag); len(cell) > 0 {
			row.Plant.Tag = plant.Tagged(text(&faults, cell, "tag", plant.CodeTagHasNUL))
		}
	}
	return faults.Err()
}

func (r *csvReader) countFault() error {
	n := strconv.Itoa(len(r.scan.cells))
	if len(r.scan.cells) > columnsMax {
		n = "more than " + strconv.Itoa(columnsMax)
	}
	return fmt.Errorf("the row has %s cells, the header has %d; quote each cell that contains a comma", n, r.columns.count)
}

// text returns the text of a cell, and adds its faults.
func text(faults *plant.Faults, cell []byte, column string, hasNUL plant.Code) string {
	text := unguard(string(cell))
	if !utf8.ValidString(text) {
		faults.Add(plant.CodeBodyNotUTF8, column+" is not UTF-8; save the file as UTF-8")
	}
	if strings.IndexByte(text, 0) >= 0 {
		faults.Add(hasNUL, column+" contains the character U+0000; remove it")
	}
	return text
}

// id returns the id in a cell, or adds the fault of the cell. It accepts only decimal digits with an optional minus
// sign, because a spreadsheet that writes 9.22E+18 has rounded the id.
func id(faults *plant.Faults, cell []byte) int64 {
	const (
		integer = "id must be a 64-bit integer in decimal digits; got "
		between = "id must be from -9223372036854775808 to 9223372036854775807; got "
	)
	id, err := strconv.ParseInt(string(cell), 10, 64)
	switch {
	case err == nil && cell[0] != '+':
		return id
	case len(cell) == 0:
		faults.Add(plant.CodeIDMissing, integer+"an empty cell")
	case errors.Is(err, strconv.ErrRange) && isInteger(cell): // ParseInt reports it before it sees a later fault
		faults.Add(plant.CodeIDOutOfRange, between+plant.Quote(cell))
	case isDecimal(cell):
		faults.Add(plant.CodeIDNotInteger, integer+plant.Quote(cell)+", which a spreadsheet may have rounded")
	default:
		faults.Add(plant.CodeIDWrongType, integer+plant.Quote(cell))
	}
	return 0
}

// isInteger reports whether a cell has only digits, after an optional minus sign.
func isInteger(cell []byte) bool {
	return len(bytes.TrimLeft(bytes.TrimPrefix(cell, []byte{'-'}), "0123456789")) == 0
}

// isDecimal reports whether a cell has the form of a number with a fraction, an exponent or separators, as spreadsheets
// write it.
func isDecimal(cell []byte) bool {
	const digits, others = "0123456789", ".,eE"
	return bytes.ContainsAny(cell, digits) && bytes.ContainsAny(cell, others) &&
		len(bytes.Trim(cell, digits+others+"+-")) == 0
}
