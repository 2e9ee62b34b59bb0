package dump_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/dump"
)

// Look shows the first rows of any file, and the likely columns of one that Open refuses.
func TestLook(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		file    string
		columns map[string]string
		rows    [][]string
	}{
		"known columns": {
			"id,name,family\n1,Rosa,Rosaceae\n,,\n2\n3,Acer,\n",
			map[string]string{"id": "id", "name": "name"},
			[][]string{{"1", "Rosa", "Rosaceae"}, {"2"}},
		},
		"other columns": {
			"plant_id;Scientific name\n1;Rosa\n",
			map[string]string{"id": "plant_id", "name": "Scientific name"},
			[][]string{{"1", "Rosa"}},
		},
		"other encoding": {"id,name\n1,S\xe4\n", map[string]string{"id": "id", "name": "name"}, [][]string{{"1", "S\xe4"}}},
		"JSON Lines": {
			"{\"id\":1,\"name\":\"Rosa\",\"tag\":\"shrub\"}\n{\"id\":2,\"name\":\"Acer\"}\n{", nil,
			[][]string{{"1", "Rosa", "shrub"}, {"2", "Acer", ""}},
		},
		"invalid JSON": {"{\"id\":1}\n", nil, [][]string{{"", "name is missing; add a string", ""}}},
		"no rows":      {"id,name\n", map[string]string{"id": "id", "name": "name"}, nil},
	} {
		head, err := dump.Look(t.Context(), strings.NewReader(row.file), dump.Options{}, 2)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(row.columns, head.Found.Columns); diff != "" {
			t.Errorf("%s: columns (-want +got)\n%s", name, diff)
		}
		if len(head.Rows) > 0 || len(row.rows) > 0 {
			if diff := cmp.Diff(row.rows, head.Rows); diff != "" {
				t.Errorf("%s: rows (-want +got)\n%s", name, diff)
			}
		}
	}
	if _, err := dump.Look(t.Context(), strings.NewReader("PK\x03\x04"), dump.Options{}, 2); err == nil {
		t.Error("an archive has columns")
	}
	if _, err := dump.Look(t.Context(), strings.NewReader("id,name\n"), dump.Options{Encoding: "x"}, 2); err == nil {
		t.Error("an unknown encoding was accepted")
	}
}
