package dump_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/dump"
	"plantstore/internal/plant"
)

// checkFile checks the properties of every file: its plants can be written and read again in each format, and its
// invalid rows as rejects.
func checkFile(t *testing.T, file []byte, format dump.Format) []row {
	if encoded(file) { // its rows are not the bytes of the file
		t.Skip()
	}
	rows, failure := read(bytes.NewReader(file), format)
	var plants []plant.NewPlant
	var refused []row
	for i, r := range rows {
		if r.Line < 1 || i > 0 && r.Line < rows[i-1].Line {
			t.Errorf("row %d has line %d, the row before it line %d", i, r.Line, rows[max(i, 1)-1].Line)
		}
		if r.Err == "" {
			plants = append(plants, r.Plant)
		} else {
			r.Line = 0
			refused = append(refused, r)
		}
	}
	for _, other := range formats {
		want := plants
		if other == dump.CSV {
			want = withoutEmptyTags(plants)
		}
		if got := mustRead(t, bytes.NewReader(write(t, other, dump.None, plants)), other); !slices.Equal(got, want) {
			t.Errorf("written and read as %s: got %v, want %v", other, got, want)
		}
	}
	checkRejects(t, file, format, refused)
	if again, f := read(&halfReader{file}, format); !cmp.Equal(rows, again, equalTags) || f != failure {
		t.Errorf("the rows differ in pieces: got %v, %q, want %v, %q", again, f, rows, failure)
	}
	return rows
}

// encoded reports whether Open decompresses or decodes a file.
func encoded(file []byte) bool {
	for _, format := range []dump.Format{dump.JSONL, dump.JSON} {
		f, err := dump.Open(context.Background(), bytes.NewReader(file), dump.Options{Format: format})
		if err == nil && (f.Found().Compression != dump.None || f.Found().Encoding != "UTF-8") {
			return true
		}
	}
	return bytes.HasPrefix(file, []byte{0x1f, 0x8b})
}

// checkRejects reads the rejects of a file and compares them with its invalid rows and their reasons. Rows that were
// too long to keep are not among them.
func checkRejects(t *testing.T, file []byte, format dump.Format, want []row) {
	want = slices.DeleteFunc(want, func(r row) bool { return r.Raw == "" })
	rejects := rewrite(t, file, format)
	if len(rejects) == 0 && len(want) == 0 || encoded(rejects) {
		return
	}
	got, failure := read(bytes.NewReader(rejects), format)
	for i := range got {
		got[i].Line = 0
	}
	if diff := cmp.Diff(want, got, equalTags); diff != "" || failure != "" {
		t.Errorf("the rows of the rejects %q differ (-refused +rejects):\n%s\n%q", rejects, diff, failure)
	}
}

// halfReader returns half of its remaining data at each read.
type halfReader struct{ data []byte }

func (r *halfReader) Read(p []byte) (int, error) {
	n := copy(p, r.data[:(len(r.data)+1)/2])
	r.data = r.data[n:]
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func FuzzCSV(f *testing.F) {
	for _, seed := range []string{
		"", "id,name,tag\n1,Rosa,shrub\n", "\uFEFFid,name\r\n\r\n-5,\"a\"\"b\r\n\"\r\n",
		"name,id\na\"b,1\n\"a\"b,2\n\"c", "id,name,tag\n1,'=1,''+\n2,\r,\r\n",
		"id,name,tag\n1,a;'=1,\"\t''+\n'\"\"@\"\n",
		"id,name,x,tag\n9223372036854775808,\xff,,\x00\n1e3\n",
		"tag,\"id\",name\n,1,\n\"\",2,\"\"", "id,name\n1,\"\n\n", "id,name\n1,a\r\r\n",
		"sep=;\nID; Name \n1.0;a\n;\n2;b;;\n", "id\tname\r1\t\"a\nb\"\r2\tc\r", "id,name,tag\n1,\"a\n2,\"b\",c\n3,d\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		rows := checkFile(t, file, dump.CSV)
		if bytes.IndexByte(file, '\r') < 0 {
			checkAgainstStandard(t, file, rows)
		}
	})
}

