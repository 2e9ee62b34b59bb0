package dump

import (
	"bufio"
	"io"
)

// Rejects writes rows back as they stand in the file they were read from, as a
// file of the same format: correct it, and it can be read in its turn. The
// zero value is not usable; it is not safe for concurrent use.
//
// All rows must come from one Read. Without any the file stays empty.
type Rejects struct {
	w       *bufio.Writer
	format  Format
	rows    int64
	omitted int64
	err     error
}

// NewRejects returns a Rejects that writes to w. Nothing is written before the
// first row.
func NewRejects(w io.Writer, f Format) (*Rejects, error) {
	format, err := ParseFormat(string(f))
	if err != nil {
		return nil, err
	}
	return &Rejects{w: bufio.NewWriter(w), format: format}, nil
}

// Write adds a row. One that was too long to keep is counted as omitted and
// not written. An error is final: every later call returns it again.
func (r *Rejects) Write(row Row) error {
	if r.err != nil {
		return r.err
	}
	if len(row.Raw) == 0 {
		r.omitted++
		return nil
	}
	switch {
	case r.format == JSON:
		r.put(separator(r.rows))
	case r.format == CSV && r.rows == 0:
		r.put(row.header + "\r\n")
	case r.format == JSONL && r.rows == 0 && row.Raw[0] != '{':
		r.put("\n") // lest its first bytes be taken for a byte order mark or for a compressed file
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

// Omitted returns how many rows were too long to be kept.
func (r *Rejects) Omitted() int64 { return r.omitted }

// Close writes what is left and ends a JSON array. It does not close the
// writer that NewRejects was given.
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
