package admin

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

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

// rejects are the rows that an import does not store, as files that are compressed in memory. Temporary files would
// need a directory with space, which a server may not have, and a killed server would leave them behind.
type rejects struct {
	first []ImportReject
	kept  int64 // rows in the files

	rowsFile, reportFile bytes.Buffer

	// These write the files; nil: the files are complete.
	rows               *dump.Rejects
	report             *dump.Report
	rowsZip, reportZip *gzip.Writer
}

func newRejects(format dump.Format) *rejects {
	r := &rejects{}
	r.rowsZip, _ = gzip.NewWriterLevel(&r.rowsFile, gzip.BestSpeed) // the level is valid, here and below
	r.reportZip, _ = gzip.NewWriterLevel(&r.reportFile, gzip.BestSpeed)
	r.rows, r.report = dump.NewRejects(r.rowsZip, format), dump.NewReport(r.reportZip)
	return r
}

// add adds a row, unless the files are too large.
func (r *rejects) add(row importer.Reject) {
	reason := shorten([]byte(row.Reason.Error()), rejectReasonMax)
	if len(r.first) < RejectsShown {
		r.first = append(r.first, ImportReject{
			Place: row.Place, Reason: shorten([]byte(reason), rejectTextMax), Text: shorten(row.Raw, rejectTextMax),
		})
	}
	if r.rows == nil {
		return
	}
	r.kept++
	_, _ = r.rows.Write(row.Row), r.report.Write(row.Place, reason, row.Raw) // a buffer accepts everything
	if r.rowsFile.Len()+r.reportFile.Len() > rejectsBytesMax {
		r.end()
	}
}

// end completes the files, and releases the memory for compressing them.
func (r *rejects) end() {
	if r.rows != nil {
		_ = errors.Join(r.rows.Close(), r.report.Close(), r.rowsZip.Close(), r.reportZip.Close()) // here too
		r.rows, r.report, r.rowsZip, r.reportZip = nil, nil, nil, nil
	}
}

// shorten returns the start of a text in UTF-8.
func shorten(text []byte, bytesMax int) string {
	if len(text) > bytesMax {
		cut := bytesMax
		for cut > bytesMax-utf8.UTFMax && !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = append(text[:cut:cut], "…"...)
	}
	return strings.ToValidUTF8(string(text), "\uFFFD")
}

// RejectsOf returns the rows that an ended import has not stored, without those that the server did not keep. The file
// has the format of the import, so that a person can correct and import it, and no rows that are too long. With report
// it is CSV with the lines, the reasons and the rows.
func (s *Service) RejectsOf(id string, p auth.Principal, report bool) (file io.Reader, format dump.Format, err error) {
	s.imports.mu.Lock()
	defer s.imports.mu.Unlock()
	j, err := s.imports.find(id, p)
	if err != nil {
		return nil, "", err
	}
	if !j.ended() && !j.waits() {
		return nil, "", plant.Errorf(plant.CodeImportRunning, "the import runs; its rejects are complete when it has ended")
	}
	packed, format := j.rejects.rowsFile.Bytes(), j.state.Format
	if report {
		packed, format = j.rejects.reportFile.Bytes(), dump.CSV
	}
	file, err = gzip.NewReader(bytes.NewReader(packed))
	return file, format, err
}
