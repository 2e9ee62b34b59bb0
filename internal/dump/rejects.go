package dump

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// Rejects writes rows of a file, unchanged, to a file of the same format: the rows that were not stored, so that the
// user can correct and import them. All rows must come from one File. Without rows the file stays empty.
//
// A Rejects is not safe for concurrent use. The zero value is not usable.
type Rejects struct {
	w      *bufio.Writer // returns its first error again
	format Format
	rows   int64
}

// NewRejects returns a Rejects that writes to w. It writes nothing before the first row.
func NewRejects(w io.Writer, f Format) *Rejects { return &Rejects{w: bufio.NewWriter(w), format: f} }

// Write writes row.Raw. It skips a row without one, which was too long. After an error every call returns that
// error.
func (r *Rejects) Write(row Row) error {
	if len(row.Raw) == 0 {
		return nil
	}
	before, after := "", ""
	switch r.format {
	case CSV:
		if after = row.form.lineEnd; r.rows == 0 {
			before = utf8Mark + row.form.header + after
		}
	case JSON:
		before = separator(r.rows)
	case JSONL:
		if r.rows == 0 && row.Raw[0] != '{' {
			before = "\n" // so that the file does not begin like one with a byte order mark or like a compressed one
		}
		if after = "\n"; row.Raw[len(row.Raw)-1] == '\r' {
			after = "\r\n" // so that the CR before it stays part of the row
		}
	}
	r.rows++
	_, _ = r.w.WriteString(before)
	_, _ = r.w.Write(row.Raw)
	_, err := r.w.WriteString(after)
	return err
}

// Close writes the buffered rows and ends a JSON array. It does not close the writer of NewRejects.
func (r *Rejects) Close() error {
	if r.format == JSON && r.rows > 0 {
		_, _ = r.w.WriteString(arrayEnd(r.rows))
	}
	return r.w.Flush()
}

// Report writes a CSV file with the line, the reason and the text of rows, for a person with a spreadsheet. It writes
// apostrophes before formulas, as Writer does. Bytes that are not UTF-8 become U+FFFD.
//
// A Report is not safe for concurrent use. The zero value is not usable.
type Report struct {
	w *bufio.Writer // returns its first error again
}

// NewReport returns a Report that writes to w, beginning with the header.
func NewReport(w io.Writer) *Report {
	r := &Report{bufio.NewWriter(w)}
	_, _ = r.w.WriteString(utf8Mark + "line,reason,row\r\n") // fits the buffer
	return r
}

// Write writes a row. After an error every call returns that error.
func (r *Report) Write(place Place, reason string, raw []byte) error {
	if place.LastLine > 0 || place.Element > 0 {
		reason = place.String() + ": " + reason
	}
	text := strconv.AppendInt(r.w.AvailableBuffer(), place.Line, 10)
	text = appendCell(append(text, ','), reason)
	text = appendCell(append(text, ','), strings.ToValidUTF8(string(raw), "\uFFFD"))
	_, err := r.w.Write(append(text, '\r', '\n'))
	return err
}

// Close writes the buffered rows. It does not close the writer of NewReport.
func (r *Report) Close() error { return r.w.Flush() }
