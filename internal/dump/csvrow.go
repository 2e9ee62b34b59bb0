package dump

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf8"

	"plantstore/internal/plant"
)

// row returns the present row.
func (r *csvReader) row() Row {
	row := Row{Line: r.line, Raw: r.raw, header: r.header, Err: r.fault}
	if row.Err == nil {
		row.Plant, row.Err = r.plant()
	}
	return row
}

// plant makes a plant of the present row's cells, or names every fault.
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
	if name := unguard(r.cells[r.columns.name]); validText(name) {
		p.Name = string(name)
	} else {
		addTextFaults(&faults, name, "name", plant.CodeNameHasNUL)
	}
	if r.columns.tag >= 0 && len(r.cells[r.columns.tag]) > 0 {
		p.Tag = r.tag(&faults, unguard(r.cells[r.columns.tag]))
	}
	if err := faults.Err(); err != nil {
		return plant.NewPlant{}, err
	}
	if err := checkSize(p); err != nil {
		return plant.NewPlant{}, err
	}
	return p, nil
}

func (r *csvReader) tag(faults *plant.Faults, cell []byte) plant.Tag {
	slot := r.tags.slot(cell)
	if *slot == string(cell) { // what is in the table is valid
		return plant.Tagged(*slot)
	}
	if !validText(cell) {
		addTextFaults(faults, cell, "tag", plant.CodeTagHasNUL)
		return plant.Tag{}
	}
	text := string(cell)
	if len(text) <= internBytesMax {
		*slot = text
	}
	return plant.Tagged(text)
}

func (r *csvReader) countFault() error {
	n := strconv.Itoa(len(r.cells))
	if len(r.cells) > columnsMax {
		n = "more than " + strconv.Itoa(columnsMax)
	}
	return errors.New("the row has " + n + " cells, the header has " + strconv.Itoa(r.columns.count) +
		": put a cell with a comma in it in quotes")
}

func validText(cell []byte) bool {
	return utf8.Valid(cell) && bytes.IndexByte(cell, 0) < 0
}

func addTextFaults(faults *plant.Faults, cell []byte, column string, hasNUL plant.Code) {
	if !utf8.Valid(cell) {
		faults.Add(plant.CodeBodyNotUTF8, column+" is not UTF-8: save the file as UTF-8")
	}
	if bytes.IndexByte(cell, 0) >= 0 {
		faults.Add(hasNUL, column+" has the character U+0000: leave it out")
	}
}

// parseID returns the id in a cell of decimal digits with at most a minus sign
// before them. It is as strict as that because a spreadsheet that writes
// 9.22E+18 has rounded the id and does not know any more which it was.
func parseID(cell []byte) (int64, bool) {
	digits := bytes.TrimPrefix(cell, []byte{'-'})
	const digitsMax = 18 // so many fit int64 whatever they are
	if len(digits) > digitsMax || len(digits) == 0 {
		return parseLongID(cell, digits)
	}
	var id int64
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		id = id*10 + int64(c-'0')
	}
	if len(digits) < len(cell) {
		id = -id
	}
	return id, true
}

func parseLongID(cell, digits []byte) (int64, bool) {
	if !isDigits(digits) {
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

// addIDFault says why parseID has refused the cell.
func addIDFault(faults *plant.Faults, cell []byte) {
	const want = "write a whole number in plain digits, from -9223372036854775808 to 9223372036854775807"
	switch {
	case len(cell) == 0:
		faults.Add(plant.CodeIDMissing, "id is empty: "+want)
	case isDigits(bytes.TrimPrefix(cell, []byte{'-'})):
		faults.Add(plant.CodeIDOutOfRange, "id does not fit 64 bits: "+want)
	case len(bytes.Trim(cell, "0123456789+-.,eE")) == 0 && bytes.ContainsAny(cell, ".,eE") && bytes.ContainsAny(cell, "0123456789"):
		faults.Add(plant.CodeIDNotInteger, "id is "+plant.Quote(cell)+", which a spreadsheet may have rounded: "+want)
	default:
		faults.Add(plant.CodeIDWrongType, "id is "+plant.Quote(cell)+": "+want)
	}
}

// internTable holds the tags that were met last, because tags repeat: most
// rows then cost no second string. Each tag has one slot, in which it replaces
// the tag before it, so the table never grows.
type internTable [1024]string

// internBytesMax is the longest tag that is kept.
const internBytesMax = 64

// slot returns where a tag is kept if it is, by its FNV-1a hash.
func (t *internTable) slot(tag []byte) *string {
	hash := uint32(2166136261)
	for _, c := range tag {
		hash = (hash ^ uint32(c)) * 16777619
	}
	return &t[(hash^hash>>16)%uint32(len(t))]
}
