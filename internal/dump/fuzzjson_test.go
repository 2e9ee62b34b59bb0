package dump_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"plantstore/internal/dump"
	"plantstore/internal/plant"
)

// checkElements compares the elements of an array with the elements that encoding/json finds.
func checkElements(t *testing.T, file []byte) {
	rows, failure := read(bytes.NewReader(file), dump.JSON)
	var elements []json.RawMessage
	if json.Unmarshal(bytes.TrimPrefix(file, []byte("\uFEFF")), &elements) != nil || elements == nil {
		return
	}
	if failure != "" || len(rows) != len(elements) {
		t.Fatalf("got %d elements, %q; want %d", len(rows), failure, len(elements))
	}
	for i, element := range elements {
		p, err := plant.DecodeRow(element, func([]byte) {})
		if err != nil && p.ID != 0 {
			err = fmt.Errorf("id %d: %w", p.ID, err)
		}
		if err != nil {
			p = plant.NewPlant{}
		}
		if rows[i].Raw != string(element) || rows[i].Plant != p || rows[i].Err != errorText(err) {
			t.Errorf("element %d %q: got %v, want %v, %v", i, element, rows[i], p, err)
		}
	}
}
