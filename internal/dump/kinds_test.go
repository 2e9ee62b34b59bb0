package dump_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plantstore/internal/dump"
)

// The files in testdata have the forms that spreadsheets and programs write.
func TestKindsOfFiles(t *testing.T) {
	t.Parallel()
	const table = "UTF-8, comma-separated, columns id, name, tag"
	for name, want := range map[string]struct {
		found   string
		plants  int
		first   string // the first plant as JSON
		invalid string // place and reason of the only invalid row
	}{
		"01-header-Tag.csv":    {table, 2, `{"id":1,"name":"Rosa canina","tag":"shrub"}`, ""},
		"01c-member-Tag.jsonl": {"UTF-8, JSON Lines; ignored: Tag in 1 row", 1, `{"id":4,"name":"Tilia cordata"}`, ""},
		"02-unclosed-quote.csv": {
			table, 5, `{"id":2,"name":"Acer campestre","tag":"tree"}`,
			"line 2: column 2 (name) has an opening quote without a closing quote",
		},
		"03c-latin1.jsonl":       {"UTF-8, JSON Lines", 0, "", "line 1: the row must be UTF-8; got 0xE9 at byte 22"},
		"04-python-cp1252.jsonl": {"UTF-8, JSON Lines", 1, `{"id":6008,"name":"café"}`, ""},
		"05-utf16le.csv": {
			"UTF-16LE, comma-separated, columns id, name, tag", 1,
			`{"id":1,"name":"Rosa canina","tag":"shrub"}`, "",
		},
		"05b-utf16le-tabs.csv": {
			"UTF-16LE, tab-separated, columns id, name, tag", 1,
			`{"id":1,"name":"Rosa canina","tag":"shrub"}`, "",
		},
		"06-excel-fewer-cells.csv": {table, 3, `{"id":1,"name":"Rosa canina","tag":"shrub"}`, ""},
		"06b-excel-blank-rows.csv": {table, 1, `{"id":1,"name":"Rosa canina","tag":"shrub"}`, ""},
		"07-cr-only.csv":           {table, 2, `{"id":1,"name":"Rosa canina","tag":"shrub"}`, ""},
		"08-one-line-array.json": {
			"UTF-8, JSON array", 999, `{"id":1,"name":"n1","tag":"t"}`,
			"element 500 (line 1): id 500: tag must be a string; got null",
		},
		"09-tabs.csv": {
			"UTF-8, tab-separated, columns id, name, tag", 1,
			`{"id":1,"name":"Rosa, canina","tag":"shrub"}`, "",
		},
		"09c-sep.csv": {
			"UTF-8, semicolon-separated, columns id, name, tag", 1,
			`{"id":1,"name":"Rosa canina","tag":"shrub"}`, "",
		},
		"10-nfc-nfd.csv": {table, 4, `{"id":1,"name":"Rosé","tag":"x"}`, ""},
		"12-other-column-names.csv": {"line 1: the header has no columns id and name; " +
			"the columns are plant_id, common_name, harvest_type", 0, "", ""},
		"13-pandas-float-ids.csv": {"UTF-8, comma-separated, columns id, name", 2, `{"id":1,"name":"Rosa canina"}`, ""},
		"14-export-without-bom.jsonl": {
			"UTF-8, JSON Lines", 1,
			`{"id":9007199254740993,"name":"Weiße Rose"}`, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, err := os.ReadFile(filepath.Join("testdata", "kinds", name))
			if err != nil {
				t.Fatal(err)
			}
			var plants, invalid []string
			found := ""
			format, _, _ := dump.DetectPath(name)
			if f, err := dump.Open(t.Context(), strings.NewReader(string(file)), dump.Options{Format: format}); err != nil {
				found = err.Error()
			} else {
				defer f.Close()
				for row, err := range f.Rows() {
					switch {
					case err != nil:
						t.Error(err)
					case row.Err != nil:
						invalid = append(invalid, fmt.Sprintf("%s: %v", row.Place, row.Err))
					default:
						plants = append(plants, string(row.Plant.AppendJSON(nil)))
					}
				}
				found = f.Found().String()
			}
			if found != want.found || len(plants) != want.plants || strings.Join(invalid, "\n") != want.invalid ||
				want.plants > 0 && plants[0] != want.first {
				t.Errorf("got %s, %d plants such as %.100q, %q", found, len(plants), plants, invalid)
			}
		})
	}
}
