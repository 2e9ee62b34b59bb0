package dump

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// Rejects writes rows of a file, unchanged, to a file of the same format: the
// rows that were not stored, so that the user can correct and import them. All
// rows must come from one Read. Without rows the file stays empty.
//
// A Rejects is not safe for concurrent use. The zero value is not usable.
type Rejects struct {
	w      *bufio.Writer
	format Format
	rows   int64
	err    error
}

// NewRejects returns a Rejects that writes to w. It writes nothing before the
// first row.
func NewRejects(w io.Writer, f Format) (*Rejects, error) {
	format, err := ParseFormat(string(f))
	if err != nil {
		return nil, err
	}
	return &Rejects{w: bufio.NewWriter(w), format: format}, nil
}

// Write writes row.Raw. It skips a row that has none, because Read found it too
// long. After an error every call returns that error.
func (r *Rejects) Write(row Row) error {
	if r.err != nil || len(row.Raw) == 0 {
		return r.err
	}
	switch {
	case r.format == JSON:
		r.put(separator(r.rows))
	case r.format == CSV && r.rows == 0:
		r.put(row.header + "\r\n")
	case r.format == JSONL && r.rows == 0 && row.Raw[0] != '{':
		r.put("\n") // so that the file does not begin like one with a byte order mark or like a compressed one
	}
	r.putRaw(row.Raw)
	switch {
	case r.format == CSV || r.format == JSONL && row.Raw[len(row.Raw)-1] == '\r':
		r.put("\r\n") // a CR before it stays part of the row
	case r.format == JSONL:
		r.put("\n")
	}
	r.rows++
	return r.err
}

// Close writes the buffered rows and ends a JSON array. It does not close the
// writer of NewRejects.
func (r *Rejects) Close() error {
	if r.format == JSON && r.rows > 0 {
		r.put(arrayEnd(r.rows))
	}
	if r.err == nil {
		r.err = r.w.Flush()
	}
	return r.err
}

func (r *Rejects) put(text string) {
	if r.err == nil {
		_, r.err = r.w.WriteString(text)
	}
}

func (r *Rejects) putRaw(raw []byte) {
	if r.err == nil {
		_, r.err = r.w.Write(raw)
	}
}

// Report writes a CSV file with the line, the reason and the text of rows, for a
// person with a spreadsheet. It writes apostrophes before formulas, as Writer does.
// Bytes that are not UTF-8 become U+FFFD.
//
// A Report is not safe for concurrent use. The zero value is not usable.
type Report struct {
	w   *bufio.Writer
	buf []byte
	err error
}

// NewReport returns a Report that writes to w, beginning with the header.
func NewReport(w io.Writer) *Report {
	r := &Report{w: bufio.NewWriter(w)}
	_, r.err = r.w.WriteString("line,reason,row\r\n")
	return r
}

// Write writes a row that begins at a line. After an error every call returns that
// error.
func (r *Report) Write(line int64, reason string, raw []byte) error {
	if r.err != nil {
		return r.err
	}
	r.buf = strconv.AppendInt(r.buf[:0], line, 10)
	r.buf = appendCell(append(r.buf, ','), reason)
	r.buf = appendCell(append(r.buf, ','), strings.ToValidUTF8(string(raw), "\uFFFD"))
	_, r.err = r.w.Write(append(r.buf, '\r', '\n'))
	return r.err
}

// Close writes the buffered rows. It does not close the writer of NewReport.
func (r *Report) Close() error {
	if r.err == nil {
		r.err = r.w.Flush()
	}
	return r.err
}
