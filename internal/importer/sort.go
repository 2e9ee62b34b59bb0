package importer

import (
	"iter"

	"plantstore/internal/dump"
	"plantstore/internal/extsort"
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
