package admin

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
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
	rejectTextMax   = 300     // bytes of their texts
	rejectReasonMax = 1000    // bytes of a reason
)

// rejects are the rows that an import does not store. They are compressed in memory: a temporary file would need a
// directory with space, which a server may not have, and would be left behind by a killed one.
type rejects struct {
	first []ImportReject
	kept  int64 // rows in packed

	packed bytes.Buffer // gzip of records
	writer *gzip.Writer // nil: packed is complete
	record []byte
	sample dump.Row // has the header of the file
}

func newRejects() *rejects {
	r := &rejects{}
	r.writer, _ = gzip.NewWriterLevel(&r.packed, gzip.BestSpeed) // the level is valid
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
	r.record = binary.AppendVarint(r.record[:0], row.Line)
	r.record = appendText(r.record, []byte(reason))
	r.record = appendText(r.record, row.Raw)
	_, _ = r.writer.Write(r.record) // a buffer accepts everything
	if r.packed.Len() > rejectsBytesMax {
		r.end()
	}
}

func appendText(dst, text []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(text))), text...)
}

// end completes the compressed rows.
func (r *rejects) end() {
	if r.writer != nil {
		_ = r.writer.Close() // a buffer accepts everything
		r.writer, r.record = nil, nil
	}
}

// shorten returns the begin of a text in UTF-8.
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

// SendRejects responds to a GET request with the rows that an import has not stored, without those that the server did
// not keep: unchanged as a file of the format of the import, or in a report for a person. The response ends early with
// Close. An error is a *plant.Error, and nothing was written then.
func (s *Service) SendRejects(
	w http.ResponseWriter, r *http.Request, id string, p auth.Principal, report bool,
) error {
	ctx, end, err := s.begin(r.Context())
	if err != nil {
		return err
	}
	defer end()
	f, err := s.rejectsOf(id, p)
	if err != nil {
		return err
	}
	format, write, name := dump.Format(f.state.Format), f.writeRows, "rejects-"
	if report {
		format, write, name = dump.CSV, f.writeReport, "report-"
	}
	h := w.Header()
	h.Set("Content-Type", map[dump.Format]string{
		dump.CSV: "text/csv; charset=utf-8", dump.JSONL: ndjsonType, dump.JSON: "application/json",
	}[format])
	h.Set("Content-Disposition", mime.FormatMediaType(
		"attachment", map[string]string{"filename": name + id + "." + string(format)}))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	to := &partWriter{ResponseWriter: w, control: http.NewResponseController(w), ctx: ctx, timeMax: s.partTime}
	if err := write(to); err != nil {
		panic(http.ErrAbortHandler) // the client must notice that the content is incomplete
	}
	return nil
}

// rejectsFile is the rejects of an import that has ended.
type rejectsFile struct {
	state  Import
	packed []byte
	sample dump.Row
}

func (s *Service) rejectsOf(id string, p auth.Principal) (*rejectsFile, error) {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	j, err := s.imports.find(id, p)
	if err != nil {
		return nil, err
	}
	if j.state.State == JobRunning {
		return nil, importRunning("the import runs; its rejects are complete when it has ended")
	}
	return &rejectsFile{j.snapshot(), j.rejects.packed.Bytes(), j.rejects.sample}, nil
}

// writeRows writes the rows unchanged as a file of the format of the import, which can be corrected and imported. A row
// that is too long is missing.
func (f *rejectsFile) writeRows(w io.Writer) error {
	rows, err := dump.NewRejects(w, dump.Format(f.state.Format))
	if err != nil {
		return err
	}
	return errors.Join(f.each(func(_ int64, _ string, raw []byte) error {
		row := f.sample
		row.Raw = raw
		return rows.Write(row)
	}), rows.Close())
}

// writeReport writes the lines, the reasons and the rows as CSV for a person.
func (f *rejectsFile) writeReport(w io.Writer) error {
	report := dump.NewReport(w)
	return errors.Join(f.each(report.Write), report.Close())
}

// each calls a function for each row. The text is valid until the function returns.
func (f *rejectsFile) each(do func(line int64, reason string, raw []byte) error) error {
	if len(f.packed) == 0 {
		return nil
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(f.packed))
	if err != nil {
		return fmt.Errorf("read the rejects: %w", err)
	}
	from := bufio.NewReader(unpacked)
	var reason, raw []byte
	for range f.state.RejectsKept {
		line, errLine := binary.ReadVarint(from)
		reason, err = readText(from, reason)
		var errRaw error
		raw, errRaw = readText(from, raw)
		if err := errors.Join(errLine, err, errRaw); err != nil {
			return fmt.Errorf("read the rejects: %w", err)
		}
		if err := do(line, string(reason), raw); err != nil {
			return err
		}
	}
	return nil
}

// readText reads a text of appendText into a buffer, which it may replace.
func readText(from *bufio.Reader, buffer []byte) ([]byte, error) {
	n, err := binary.ReadUvarint(from)
	if err != nil {
		return buffer, err
	}
	buffer = slices.Grow(buffer[:0], int(n))[:n]
	_, err = io.ReadFull(from, buffer)
	return buffer, err
}
