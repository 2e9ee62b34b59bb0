package dump_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/text/encoding/unicode"

	"plantstore/internal/dump"
)

// open opens a file, and returns what Open has found, its rows and the failure.
func open(file string, o dump.Options) (found string, rows []row, failure string) {
	o.RowMax, o.PlantMax = rowBytesMax, plantBytesMax
	f, err := dump.Open(context.Background(), iotest.OneByteReader(strings.NewReader(file)), o)
	if err != nil {
		return "", nil, err.Error()
	}
	defer f.Close()
	for got, err := range f.Rows() {
		if err != nil {
			return f.Found().String(), rows, err.Error()
		}
		rows = append(rows, row{Line: got.Line, Raw: string(got.Raw), Plant: got.Plant, Err: errorText(got.Err)})
	}
	return f.Found().String(), rows, ""
}

func utf16(t *testing.T, text string, order unicode.Endianness, mark unicode.BOMPolicy) string {
	t.Helper()
	encoded, err := unicode.UTF16(order, mark).NewEncoder().String(text)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func zipped(text string) string {
	var file bytes.Buffer
	w := gzip.NewWriter(&file)
	_, _ = w.Write([]byte(text)) // a buffer accepts everything
	_ = w.Close()
	return file.String()
}

// Open finds out the encoding, the separator, the line end and the columns.
func TestOpen(t *testing.T) {
	t.Parallel()
	const text = "id,name,tag\r\n1,Rosé,shrub\r\n"
	tabs := strings.ReplaceAll(text, ",", "\t")
	rose := tagged(1, "Rosé", "shrub")
	for _, tt := range []struct{ name, in, found string }{
		{"comma", text, "UTF-8, comma-separated, columns id, name, tag"},
		{"semicolon", strings.ReplaceAll(text, ",", ";"), "UTF-8, semicolon-separated, columns id, name, tag"},
		{"tab", tabs, "UTF-8, tab-separated, columns id, name, tag"},
		{"pipe", strings.ReplaceAll(text, ",", "|"), "UTF-8, pipe-separated, columns id, name, tag"},
		{
			"more commas than semicolons", "id;name;tag;a,b,c,d\n1;Rosé;shrub\n",
			`UTF-8, semicolon-separated, columns id, name, tag; ignored: "a,b,c,d"`,
		},
		{
			"line of Excel", "sep=;\r\nid;name,;name;tag\n1;;Rosé;shrub\n",
			`UTF-8, semicolon-separated, columns id, name, tag; ignored: "name,"`,
		},
		{
			"line of Excel in quotes", "\n\"SEP=|\"\nid|name|tag\n1|Rosé|shrub\n",
			"UTF-8, pipe-separated, columns id, name, tag",
		},
		{"CR", "\rid,name,tag\r1,Rosé,shrub\r", "UTF-8, comma-separated, columns id, name, tag"},
		{"byte order mark", "\uFEFF" + text, "UTF-8, comma-separated, columns id, name, tag"},
		{"UTF-16LE", utf16(t, tabs, unicode.LittleEndian, unicode.UseBOM), "UTF-16LE, tab-separated, columns id, name, tag"},
		{"UTF-16BE", utf16(t, text, unicode.BigEndian, unicode.UseBOM), "UTF-16BE, comma-separated, columns id, name, tag"},
		{
			"UTF-16LE without a mark", utf16(t, text, unicode.LittleEndian, unicode.IgnoreBOM),
			"UTF-16LE, comma-separated, columns id, name, tag",
		},
		{
			"UTF-16BE without a mark", utf16(t, tabs, unicode.BigEndian, unicode.IgnoreBOM),
			"UTF-16BE, tab-separated, columns id, name, tag",
		},
		{"gzip", zipped(text), "gzip, UTF-8, comma-separated, columns id, name, tag"},
		{
			"gzip in parts, with zeros", zipped(text[:20]) + zipped(text[20:]) + strings.Repeat("\x00", 1000),
			"gzip, UTF-8, comma-separated, columns id, name, tag",
		},
		{"case, blanks", "ID , Name,\uFEFFtag\u00a0\n1,Rosé,shrub\n", "UTF-8, comma-separated, columns id, name, tag"},
		{
			"the very names first", "ID,Tag,id,NAME,tag\n,,1,Rosé,shrub\n",
			"UTF-8, comma-separated, columns id, name, tag; ignored: ID, Tag",
		},
		{"JSON Lines", `{"id":1,"name":"Rosé","tag":"shrub"}`, "UTF-8, JSON Lines"},
		{"array", `[{"id":1,"name":"Rosé","tag":"shrub"}]`, "UTF-8, JSON array"},
		{
			"JSON in UTF-16", utf16(t, `[{"id":1,"name":"Rosé","tag":"shrub"}]`, unicode.LittleEndian, unicode.UseBOM),
			"UTF-16LE, JSON array",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			found, rows, failure := open(tt.in, dump.Options{})
			if found != tt.found || len(rows) != 1 || rows[0].Plant != rose || rows[0].Err != "" || failure != "" {
				t.Errorf("got %s and %+v, %s; want %s", found, rows, failure, tt.found)
			}
		})
	}
}

