package dump_test

import (
	"bytes"
	"context"
	"io"
	"iter"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"plantstore/internal/dump"
	"plantstore/internal/plant"
)

// row is a dump.Row in a form that a table can contain and cmp can compare.
type row struct {
	Line  int64
	Raw   string
	Plant plant.NewPlant
	Err   string
}

var equalTags = cmp.Comparer(func(a, b plant.Tag) bool { return a == b })

// read returns every row of a file, and the text of the error that ended it. Its limits are lower than the limits of
// dump.Read.
func read(r io.Reader, f dump.Format) (rows []row, failure string) {
	for got, err := range rowsWithin(r, f, rowBytesMax, plantBytesMax) {
		if err != nil {
			failure += err.Error()
			continue
		}
		rows = append(rows, row{Line: got.Line, Raw: string(got.Raw), Plant: got.Plant, Err: errorText(got.Err)})
	}
	return rows, failure
}

// rowsOf opens a file of a format, and returns its rows. Names may be empty. The last error is of Open or of the rows.
func rowsOf(r io.Reader, f dump.Format) iter.Seq2[dump.Row, error] { return rowsWithin(r, f, 0, 0) }

// rowsWithin is rowsOf with limits on the bytes of a row and of a plant.
func rowsWithin(r io.Reader, f dump.Format, rowMax, plantMax int) iter.Seq2[dump.Row, error] {
	return rowsWith(r, dump.Options{Format: f, RowMax: rowMax, PlantMax: plantMax, AllowEmptyNames: true})
}

func rowsWith(r io.Reader, o dump.Options) iter.Seq2[dump.Row, error] {
	return func(yield func(dump.Row, error) bool) {
		file, err := dump.Open(context.Background(), r, o)
		if err != nil {
			yield(dump.Row{}, err)
			return
		}
		defer file.Close()
		file.Rows()(yield)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// mustRead returns the plants of a file without invalid rows.
func mustRead(tb rapid.TB, r io.Reader, f dump.Format) []plant.NewPlant {
	tb.Helper()
	var plants []plant.NewPlant
	for row, err := range rowsOf(r, f) {
		if err != nil {
			tb.Fatalf("after %d rows: %v", len(plants), err)
		}
		if row.Err != nil {
			tb.Fatalf("line %d: %v", row.Line, row.Err)
		}
		plants = append(plants, row.Plant)
	}
	return plants
}

// write returns a file of the plants.
func write(tb rapid.TB, f dump.Format, c dump.Compression, plants []plant.NewPlant) []byte {
	tb.Helper()
	var file bytes.Buffer
	w, err := dump.NewWriter(&file, f, c)
	if err != nil {
		tb.Fatal(err)
	}
	for _, p := range plants {
		if err := w.Write(p); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return file.Bytes()
}

// rewrite reads a file and returns its invalid rows as a file of rejects.
func rewrite(tb rapid.TB, file []byte, f dump.Format) []byte {
	tb.Helper()
	var out bytes.Buffer
	w := dump.NewRejects(&out, f)
	for row, err := range rowsWithin(bytes.NewReader(file), f, rowBytesMax, plantBytesMax) {
		if err == nil && row.Err != nil {
			if err := w.Write(row); err != nil {
				tb.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

func named(id int64, name string) plant.NewPlant {
	return plant.NewPlant{ID: id, Plant: plant.Plant{Name: name}}
}

func tagged(id int64, name, tag string) plant.NewPlant {
	return plant.NewPlant{ID: id, Plant: plant.Plant{Name: name, Tag: plant.Tagged(tag)}}
}

func TestParseFormat(t *testing.T) {
	t.Parallel()
	names := map[string]dump.Format{"csv": dump.CSV, "jsonl": dump.JSONL, "ndjson": dump.JSONL, "json": dump.JSON}
	for name, want := range names {
		if got, err := dump.ParseFormat(name); got != want || err != nil {
			t.Errorf("ParseFormat(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"", "CSV", "xml"} {
		_, err := dump.ParseFormat(name)
		if want := `unknown format "` + name + `"; use csv, jsonl (or ndjson) or json`; errorText(err) != want {
			t.Errorf("ParseFormat(%q): got error %v, want %s", name, err, want)
		}
	}
}

func TestDetectPath(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path        string
		format      dump.Format
		compression dump.Compression
		ok          bool
	}{
		{"plants.csv", dump.CSV, dump.None, true},
		{"plants.jsonl", dump.JSONL, dump.None, true},
		{"plants.ndjson", dump.JSONL, dump.None, true},
		{"plants.json", dump.JSON, dump.None, true},
		{"a.b/plants.csv.gz", dump.CSV, dump.Gzip, true},
		{"/a/plants.jsonl.zst", dump.JSONL, dump.Zstd, true},
		{"plants.ndjson.gz", dump.JSONL, dump.Gzip, true},
		{"PLANTS.JSON.GZ", dump.JSON, dump.Gzip, true},
		{"plants.2026.csv", dump.CSV, dump.None, true},
		{"plants.gz", "", dump.Gzip, false},
		{"plants.xml.zst", "", dump.Zstd, false},
		{"plants.csv/plants", "", dump.None, false},
		{"plants.csv.bak", "", dump.None, false},
		{"csv", "", dump.None, false},
		{"-", "", dump.None, false},
		{"", "", dump.None, false},
	} {
		format, compression, ok := dump.DetectPath(tt.path)
		if format != tt.format || compression != tt.compression || ok != tt.ok {
			t.Errorf("DetectPath(%q) = %q, %q, %t; want %q, %q, %t",
				tt.path, format, compression, ok, tt.format, tt.compression, tt.ok)
		}
	}
}

func TestUnknownFormat(t *testing.T) {
	t.Parallel()
	const want = `unknown format "xml"; use csv, jsonl (or ndjson) or json`
	if format, err := dump.ParseFormat("xml"); errorText(err) != want {
		t.Errorf("got %q, %v, want %q", format, err, want)
	}
}

// A caller may leave the loop early.
func TestReadStops(t *testing.T) {
	t.Parallel()
	plants := []plant.NewPlant{named(1, "Rosa"), named(2, "Bellis")}
	for _, format := range formats {
		var got []plant.NewPlant
		for row, err := range rowsOf(bytes.NewReader(write(t, format, dump.None, plants)), format) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, row.Plant)
			break
		}
		if !slices.Equal(got, plants[:1]) {
			t.Errorf("%s: got %v, want the first plant only", format, got)
		}
	}
}
