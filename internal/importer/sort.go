package importer

import (
	"encoding/binary"
	"iter"

	"plantstore/internal/dump"
	"plantstore/internal/extsort"
	"plantstore/internal/plant"
)

// sorter sorts valid rows by id; rows with the same id keep their order.
type sorter struct {
	records *extsort.Sorter
	buffer  []byte
	common  dump.Row // the last row: all rows of a file have its header
}

func newSorter(c Sorting) *sorter { return &sorter{records: extsort.New(c.Dir, c.Memory)} }

// close removes the temporary file. The import does not depend on it, so errors are ignored.
func (s *sorter) close() { _ = s.records.Close() }

// add adds a row, with its raw form if keepRaw is set.
func (s *sorter) add(row dump.Row, keepRaw bool) error {
	s.common = row
	if !keepRaw {
		row.Raw = nil
	}
	s.buffer = appendRow(s.buffer[:0], row)
	return s.records.Add(extsort.Record{Key: row.Plant.ID, Data: s.buffer})
}

// sortedRow is a row with the number of bytes of its record.
type sortedRow struct {
	dump.Row

	bytes int
}

// rows returns the rows by id. Raw is valid until the next row.
func (s *sorter) rows() iter.Seq2[sortedRow, error] {
	return func(yield func(sortedRow, error) bool) {
		for record, err := range s.records.Sorted() {
			row := sortedRow{s.common, len(record.Data)}
			if err == nil {
				setRow(&row.Row, record)
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// appendRow appends a valid row without its id: the line; the length of the raw row plus 1, or 0 for none; the raw row;
// the length of the tag plus 1, or 0 for none; the tag; the name. Numbers are varints.
func appendRow(b []byte, row dump.Row) []byte {
	b = binary.AppendUvarint(b, uint64(row.Line))
	b = appendOptional(b, string(row.Raw), row.Raw != nil)
	tag, ok := row.Plant.Tag.Get()
	b = appendOptional(b, tag, ok)
	return append(b, row.Plant.Name...)
}

func appendOptional(b []byte, text string, ok bool) []byte {
	if !ok {
		return append(b, 0)
	}
	return append(binary.AppendUvarint(b, uint64(len(text))+1), text...)
}

// setRow sets the fields of a row that appendRow appended.
func setRow(row *dump.Row, record extsort.Record) {
	line, n := binary.Uvarint(record.Data)
	raw, rest, hasRaw := cutOptional(record.Data[n:])
	tag, name, hasTag := cutOptional(rest)
	row.Line, row.Raw = int64(line), nil
	if hasRaw {
		row.Raw = raw
	}
	row.Plant = plant.NewPlant{ID: record.Key, Plant: plant.Plant{Name: string(name)}}
	if hasTag {
		row.Plant.Tag = plant.Tagged(string(tag))
	}
}

// cutOptional returns the text that appendOptional appended, and the bytes after it.
func cutOptional(b []byte) (text, rest []byte, ok bool) {
	length, n := binary.Uvarint(b)
	if length == 0 {
		return nil, b[n:], false
	}
	end := n + int(length) - 1
	return b[n:end], b[end:], true
}
