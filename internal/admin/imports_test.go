package admin_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"strings"
	"testing"

	"plantstore/internal/admin"
	"plantstore/internal/dump"
	"plantstore/internal/importer"
	"plantstore/internal/plant"
)

// A file with too many rejects, or with much more content than its size, ends its import. Rejects that the client
// skips do not count.
func TestImportOfHostileFiles(t *testing.T) {
	t.Parallel()
	service, _ := open(t, admin.Config{}, create(1, "A", plant.Tag{}))
	const rejects = 1500 // more than a batch
	service.SetRejectsMax(rejects)
	for name, row := range map[string]struct {
		reaction importer.Reaction
		row      string
		rows     int
		message  string // empty: the import is complete
	}{
		"at the limit": {importer.Report, "x\n", rejects, ""},
		"invalid rows": {importer.Report, "x\n", rejects + 1, "more than 1500 rows are invalid or conflict"},
		"conflicts":    {importer.Report, "1,B\n", rejects + 1, "more than 1500 rows are invalid or conflict"},
		"skip":         {importer.Skip, "1,B\n", rejects + 1, ""},
		"invalid skip": {importer.Skip, "x\n", rejects + 1, "more than 1500 rows are invalid or conflict"},
		"too large rows": {
			importer.Skip, strings.Repeat("A", 4<<20) + "\n", 20, "the compressed file has too much content for its size",
		},
	} {
		var file bytes.Buffer
		w := gzip.NewWriter(&file)
		if _, err := io.WriteString(w, "id,name\n"+strings.Repeat(row.row, row.rows)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		i, err := service.Import(t.Context(), admin.NewImport{
			ID: "a", Format: dump.CSV, OnConflict: row.reaction, Bytes: int64(file.Len()),
			File:     func(context.Context) io.ReadCloser { return io.NopCloser(&file) },
			Received: func() int64 { return 0 },
		})
		complete := i.State == admin.JobComplete
		if complete != (row.message == "") || complete != (err == nil) || !strings.Contains(i.Error, row.message) {
			t.Errorf("%s: got %s, %s after %d rows, %v", name, i.State, i.Error, i.Rows(), err)
		}
	}
}
