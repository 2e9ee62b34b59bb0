package admin

import (
	"bytes"
	"compress/gzip"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"strings"

	"plantstore/internal/auth"
	"plantstore/internal/dump"
	"plantstore/internal/importer"
	"plantstore/internal/plant"
)

// RejectsShown is the largest number of Import.Rejects.
const RejectsShown = 100

// The limits of the rejects of an import.
const (
	rejectsBytesMax = 4 << 20 // compressed, in memory
	rejectTextMax   = 300     // bytes of the texts in Import.Rejects
	rejectReasonMax = 1000    // bytes of a reason
)

// rejects are the rows that an import does not store, compressed in memory. A temporary file would need a directory
// with space, which a server may not have, and a killed server would leave it behind.
type rejects struct {
	first []ImportReject
	kept  int64 // rows in packed

	packed bytes.Buffer // gzip of gob of rejectedRow
	writer *gzip.Writer // nil: packed is complete
	rows   *gob.Encoder // to writer
	sample dump.Row     // has the header of the file
}

// rejectedRow is a row with the reason why it is not stored.
type rejectedRow struct {
	Line   int64
	Reason string
	Raw    []byte
}

func newRejects() *rejects {
	r := &rejects{}
	r.writer, _ = gzip.NewWriterLevel(&r.packed, gzip.BestSpeed) // the level is valid
	r.rows = gob.NewEncoder(r.writer)
	return r
}

// add adds a row, unless the rejects are too large.
func (r *rejects) add(row importer.Reject) {
	reason := shorten([]byte(row.Reason.Error()), rejectReasonMax)
	if len(r.first) < RejectsShown {
		r.first = append(r.first, ImportReject{
			Line: row.Line, Reason: shorten([]byte(reason), rejectTextMax), Text: shorten(row.Raw, rejectTextMax),
		})
	}
	if r.writer == nil {
		return
	}
	if r.kept == 0 {
		r.sample = row.Row
		r.sample.Raw, r.sample.Plant = nil, plant.NewPlant{}
	}
	r.kept++
	_ = r.rows.Encode(rejectedRow{row.Line, reason, row.Raw}) // a buffer accepts everything
	if r.packed.Len() > rejectsBytesMax {
		r.end()
	}
}

// end completes the compressed rows.
func (r *rejects) end() {
	if r.writer != nil {
		_ = r.writer.Close() // a buffer accepts everything
		r.writer, r.rows = nil, nil
	}
}

// shorten returns the start of a text in UTF-8.
func shorten(text []byte, bytesMax int) string {
	if len(text) <= bytesMax {
		return strings.ToValidUTF8(string(text), "\uFFFD")
	}
	cut := bytesMax
	for cut > bytesMax-3 && text[cut]&0xc0 == 0x80 { // inside a character
		cut--
	}
	return strings.ToValidUTF8(string(text[:cut]), "\uFFFD") + "…"
}

// Rejects are the rows that an import has not stored, without those that the server did not keep.
type Rejects struct {
	Format dump.Format // of the import

	kept   int64
	packed []byte
	sample dump.Row
}

// RejectsOf returns the rejects of an import that has ended.
func (s *Service) RejectsOf(id string, p auth.Principal) (*Rejects, error) {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	j, err := s.imports.find(id, p)
	if err != nil {
		return nil, err
	}
	if j.state.State == JobRunning {
		return nil, importRunning("the import runs; its rejects are complete when it has ended")
	}
	return &Rejects{j.state.Format, j.rejects.kept, j.rejects.packed.Bytes(), j.rejects.sample}, nil
}

// WriteRows writes the rows unchanged as a file in the format of the import, which a person can correct and import. It
// omits rows that are too long.
func (f *Rejects) WriteRows(w io.Writer) error {
	rows := dump.NewRejects(w, f.Format)
	return errors.Join(f.each(func(_ int64, _ string, raw []byte) error {
		row := f.sample
		row.Raw = raw
		return rows.Write(row)
	}), rows.Close())
}

// WriteReport writes the lines, the reasons and the rows as CSV for a person.
func (f *Rejects) WriteReport(w io.Writer) error {
	report := dump.NewReport(w)
	return errors.Join(f.each(report.Write), report.Close())
}

// each calls a function for each row.
func (f *Rejects) each(do func(line int64, reason string, raw []byte) error) error {
	if len(f.packed) == 0 {
		return nil
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(f.packed))
	if err != nil {
		return fmt.Errorf("read the rejects: %w", err)
	}
	rows := gob.NewDecoder(unpacked)
	for range f.kept {
		var row rejectedRow
		if err := rows.Decode(&row); err != nil {
			return fmt.Errorf("read the rejects: %w", err)
		}
		if err := do(row.Line, row.Reason, row.Raw); err != nil {
			return err
		}
	}
	return nil
}
