package plant_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"plantstore/internal/plant"
)

// FuzzDecodeStrict compares Decode with jsontext, which is equally strict. Both must accept the same bodies and parse
// the same plants.
func FuzzDecodeStrict(f *testing.F) {
	for _, seed := range bodies {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, err := plant.Decode(body)
		want, ok := decodeByJSONText(t, body)
		if ok != (err == nil) || got != want {
			t.Errorf("Decode(%q) = %v, %v; jsontext: %v, %t", body, got, err, want, ok)
		}
	})
}

// decodeByJSONText implements the rules of Decode with jsontext, which itself refuses duplicate names, invalid UTF-8
// and unpaired surrogates.
func decodeByJSONText(t *testing.T, body []byte) (plant.NewPlant, bool) {
	if v := jsontext.Value(body); !v.IsValid() || v.Kind() != '{' || depth(body) > 64 {
		return plant.NewPlant{}, false
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		t.Errorf("jsontext accepts %q, encoding/json does not: %v", body, err)
		return plant.NewPlant{}, false
	}
	id, idOK := exactInteger(string(members["id"]))
	name, nameOK := textWithoutNUL(members["name"])
	want := named(id, name)
	if raw, ok := members["tag"]; ok {
		tag, tagOK := textWithoutNUL(raw)
		want.Tag = plant.Tagged(tag)
		nameOK = nameOK && tagOK
	}
	if !idOK || !nameOK {
		return plant.NewPlant{}, false
	}
	return want, true
}

func textWithoutNUL(raw json.RawMessage) (string, bool) {
	text, err := jsontext.AppendUnquote(nil, raw)
	return string(text), err == nil && !slices.Contains(text, 0)
}

// depth returns the nesting depth of valid JSON.
func depth(body []byte) int {
	decoder := jsontext.NewDecoder(strings.NewReader(string(body)))
	deepest := 0
	for {
		if _, err := decoder.ReadToken(); err != nil {
			return deepest
		}
		deepest = max(deepest, decoder.StackDepth())
	}
}
