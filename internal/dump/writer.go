package dump

import (
	"bufio"
	"cmp"
	"io"
	"strconv"
	"strings"

	"plantstore/internal/plant"
)

// utf8Mark is a byte order mark. Excel reads a CSV file without one in the encoding of the system.
const utf8Mark = "\uFEFF"

// Writer writes a file of plants that Read can read. The file is complete after Close. A Writer is not safe for
// concurrent use.
//
// A Writer does not limit the size of a plant. Read refuses a plant that could not be in a body of plant.BodyBytesMax.
type Writer struct {
	out       io.WriteCloser // the compressor
	buffer    *bufio.Writer  // to out
	format    Format
	rows      int64
	emptyTags int64
}

// NewWriter returns a Writer that writes to w when its buffer is full, and at Close.
func NewWriter(w io.Writer, f Format, c Compression) (*Writer, error) {
	out, err := compressor(w, c)
	if err != nil {
		return nil, err
	}
	buffer := bufio.NewWriterSize(out, windowBytes)
	if f == CSV {
		_, _ = buffer.WriteString(utf8Mark + "id,name,tag\r\n") // fits the buffer
	}
	return &Writer{out: out, buffer: buffer, format: f}, nil
}

// Write writes a plant. After an error every call returns that error.
func (w *Writer) Write(p plant.NewPlant) error {
	row := w.buffer.AvailableBuffer()
	switch w.format {
	case CSV:
		row = appendCSV(row, p)
		if tag, ok := p.Tag.Get(); ok && tag == "" {
			w.emptyTags++
		}
	case JSONL:
		row = append(p.AppendJSON(row), '\n')
	case JSON:
		row = p.AppendJSON(append(row, separator(w.rows)...))
	}
	w.rows++
	_, err := w.buffer.Write(row)
	return err
}

// separator returns the text before element n of a JSON array, from 0.
func separator(n int64) string {
	if n == 0 {
		return "[\n"
	}
	return ",\n"
}

// EmptyTagsLost returns the number of plants with an empty tag that were written as CSV. Read returns them without a
// tag.
func (w *Writer) EmptyTagsLost() int64 { return w.emptyTags }

// Close writes the buffered rows and ends the JSON array and the compressed data. It does not close the writer of
// NewWriter.
func (w *Writer) Close() error {
	if w.format == JSON {
		_, _ = w.buffer.WriteString(arrayEnd(w.rows)) // Flush returns the error
	}
	err := w.buffer.Flush()
	return cmp.Or(err, w.out.Close())
}

// arrayEnd returns the text after the last of n elements of a JSON array.
func arrayEnd(n int64) string {
	if n == 0 {
		return "[]\n"
	}
	return "\n]\n"
}

// appendCSV appends a plant as a row of CSV.
func appendCSV(dst []byte, p plant.NewPlant) []byte {
	dst = strconv.AppendInt(dst, p.ID, 10)
	dst = appendCell(append(dst, ','), p.Name)
	tag, _ := p.Tag.Get()
	dst = appendCell(append(dst, ','), tag)
	return append(dst, '\r', '\n')
}

// appendCell appends a text as a cell: with apostrophes before formulas, and quoted if RFC 4180 requires it or if a
// program could trim spaces at an end.
func appendCell(dst []byte, text string) []byte {
	quote := text != "" && (text[0] == ' ' || text[len(text)-1] == ' ' || strings.ContainsAny(text, ",\"\r\n"))
	text = guard(text)
	if !quote {
		return append(dst, text...)
	}
	dst = append(append(dst, '"'), strings.ReplaceAll(text, `"`, `""`)...)
	return append(dst, '"')
}