// The number is the start of printf A1 | sha256sum, without the lowest bit.
func TestOpenWithOptions(t *testing.T) {
	t.Parallel()
	with := func(columns ...string) (o dump.Options) {
		for _, column := range columns {
			if err := o.SetColumn(column); err != nil {
				t.Fatal(err)
			}
		}
		return o
	}
	const theirs = "plant_id;Scientific Name;family\n7;Rosa canina;Rosaceae\n"
	for _, tt := range []struct {
		name, in, found string
		options         dump.Options
		want            row
	}{
		{
			"columns", theirs, "UTF-8, semicolon-separated, columns id (plant_id), name (Scientific Name), tag (family)",
			with("id=plant_id", "name=scientific name", "tag=family"),
			row{Plant: tagged(7, "Rosa canina", "Rosaceae")},
		},
		{
			"no tag", "id,name,tag\n1,Rosa,shrub\n", "UTF-8, comma-separated, columns id, name; ignored: tag", with("tag="),
			row{Plant: named(1, "Rosa")},
		},
		{
			"windows-1252", "id,name\n1,Ros\xe9 \x80\n", "windows-1252, comma-separated, columns id, name",
			dump.Options{Encoding: "windows-1252"},
			row{Plant: named(1, "Rosé €")},
		},
		{
			"undefined in windows-1252", "id,name\n1,Ros\x81\n", "windows-1252, comma-separated, columns id, name",
			dump.Options{Encoding: "windows-1252"},
			row{Err: "\"Ros\uFFFD\" has bytes without a meaning in the encoding of the file; choose another encoding"},
		},
		{
			"half a surrogate in UTF-16", "\xff\xfe[\x00{\x00\"\x00i\x00d\x00\"\x00:\x001\x00,\x00" +
				"\"\x00n\x00a\x00m\x00e\x00\"\x00:\x00\"\x00\x00\xd8\"\x00}\x00]\x00", "UTF-16LE, JSON array",
			dump.Options{},
			row{Err: "\"\uFFFD\" has bytes without a meaning in the encoding of the file; choose another encoding"},
		},
		{
			"no name", "id,name\n1,\n", "UTF-8, comma-separated, columns id, name",
			dump.Options{},
			row{Err: "name is an empty cell; fill it in, or allow empty names"},
		},
		{
			"empty name", "id,name\n1,\n", "UTF-8, comma-separated, columns id, name",
			dump.Options{AllowEmptyNames: true},
			row{Plant: named(1, "")},
		},
		{
			"numbers", "id,name\nA1,Rosa\n", "UTF-8, comma-separated, columns id (numbers from -5), name; ignored: id",
			dump.Options{NumberFrom: new(int64(-5))},
			row{Plant: named(-5, "Rosa")},
		},
		{
			"id from a code", "code,name\nA1,Rosa\n", "UTF-8, comma-separated, columns id (made from code), name",
			dump.Options{IDFrom: []string{"code"}},
			row{Plant: named(815634507993410282, "Rosa")},
		},
		{
			"id from texts", "genus,species,name\nRosa,,R\n",
			"UTF-8, comma-separated, columns id (made from genus, species), name",
			dump.Options{IDFrom: []string{"genus", "Species"}},
			row{Plant: named(sha63("Rosa\x00"), "R")},
		},
		{
			"id from empty cells", "genus,species,name\n,,R\n",
			"UTF-8, comma-separated, columns id (made from genus, species), name",
			dump.Options{IDFrom: []string{"genus", "Species"}},
			row{Err: "the cells that make the id are empty; fill in one of them"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			found, rows, failure := open(tt.in, tt.options)
			if len(rows) != 1 || failure != "" {
				t.Fatalf("got %+v, %s", rows, failure)
			}
			rows[0].Raw, rows[0].Line = "", 0
			if diff := cmp.Diff(tt.want, rows[0], equalTags); diff != "" || found != tt.found {
				t.Errorf("got %s, want %s; row (-want +got):\n%s", found, tt.found, diff)
			}
		})
	}
}

