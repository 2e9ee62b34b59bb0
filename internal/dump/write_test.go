package dump_test

import (
	"bytes"
	"testing"

	"plantstore/internal/dump"
	"plantstore/internal/plant"
)

// csvHead is the start of every CSV file that a Writer writes.
const csvHead = "\uFEFFid,name,tag\r\n"

func TestWriteFormats(t *testing.T) {
	t.Parallel()
	plants := []plant.NewPlant{tagged(-1, "Rosa", "shrub"), named(2, "a\nb"), tagged(3, "", "")}
	const lines = `{"id":-1,"name":"Rosa","tag":"shrub"}` + "\n" + `{"id":2,"name":"a\nb"}` + "\n" +
		`{"id":3,"name":"","tag":""}` + "\n"
	for _, tt := range []struct {
		format      dump.Format
		empty, want string
	}{
		{dump.CSV, csvHead, csvHead + "-1,Rosa,shrub\r\n2,\"a\nb\",\r\n3,,\r\n"},
		{dump.JSONL, "", lines},
		{
			dump.JSON, "[]\n",
			"[\n" + `{"id":-1,"name":"Rosa","tag":"shrub"}` + ",\n" + `{"id":2,"name":"a\nb"}` + ",\n" +
				`{"id":3,"name":"","tag":""}` + "\n]\n",
		},
	} {
		if got := string(write(t, tt.format, dump.None, nil)); got != tt.empty {
			t.Errorf("%s of nothing: got %q, want %q", tt.format, got, tt.empty)
		}
		if got := string(write(t, tt.format, dump.None, plants)); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.format, got, tt.want)
		}
	}
}

func TestWriteCSVCells(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, text, want string }{
		{"plain", "Rosa canina L.", "Rosa canina L."},
		{"empty", "", ""},
		{"comma", "Rosa, L.", `"Rosa, L."`},
		{"quotes", `"Rosa" "`, `"""Rosa"" """`},
		{"quote only", `"`, `""""`},
		{"LF", "a\nb", "\"a\nb\""},
		{"CR", "a\rb", "\"a\rb\""},
		{"space before", " Rosa", `" Rosa"`},
		{"space after", "Rosa ", `"Rosa "`},
		{"space only", " ", `" "`},
		{"TAB inside", "a\tb", "a\tb"},
		{"semicolon", "a;b", "a;b"},
		{"apostrophe", "'", "'"},
		{"apostrophe before a letter", "'a", "'a"},
		{"equals sign inside", "a=b", "a=b"},
		{"equals sign", "=1", "'=1"},
		{"plus", "+1", "'+1"},
		{"minus", "-1", "'-1"},
		{"at sign", "@a", "'@a"},
		{"TAB", "\ta", "'\ta"},
		{"CR before", "\ra", "\"'\ra\""},
		{"LF before", "\na", "\"'\na\""},
		{"full-width equals sign", "＝1", "'＝1"},
		{"full-width plus", "＋1", "'＋1"},
		{"full-width minus", "－1", "'－1"},
		{"full-width at sign", "＠a", "'＠a"},
		{"other full-width character", "Ａ=", "Ａ="},
		{"one character", "=", "'="},
		{"apostrophe and equals sign", "'=1", "''=1"},
		{"apostrophes and equals sign", "'''=1", "''''=1"},
		{"apostrophe, space, equals sign", "' =1", "' =1"},
		{"after a semicolon", "a;=1;b", "a;'=1;b"},
		{"after several semicolons", ";;+1;'-1", ";;'+1;''-1"},
		{"after a TAB", "a\t@b", "a\t'@b"},
		{"after a TAB that is first", "\t=1", "'\t'=1"},
		{"after line ends", "a\r\n=1\n＋2\r-3", "\"a\r\n'=1\n'＋2\r'-3\""},
		{"after a semicolon and a quote", "a;\"=1+1", "\"a;'\"\"=1+1\""},
		{"after a semicolon, apostrophe and quote", "a;'\"=1", "\"a;''\"\"=1\""},
		{"after a semicolon and a letter", "a;b=1;'c;", "a;b=1;'c;"},
		{"after a comma", "a,=1", "\"a,=1\""},
		{"formula with quotes", `=HYPERLINK("a","b")`, `"'=HYPERLINK(""a"",""b"")"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := tagged(1, tt.text, tt.text)
			file := write(t, dump.CSV, dump.None, []plant.NewPlant{p})
			if want := csvHead + "1," + tt.want + "," + tt.want + "\r\n"; string(file) != want {
				t.Errorf("got %q, want %q", file, want)
			}
			if tt.text == "" {
				p = named(1, "")
			}
			if got := mustRead(t, bytes.NewReader(file), dump.CSV); len(got) != 1 || got[0] != p {
				t.Errorf("read back: got %v, want %v", got, p)
			}
		})
	}
}

// Other programs write apostrophes too; Read removes only one before a formula.
func TestReadApostrophes(t *testing.T) {
	t.Parallel()
	for cell, want := range map[string]string{
		"'": "'", "''": "''", "'a": "'a", "''a": "''a", "' =": "' =", "a'=": "a'=", "\"'\"": "'",
		"'=": "=", "''=": "'=", "=": "=", "-a": "-a", "\"'\n\"": "\n", "'＠": "＠", "a;'=": "a;=", "a;''=": "a;'=",
		"';'=": "';=", "a;'b": "a;'b", "a\t'": "a\t'", "a'=;": "a'=;", "'\xef\xbc": "",
	} {
		for row, err := range rowsOf(bytes.NewReader([]byte("id,name\n1,"+cell)), dump.CSV) {
			if err != nil || row.Plant.Name != want || (row.Err != nil) != (cell == "'\xef\xbc") {
				t.Errorf("%q: got %q, %v, %v, want %q", cell, row.Plant.Name, row.Err, err, want)
			}
		}
	}
}

func TestEmptyTagsLost(t *testing.T) {
	t.Parallel()
	for _, format := range formats {
		w, err := dump.NewWriter(&bytes.Buffer{}, format, dump.None)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []plant.NewPlant{tagged(1, "a", ""), named(2, "b"), tagged(3, "c", ""), tagged(4, "d", "e")} {
			if err := w.Write(p); err != nil {
				t.Fatal(err)
			}
		}
		want := map[dump.Format]int64{dump.CSV: 2}[format]
		if got := w.EmptyTagsLost(); got != want {
			t.Errorf("%s: got %d, want %d", format, got, want)
		}
	}
}
