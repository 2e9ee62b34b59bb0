package dump

import (
	"errors"
	"io"
	"strconv"

	"plantstore/internal/plant"
)

// Writer writes plants as a file that Read takes. It must be closed for the
// file to be whole. It is not safe for concurrent use.
//
// Read takes every plant that is no larger than one in a body of
// plant.BodyBytesMax. A larger one is written all the same, and refused by Read.
type Writer struct {
	out       io.WriteCloser // the compressor
	format    Format
	buf       []byte // rows that were not yet given to out
	rows      int64
	emptyTags int64
	closed    bool
	err       error // the first error, or errClosed; after it nothing is written
}

// NewWriter returns a Writer to w. Nothing reaches w before the first rows
// fill a buffer or the Writer is closed.
func NewWriter(w io.Writer, f Format, c Compression) (*Writer, error) {
	format, err := ParseFormat(string(f))
	if err != nil {
		return nil, err
	}
	out, err := compressor(w, c)
	if err != nil {
		return nil, err
	}
	wr := &Writer{out: out, format: format, buf: make([]byte, 0, windowBytes+windowBytes/4)}
	if format == CSV {
		wr.buf = append(wr.buf, "id,name,tag\r\n"...)
	}
	return wr, nil
}

// Write adds a plant. An error is final: every later call returns it again.
func (w *Writer) Write(p plant.NewPlant) error {
	if w.err != nil {
		return w.err
	}
	switch w.format {
	case CSV:
		w.buf = appendCSV(w.buf, p)
		if tag, ok := p.Tag.Get(); ok && tag == "" {
			w.emptyTags++
		}
	case JSONL:
		w.buf = append(p.AppendJSON(w.buf), '\n')
	case JSON:
		w.buf = p.AppendJSON(append(w.buf, separator(w.rows)...))
	}
	w.rows++
	if len(w.buf) >= windowBytes {
		w.flush()
	}
	return w.err
}

// separator returns what stands in a JSON array before its element n, from 0.
func separator(n int64) string {
	if n == 0 {
		return "[\n"
	}
	return ",\n"
}

func (w *Writer) flush() {
	_, w.err = w.out.Write(w.buf)
	w.buf = w.buf[:0]
}

// EmptyTagsLost returns how many plants were written to CSV with an empty tag,
// which will be read as no tag.
func (w *Writer) EmptyTagsLost() int64 { return w.emptyTags }

var errClosed = errors.New("the writer is closed")

// Close writes what is left and ends the format and the compression. It does
// not close the writer that NewWriter was given. A second Close does nothing.
func (w *Writer) Close() error {
	if w.closed {
		return nil
	}
	if w.err != nil {
		return w.err
	}
	if w.format == JSON {
		w.buf = append(w.buf, arrayEnd(w.rows)...)
	}
	w.flush()
	err := w.err
	if errClose := w.out.Close(); err == nil {
		err = errClose
	}
	w.closed, w.err = true, errClosed
	return err
}

// arrayEnd returns what ends a JSON array of n elements.
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

// appendCell appends a text as a cell: with apostrophes before what a
// spreadsheet would run, and in quotes where RFC 4180 asks for them or where
// spaces at an end could be trimmed.
func appendCell(dst []byte, text string) []byte {
	guard, quote := guarded(text), needsQuotes(text)
	text = guardParts(text)
	if quote {
		dst = append(dst, '"')
	}
	if guard {
		dst = append(dst, '\'')
	}
	if !quote {
		return append(dst, text...)
	}
	start := 0
	for i := range len(text) {
		if text[i] == '"' {
			dst = append(dst, text[start:i+1]...)
			start = i // so that the quote is written a second time
		}
	}
	return append(append(dst, text[start:]...), '"')
}

func needsQuotes(text string) bool {
	if text == "" {
		return false
	}
	if text[0] == ' ' || text[len(text)-1] == ' ' {
		return true
	}
	for i := range len(text) {
		switch text[i] {
		case ',', '"', '\r', '\n':
			return true
		}
	}
	return false
}
