package importer

import (
	"encoding/binary"

	"plantstore/internal/dump"
	"plantstore/internal/extsort"
	"plantstore/internal/plant"
)

// appendRow appends a valid row without its id: the three numbers of its place; the length of the raw row plus 1, or 0
// for none; the raw row; the length of the tag plus 1, or 0 for none; the tag; the name. Numbers are varints.
func appendRow(b []byte, row dump.Row) []byte {
	b = binary.AppendUvarint(b, uint64(row.Line))
	b = binary.AppendUvarint(b, uint64(row.LastLine))
	b = binary.AppendUvarint(b, uint64(row.Element))
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

// rowOf returns the row that appendRow appended. Its raw form is a part of the record. like is any row of the file.
func rowOf(record extsort.Record, like dump.Row) dump.Row {
	var place [3]int64
	data := record.Data
	for i := range place {
		number, n := binary.Uvarint(data)
		place[i], data = int64(number), data[n:]
	}
	raw, rest, hasRaw := cutOptional(data)
	tag, name, hasTag := cutOptional(rest)
	row := like // all rows have the same header
	row.Place, row.Raw = dump.Place{Line: place[0], LastLine: place[1], Element: place[2]}, nil
	if hasRaw {
		row.Raw = raw
	}
	row.Plant = plant.NewPlant{ID: record.Key, Plant: plant.Plant{Name: string(name)}}
	if hasTag {
		row.Plant.Tag = plant.Tagged(string(tag))
	}
	return row
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