// checkAgainstStandard compares the rows with the rows of encoding/csv, if it can read the file. encoding/csv differs
// from RFC 4180 only in its handling of CR.
func checkAgainstStandard(t *testing.T, file []byte, rows []row) {
	f, err := dump.Open(t.Context(), bytes.NewReader(file), dump.Options{Format: dump.CSV, AllowEmptyNames: true})
	start := bytes.ToLower(bytes.TrimLeft(file, "\"\n"))
	if err != nil || f.Found().Separator != "," || bytes.HasPrefix(start, []byte("sep=")) {
		return
	}
	records, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(file, []byte("\uFEFF")))).ReadAll()
	if err != nil || len(records) == 0 {
		return
	}
	column := func(ours string) int {
		theirs, ok := f.Found().Columns[ours]
		if !ok {
			return -1
		}
		return slices.Index(records[0], theirs)
	}
	id, name, tag := column("id"), column("name"), column("tag")
	records = slices.DeleteFunc(records, func(cells []string) bool { return strings.Join(cells, "") == "" })
	if len(rows) != len(records)-1 {
		t.Fatalf("got %d rows, want %d as in encoding/csv", len(rows), len(records)-1)
	}
	for i, record := range records[1:] {
		if rows[i].Err != "" {
			continue
		}
		want := plant.Plant{Name: unguarded(record[name])}
		if tag >= 0 && record[tag] != "" {
			want.Tag = plant.Tagged(unguarded(record[tag]))
		}
		if rows[i].Plant.Plant != want {
			t.Errorf("line %d: got %v, want %v", rows[i].Line, rows[i].Plant, want)
		}
		if record[id] == "" {
			t.Errorf("line %d: an empty id is valid", rows[i].Line)
		}
	}
}

var (
	guardFirst  = regexp.MustCompile("^'('*[=+\\-@\t\r\n＝＋－＠])")
	guardInside = regexp.MustCompile("([;\t\r\n])'(['\"]*[=+\\-@＝＋－＠])")
)

// unguarded is a second implementation of unguard.
func unguarded(cell string) string {
	return guardFirst.ReplaceAllString(guardInside.ReplaceAllString(cell, "$1$2"), "$1")
}

func FuzzJSONL(f *testing.F) {
	for _, seed := range []string{
		"", rosaJSON + "\n" + bellisJSON, "\uFEFF" + rosaJSON + "\r\n\r\n \r\n{}",
		"{\n}", "[]\r\r\n" + rosaJSON, "\xff\n\x00\n\"\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		if _, err := dump.Open(t.Context(), bytes.NewReader(file), dump.Options{Format: dump.JSONL}); err != nil {
			return
		}
		rows := checkFile(t, file, dump.JSONL)
		lines := bytes.Split(bytes.TrimPrefix(file, []byte("\uFEFF")), []byte("\n"))
		n := 0
		for i, line := range lines {
			if len(bytes.Trim(line, " \t\r")) == 0 {
				continue
			}
			p, err := plant.DecodeRow(bytes.TrimSuffix(line, []byte("\r")), func([]byte) {})
			if err != nil {
				p = plant.NewPlant{}
			}
			if n >= len(rows) || rows[n].Line != int64(i+1) || rows[n].Plant != p || rows[n].Err != errorText(err) {
				t.Fatalf("line %d %q: got row %d of %v, want %v, %v", i+1, line, n, rows, p, err)
			}
			n++
		}
		if n != len(rows) {
			t.Errorf("got %d rows, want %d", len(rows), n)
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{
		"", "[]", "[" + rosaJSON + "," + bellisJSON + "]", "\uFEFF [\n{} ,\r\n[\"\\\"]\"], null]\n",
		"[1,]", "[{]}]", rosaJSON, "[{\"id\":1", "[\"\\", "[\xff\"\n\"]x",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		checkFile(t, file, dump.JSON)
		checkElements(t, file)
	})
}
