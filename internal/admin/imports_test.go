package admin_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"testing"

	"plantstore/internal/admin"
	"plantstore/internal/auth"
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

// A credential with many results, or with large rejects, pushes out its own results, never another credential's.
func TestResultsAreKept(t *testing.T) {
	t.Parallel()
	service, _ := open(t, admin.Config{})
	imported := func(owner int64, id, rows string) {
		t.Helper()
		i, err := service.Import(t.Context(), admin.NewImport{
			ID: id, Format: dump.CSV, OnConflict: importer.Report, Principal: auth.Principal{TokenID: owner},
			File:     func(context.Context) io.ReadCloser { return io.NopCloser(strings.NewReader("id,name\n" + rows)) },
			Received: func() int64 { return 0 },
		})
		if err != nil || i.State != admin.JobComplete {
			t.Fatalf("%s: got %+v, %v", id, i, err)
		}
	}
	kept := func(owner int64) int { return len(service.Imports(auth.Principal{TokenID: owner})) }
	all := func() int { return len(service.Imports(auth.Principal{Scopes: auth.ScopeAdmin})) }
	imported(1, "own", "x,\n")
	for n := range 12 {
		imported(2, fmt.Sprint("empty", n), "")
	}
	if kept(1) != 1 || kept(2) != 10 {
		t.Errorf("got %d and %d results, want 1 and 10", kept(1), kept(2))
	}
	if _, err := service.ImportOf("empty2", auth.Principal{TokenID: 2}); err != nil {
		t.Errorf("the oldest of the last 10: got %v", err)
	}
	for owner := range int64(11) {
		for n := range 9 {
			imported(owner+3, fmt.Sprint("of", owner, ".", n), "")
		}
	}
	if kept(1) != 1 || all() != 100 {
		t.Errorf("got %d results, and %d of all credentials, want 1 and 100", kept(1), all())
	}
	service.SetRejectsKept(100_000)
	var rows strings.Builder // about 40 KB compressed, with their reasons
	for range 500 {
		rows.WriteString(rand.Text() + ",\n")
	}
	for n := range 5 {
		imported(2, fmt.Sprint("large", n), rows.String())
	}
	if _, _, err := service.RejectsOf("own", auth.Principal{TokenID: 1}, false); err != nil {
		t.Errorf("the rejects of another credential: %v", err)
	}
	if n := kept(2); n == 0 || n > 4 {
		t.Errorf("got %d results with large rejects", n)
	}
}
