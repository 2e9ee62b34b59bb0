package plant_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plantstore/internal/plant"
)

func TestAppendJSON(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		in       plant.NewPlant
		newPlant string
		plant    string
	}{
		{"no tag", named(1, "Rosa"), `{"id":1,"name":"Rosa"}`, `{"name":"Rosa"}`},
		{"tag", tagged(-1, "Rosa", "shrub"), `{"id":-1,"name":"Rosa","tag":"shrub"}`, `{"name":"Rosa","tag":"shrub"}`},
		{"empty tag", tagged(0, "", ""), `{"id":0,"name":"","tag":""}`, `{"name":"","tag":""}`},
		{"largest id", named(math.MaxInt64, "a"), `{"id":9223372036854775807,"name":"a"}`, `{"name":"a"}`},
		{"smallest id", named(math.MinInt64, "a"), `{"id":-9223372036854775808,"name":"a"}`, `{"name":"a"}`},
		{
			"escapes", tagged(1, "\"\\/\n", "\t\r"), `{"id":1,"name":"\"\\/\n","tag":"\t\r"}`,
			`{"name":"\"\\/\n","tag":"\t\r"}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := string(tt.in.AppendJSON([]byte("> "))); got != "> "+tt.newPlant {
				t.Errorf("NewPlant: got %s, want > %s", got, tt.newPlant)
			}
			if got := string(tt.in.Plant.AppendJSON([]byte("> "))); got != "> "+tt.plant {
				t.Errorf("Plant: got %s, want > %s", got, tt.plant)
			}
		})
	}
}

func TestAppendString(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"", `""`},
		{"Rosa canina L.", `"Rosa canina L."`},
		{`"`, `"\""`},
		{`a\"b`, `"a\\\"b"`},
		{"\n\r\t", `"\n\r\t"`},
		{"\x00\x01\b\f\x1f", `"\u0000\u0001\b\f\u001f"`},
		{"a\x1fb", `"a\u001fb"`},
		{" /<>&'\x7f", "\" /<>&'\x7f\""},
		{"é\u2028\u2029\uFFFD😀", "\"é\u2028\u2029\uFFFD😀\""},
	} {
		if got := string(plant.AppendString([]byte(">"), tt.in)); got != ">"+tt.want {
			t.Errorf("AppendString(%q) = %s, want >%s", tt.in, got, tt.want)
		}
	}
}

// anyText draws UTF-8 without U+0000, with many characters that JSON escapes.
func anyText() *rapid.Generator[string] {
	special := []string{"\"", "\\", "\n", "\x01", "\x1f", "\x7f", "\u2028", "\uFEFF", "\uFFFD", "😀", "\\u0041", "é"}
	part := rapid.OneOf(rapid.SampledFrom(special),
		rapid.Map(rapid.String(), func(s string) string {
			return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD")
		}))
	return rapid.Map(rapid.SliceOfN(part, 0, 6), func(parts []string) string { return strings.Join(parts, "") })
}

func TestEncodedIsDecoded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := named(rapid.Int64().Draw(t, "id"), anyText().Draw(t, "name"))
		if rapid.Bool().Draw(t, "has a tag") {
			want.Tag = plant.Tagged(anyText().Draw(t, "tag"))
		}
		body := want.AppendJSON(nil)
		if got, err := plant.Decode(body); err != nil || got != want {
			t.Fatalf("Decode(%q) = %v, %v; want %v", body, got, err, want)
		}
		answer := want.Plant.AppendJSON(nil)
		var members map[string]string
		if err := json.Unmarshal(answer, &members); err != nil {
			t.Fatalf("%q: %v", answer, err)
		}
		tag, hasTag := want.Tag.Get()
		gotTag, gotHasTag := members["tag"]
		if members["name"] != want.Name || gotTag != tag || gotHasTag != hasTag || len(members) > 2 {
			t.Fatalf("encoding/json reads %v from %q, want %v", members, answer, want.Plant)
		}
	})
}

func TestAppendStringIsJSON(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.OneOf(anyText(), rapid.Just("\x00")).Draw(t, "text")
		var got string
		if err := json.Unmarshal(plant.AppendString(nil, want), &got); err != nil || got != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	})
}

func TestAppendRecord(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 9, 30, 0, 123456000, time.UTC)
	tulip := plant.NewPlant{ID: 7, Plant: plant.Plant{Name: "Tulipa", Tag: plant.Tagged("")}}
	for want, r := range map[string]plant.Record{
		`x{"id":7,"name":"Tulipa","tag":"","created_at":"2026-11-21T09:30:00.123456Z","created_by":"a\"b"}`: {
			NewPlant: tulip, CreatedAt: at, CreatedBy: `a"b`,
		},
		`x{"id":0,"name":"","created_at":"2026-11-21T09:30:00Z"}`: {CreatedAt: at.Truncate(time.Second)},
		`x{"id":-7,"damaged":true}`:                               {NewPlant: plant.NewPlant{ID: -7}, Damaged: true},
	} {
		if got := string(r.AppendJSON([]byte("x"))); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		var back plant.Record
		if err := json.Unmarshal([]byte(want[1:]), &back); err != nil || back != r {
			t.Errorf("%s: got %+v, %v", want, back, err)
		}
	}
}
