// Package dump reads and writes files of plants: CSV, JSON Lines and JSON,
// plain or compressed. Rows come as an iterator, in bounded memory however
// large the file is, and a row that is no plant comes with its line and the
// reason, so that one bad row never hides the others.
//
// JSON Lines and JSON keep every plant exactly. CSV keeps every name and every
// tag that is not empty; an empty tag becomes no tag, because an empty cell is
// all that CSV has for both.
package dump

import (
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strings"

	"plantstore/internal/plant"
)

// Format is a file format for plants.
type Format string

// The formats.
const (
	CSV   Format = "csv"   // RFC 4180 with a header
	JSONL Format = "jsonl" // one JSON object a line
	JSON  Format = "json"  // one JSON array of objects
)

// ParseFormat returns the format of that name; ndjson is another name for jsonl.
func ParseFormat(name string) (Format, error) {
	switch name {
	case "csv":
		return CSV, nil
	case "jsonl", "ndjson":
		return JSONL, nil
	case "json":
		return JSON, nil
	}
	return "", fmt.Errorf("unknown format %q: use csv, jsonl (or ndjson) or json", name)
}

// Compression is how a file is compressed. The zero value is none.
type Compression string

// The compressions.
const (
	None Compression = ""
	Gzip Compression = "gzip"
	Zstd Compression = "zstd"
)

// DetectPath returns what a file's name says about it: .csv, .jsonl, .ndjson
// or .json, in any case of letters, and .gz or .zst behind it. It returns
// false if the name tells no format; the compression may be told all the same.
func DetectPath(path string) (Format, Compression, bool) {
	name := strings.ToLower(filepath.Base(path))
	compression := None
	if rest, ok := strings.CutSuffix(name, ".gz"); ok {
		name, compression = rest, Gzip
	} else if rest, ok := strings.CutSuffix(name, ".zst"); ok {
		name, compression = rest, Zstd
	}
	format, err := ParseFormat(strings.TrimPrefix(filepath.Ext(name), "."))
	return format, compression, err == nil
}

// plantBytesMax is the largest plant as plant.NewPlant.AppendJSON writes it. So
// large can one be that came in the largest body: AppendJSON writes texts in the
// shortest form, but an id in full, which a body can have as 9e18. A larger one,
// as CSV can have it, is refused, because JSON that was exported could not be
// imported.
const plantBytesMax = plant.BodyBytesMax + len("-9223372036854775808")

// rowBytesMax is the longest row that is read, and bounds the memory of a read.
// CSV needs less room for a plant than JSON, but for the apostrophes before
// formulas, of which every second character may have one; JSON may have white
// space.
const rowBytesMax = 2 * plantBytesMax

func errRowTooLong(rowMax int) error {
	return fmt.Errorf("the row is longer than %d bytes; if that is not so, look for a missing quote or bracket", rowMax)
}

// checkSize refuses a plant that is larger than any that a server accepts.
func checkSize(p plant.NewPlant) error {
	const perByteMax, members = len(`\u0001`), 64
	if p.Bytes() <= (plantBytesMax-members)/perByteMax {
		return nil // whatever its texts are
	}
	if size := p.JSONBytes(); size > plantBytesMax {
		return fmt.Errorf("the plant has %d bytes as JSON, and a plant has at most %d", size, plantBytesMax)
	}
	return nil
}

// decode is plant.Decode for a row of a file.
func decode(raw []byte) (plant.NewPlant, error) {
	p, err := plant.Decode(raw)
	if err == nil {
		err = checkSize(p)
	}
	if err != nil {
		return plant.NewPlant{}, err
	}
	return p, nil
}

// Row is one row of a file: a plant, or the reason why it is none.
type Row struct {
	Line  int64          // the line where the row begins, from 1
	Raw   []byte         // the row as it stands in the file, without its line end; valid until the next row, nil if it was too long to keep (over 32 MiB)
	Plant plant.NewPlant // keeps no reference to Raw
	Err   error          // why the row is refused, for a person; nil if Plant is good

	header string // CSV: the header as it stands in the file, for Rejects
}

// Read returns the rows of r, which must be in the format f and not
// compressed. Blank lines are no rows, and a byte order mark at the start is
// passed over.
//
// An error beside a row means that the input as a whole cannot be read on: the
// reader failed, a CSV file has no proper header, or a JSON array is broken.
// There is at most one, and it comes last. A row that the failure cut off is
// not yielded.
//
// Reading holds one row, and 64 KiB or up to three times the longest row
// besides: about 100 MiB for the largest.
func Read(r io.Reader, f Format) iter.Seq2[Row, error] { return read(r, f, rowBytesMax) }

// read is Read with a limit on the length of a row.
func read(r io.Reader, f Format, rowMax int) iter.Seq2[Row, error] {
	switch f {
	case CSV:
		return readCSV(r, rowMax)
	case JSONL:
		return readLines(r, rowMax)
	case JSON:
		return readArray(r, rowMax)
	}
	return func(yield func(Row, error) bool) {
		_, err := ParseFormat(string(f))
		yield(Row{}, err)
	}
}