// sha63 returns the id that is made from a text.
func sha63(text string) int64 {
	sum := sha256.Sum256([]byte(text))
	return int64(binary.BigEndian.Uint64(sum[:]) >> 1)
}

// A refused header lists the columns and has the likely choice.
func TestHeaderError(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, in, reason, likely string }{
		{
			"other names", "plant_id,common_name,type\n1,Tomato,Vegetable\n", "the header has no columns id and name",
			`{"columns":{"id":"plant_id","name":"common_name"}}`,
		},
		{
			"scientific before common", "Common Name;Scientific_Name;OBJECTID\nDog rose;Rosa canina;4\n",
			"the header has no columns id and name", `{"columns":{"id":"OBJECTID","name":"Scientific_Name"}}`,
		},
		{
			"codes", "accession,taxon\nA-1,Rosa canina\nA-2,Rosa canina\n", "the header has no columns id and name",
			`{"columns":{"name":"taxon"},"id_from":["accession"]}`,
		},
		{
			"nothing for an id", "species,count\nRosa canina,4\nRosa canina,4\n", "the header has no columns id and name",
			`{"columns":{"name":"species"},"number_from":1}`,
		},
		{
			"id twice in the rows", "plant_id,name\n1,Rosa\n1,Acer\n", "the header has no column id",
			`{"columns":{"name":"name"},"number_from":1}`,
		},
		{
			"numbers are no names", "species,id,species_name\n1,2,Rosa\n", "the header has no column name",
			`{"columns":{"id":"id","name":"species_name"}}`,
		},
		{
			"tags", "id,name,Tags\n1,Rosa,shrub\n", `the header has no column tag, but "Tags"`,
			`{"columns":{"id":"id","name":"name","tag":"Tags"}}`,
		},
		{
			"codes as id", "id,species\na-1,Rosa\n", "the header has no column name",
			`{"columns":{"name":"species"},"id_from":["id"]}`,
		},
		{
			"windows-1252", "plant_id,name\n1,Ros\xe9\n", "the header has no column id",
			`{"encoding":"windows-1252","columns":{"id":"plant_id","name":"name"}}`,
		},
		{"no rows", "key|title\n", "the header has no columns id and name", `{"columns":{"id":"key","name":"title"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := dump.Open(t.Context(), strings.NewReader(tt.in), dump.Options{})
			refused, ok := errors.AsType[*dump.HeaderError](err)
			if !ok {
				t.Fatalf("got %v", err)
			}
			likely, err := json.Marshal(refused.Likely)
			if refused.Reason != tt.reason || string(likely) != tt.likely || err != nil {
				t.Errorf("got %s, %s, %v; want %s, %s", refused.Reason, likely, err, tt.reason, tt.likely)
			}
		})
	}
}

func TestOptionsCheck(t *testing.T) {
	t.Parallel()
	for _, column := range []string{"", "name", "Name=x", "x=y"} {
		if err := new(dump.Options).SetColumn(column); err == nil {
			t.Errorf("SetColumn(%q): got no error", column)
		}
	}
	number := int64(1)
	for _, o := range []dump.Options{
		{Encoding: "latin2"},
		{Columns: map[string]string{"id": ""}},
		{Columns: map[string]string{"name": ""}},
		{IDFrom: []string{"a", ""}},
		{Columns: map[string]string{"id": "a"}, IDFrom: []string{"b"}},
		{Columns: map[string]string{"id": "a"}, NumberFrom: &number},
		{IDFrom: []string{"a"}, NumberFrom: &number},
	} {
		if _, err := dump.Open(t.Context(), strings.NewReader("id,name\n"), o); err == nil {
			t.Errorf("%+v: got no error", o)
		}
	}
}
