package admin

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"

	"plantstore/internal/auth"
	"plantstore/internal/dump"
	"plantstore/internal/importer"
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

	rows       *dump.Rejects // writes rowsFile; nil: the files are complete
	report     *dump.Report  // writes reportFile
	rowsFile   *compressed
	reportFile *compressed
}

// compressed is a file in memory.
type compressed struct {
	*gzip.Writer // compresses into content; nil: the file is complete

	content bytes.Buffer
}

func newCompressed() *compressed {
	c := &compressed{}
	c.Writer, _ = gzip.NewWriterLevel(&c.content, gzip.BestSpeed) // the level is valid
	return c
}

func newRejects(format dump.Format) *rejects {
	r := &rejects{rowsFile: newCompressed(), reportFile: newCompressed()}
	r.rows = dump.NewRejects(r.rowsFile, format) // NewImport.check has checked the format
	r.report = dump.NewReport(r.reportFile)
	return r
}

// add adds a row, unless the files are too large.
func (r *rejects) add(row importer.Reject) {
	reason := shorten([]byte(row.Reason.Error()), rejectReasonMax)
	if len(r.first) < RejectsShown {
		r.first = append(r.first, ImportReject{
			Line: row.Line, Reason: shorten([]byte(reason), rejectTextMax), Text: shorten(row.Raw, rejectTextMax),
		})
	}
	if r.rows == nil {
		return
	}
	r.kept++
	_, _ = r.rows.Write(row.Row), r.report.Write(row.Line, reason, row.Raw) // a buffer accepts everything
	if r.rowsFile.content.Len()+r.reportFile.content.Len() > rejectsBytesMax {
		r.end()
	}
}

// end completes the files, and releases the memory for compressing them.
func (r *rejects) end() {
	if r.rows != nil {
		_ = errors.Join(r.rows.Close(), r.report.Close(), r.rowsFile.Close(), r.reportFile.Close()) // here too
		r.rows, r.report, r.rowsFile.Writer, r.reportFile.Writer = nil, nil, nil, nil
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
	if j.state.State == JobRunning {
		return nil, "", importRunning("the import runs; its rejects are complete when it has ended")
	}
	packed, format := j.rejects.rowsFile, j.state.Format
	if report {
		packed, format = j.rejects.reportFile, dump.CSV
	}
	file, err = gzip.NewReader(bytes.NewReader(packed.content.Bytes()))
	return file, format, err
}
