package dump

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"

	"plantstore/internal/plant"
)

// setPlant sets the plant of a row that has been scanned. It returns an error with all faults of the row.
func (r *csvReader) setPlant(row *Row) error {
	if n := r.columns.count; len(r.scan.cells) > n && !r.scan.emptyFrom(row.Raw, n) {
		return r.countFault()
	}
	var faults plant.Faults
	row.Plant.ID = r.id(&faults, row.Raw)
	name := r.scan.text(row.Raw, r.columns.name)
	if len(name) == 0 && !r.options.AllowEmptyNames {
		faults.Add(plant.CodeNameMissing, r.label("name")+" is an empty cell; fill it in, or allow empty names")
	}
	row.Plant.Name = r.text(&faults, name, "name", plant.CodeNameHasNUL)
	row.Plant.Tag = plant.Tag{}
	if r.columns.tag >= 0 {
		if cell := r.scan.text(row.Raw, r.columns.tag); len(cell) > 0 {
			row.Plant.Tag = plant.Tagged(r.text(&faults, cell, "tag", plant.CodeTagHasNUL))
		}
	}
	return faults.Err()
}

func (r *csvReader) countFault() error {
	n := strconv.Itoa(len(r.scan.cells))
	if len(r.scan.cells) > columnsMax {
		n = "more than " + strconv.Itoa(columnsMax)
	}
	return fmt.Errorf("the row has %s cells, the header has %d; quote each cell that contains a %s",
		n, r.columns.count, separatorNames[string(rune(r.form.separator))])
}

// label returns a column for a message, with its name in the file if that is another one.
func label(ours, theirs string) string {
	if theirs == "" || strings.EqualFold(trimBlanks(theirs), ours) {
		return ours
	}
	return ours + " (" + shown(theirs) + ")"
}

func (r *csvReader) label(ours string) string { return label(ours, r.found[ours]) }

// text returns the text of a cell, and adds its faults.
func (r *csvReader) text(faults *plant.Faults, cell []byte, column string, hasNUL plant.Code) string {
	text := unguard(string(cell))
	if !utf8.ValidString(text) {
		faults.Add(plant.CodeBodyNotUTF8, r.label(column)+" is not UTF-8; got "+plant.Quote(cell)+
			asWindows1252(cell))
	}
	if strings.IndexByte(text, 0) >= 0 {
		faults.Add(hasNUL, r.label(column)+" contains the character U+0000; remove it")
	}
	return text
}

// asWindows1252 tells what a text would be in this encoding, if it has all bytes of the text.
func asWindows1252(cell []byte) string {
	const bytesMax = 40
	text, err := charmap.Windows1252.NewDecoder().Bytes(cell[:min(len(cell), bytesMax)])
	if err != nil || bytes.ContainsFunc(text, func(r rune) bool { return r == utf8.RuneError || unicode.IsControl(r) }) {
		return ""
	}
	return ", which would be " + plant.Quote(text) + " in the encoding windows-1252"
}

// id returns the id of a row, or adds its fault.
func (r *csvReader) id(faults *plant.Faults, row []byte) int64 {
	switch {
	case r.options.NumberFrom != nil:
		id := *r.options.NumberFrom + r.number - 1
		if id < *r.options.NumberFrom {
			faults.Add(plant.CodeIDOutOfRange, "the number of the row exceeds 9223372036854775807; begin with a smaller one")
		}
		return id
	case len(r.columns.from) > 0:
		return r.idFromTexts(faults, row)
	}
	cell := r.scan.text(row, r.columns.id)
	id, code := parseID(cell)
	if code == 0 {
		return id
	}
	rule, got := " must be a 64-bit integer in decimal digits; got ", plant.Quote(cell)
	switch code {
	case plant.CodeIDMissing:
		got = "an empty cell"
	case plant.CodeIDOutOfRange:
		rule = " must be from -9223372036854775808 to 9223372036854775807; got "
	case plant.CodeIDNotInteger:
		got += ", which a spreadsheet may have rounded"
		if bytes.ContainsAny(cell, "eE") {
			got += " to show it; set the format of the column to a number without decimals, and save the file again; " +
				"an id of more than 15 digits is lost there, so take it from its source, as text"
		}
	}
	faults.Add(code, r.label("id")+rule+got)
	return id
}

// idFromTexts returns an id that depends on nothing but the texts of cells: 63 bits of their SHA-256.
func (r *csvReader) idFromTexts(faults *plant.Faults, row []byte) int64 {
	var texts []byte
	filled := false
	for i, column := range r.columns.from {
		if i > 0 {
			texts = append(texts, 0)
		}
		cell := r.scan.text(row, column)
		filled = filled || len(cell) > 0
		texts = append(texts, unguard(string(cell))...)
	}
	if !filled {
		faults.Add(plant.CodeIDMissing, "the cells that make the id are empty; fill in one of them")
	}
	sum := sha256.Sum256(texts)
	return int64(binary.BigEndian.Uint64(sum[:8]) >> 1)
}

// parseID returns the id in a cell, or the code of its fault. It accepts only decimal digits with an optional minus
// sign, because a spreadsheet that writes 9.22E+18 has rounded the id. It accepts 1.0, as programs write integers in a
// column of floats, up to 2^53: floats have these integers exactly.
func parseID(cell []byte) (int64, plant.Code) {
	if whole, zeros, ok := bytes.Cut(cell, []byte{'.'}); ok && len(bytes.Trim(zeros, "0")) == 0 && len(zeros) > 0 {
		if id, code := parseID(whole); code == 0 && -1<<53 <= id && id <= 1<<53 {
			return id, 0
		}
	}
	id, err := strconv.ParseInt(string(cell), 10, 64)
	switch {
	case err == nil && cell[0] != '+':
		return id, 0
	case len(cell) == 0:
		return 0, plant.CodeIDMissing
	case errors.Is(err, strconv.ErrRange) && isInteger(cell): // ParseInt reports it before it sees a later fault
		return 0, plant.CodeIDOutOfRange
	case isDecimal(cell):
		return 0, plant.CodeIDNotInteger
	}
	return 0, plant.CodeIDWrongType
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
