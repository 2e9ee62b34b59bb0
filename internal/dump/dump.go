// Package dump reads and writes files of plants: CSV, JSON Lines and JSON, plain or compressed. A File returns the rows
// as an iterator, in bounded memory for a file of any size. An invalid row is returned with its line and the reason, so
// one bad row does not hide the others.
//
// JSON Lines and JSON keep every plant exactly. CSV keeps every name and every tag that is not empty; an empty tag and
// no tag are the same empty cell, which is read as no tag.
package dump

import (
	"fmt"
	"path/filepath"
	"strings"

	"plantstore/internal/plant"
)

// Format is a file format for plants: one of the constants, or a result of ParseFormat.
type Format string

// The formats.
const (
	CSV   Format = "csv"   // RFC 4180 with a header
	JSONL Format = "jsonl" // one JSON object per line
	JSON  Format = "json"  // one JSON array of objects
)

// ParseFormat returns the format with the given name; ndjson is another name for jsonl.
func ParseFormat(name string) (Format, error) {
	switch f := Format(name); f {
	case CSV, JSONL, JSON:
		return f, nil
	case "ndjson":
		return JSONL, nil
	}
	return "", fmt.Errorf("unknown format %q; use csv, jsonl (or ndjson) or json", name)
}

// Compression is the compression of a file.
type Compression string

// The compressions. The zero value is None.
const (
	None Compression = ""
	Gzip Compression = "gzip"
	Zstd Compression = "zstd"
)

// DetectPath returns the format and the compression that a file name ends with: .csv, .jsonl, .ndjson or .json, then
// optionally .gz or .zst. Case does not matter. It returns false if the name ends with no format; the compression is
// valid in either case.
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

// The limits of Open.
//
// The largest plant is the one in the largest body. AppendJSON writes texts in the shortest form, but an id in full,
// and a body can have the id as 9e18. CSV can hold a larger plant; Rows refuses it, because its JSON export could not
// be imported.
//
// A row may be twice as long as the plant: CSV adds an apostrophe to at most every second character, JSON may have
// white space.
const (
	plantBytesMax = plant.BodyBytesMax + len("-9223372036854775808")
	rowBytesMax   = 2 * plantBytesMax
)

// checkSize returns an error for a plant of more than plantMax bytes.
func checkSize(p plant.NewPlant, plantMax int) error {
	const perByteMax, members = len(`\u0001`), 64
	if p.Bytes() <= (plantMax-members)/perByteMax {
		return nil // even if every byte needs an escape
	}
	if size := len(p.AppendJSON(nil)); size > plantMax {
		return fmt.Errorf("the plant has %d bytes as JSON; the maximum is %d", size, plantMax)
	}
	return nil
}

// Row is one row of a file: a plant, or the reason why the row is invalid.
type Row struct {
	Place
	Raw   []byte         // the row in UTF-8, without its line end; valid until the next row; nil if over 32 MiB
	Plant plant.NewPlant // keeps no reference to Raw
	Err   error          // why the row is invalid, as a message for the user; nil if Plant is valid

	form *form // CSV: of the file, for Rejects
}

// Place is the place of a row in a file.
type Place struct {
	Line     int64 `json:"line"`                // where the row begins, from 1
	LastLine int64 `json:"last_line,omitempty"` // of a row of several lines; 0: of one
	Element  int64 `json:"element,omitempty"`   // of a JSON array, from 1
}

// String returns the place for a person, such as "lines 3 to 5" or "element 7 (line 1)".
func (p Place) String() string {
	text := fmt.Sprint("line ", p.Line)
	if p.LastLine > 0 {
		text = fmt.Sprintf("lines %d to %d", p.Line, p.LastLine)
	}
	if p.Element > 0 {
		text = fmt.Sprintf("element %d (%s)", p.Element, text)
	}
	return text
}
