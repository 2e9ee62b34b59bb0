package terminal

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"plantstore/internal/plant"
)

func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                       "",
		"Rosa × alba 'Semi'":     "Rosa × alba 'Semi'",
		`a\b "c"`:                `a\b "c"`,
		"a\nb\r\tc\x00":          `a\nb\r\tc\x00`,
		"\x1b]0;title\a":         `\x1b]0;title\a`,
		"\x7f\u0080\u009b\u009f": `\x7f\u0080\u009b\u009f`,
		"\u00a0é":                "\u00a0é",
		"\u2028\u2029":           `\u2028\u2029`,
		"\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e": `\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e`,
		"\u2066\u2067\u2068\u2069":                         `\u2066\u2067\u2068\u2069`,
		"\u00ad\u200b\u2060\ufeff\ufff9":                   `\u00ad\u200b\u2060\ufeff\ufff9`,
		"\U000e0001\U000e0041":                             `\U000e0001\U000e0041`, // letters that no font shows
		"می\u200cخواهم क्\u200dष":                          "می\u200cخواهم क्\u200dष",
		"👩\u200d🌾 ❤\ufe0f \u0600١":                         "👩\u200d🌾 ❤\ufe0f \u0600١",
		"\xff\x9b\xe2\x80":                                 `\xff\x9b\xe2\x80`,
		"\ufffd":                                           "\ufffd",
	} {
		if got := Printable(in); got != want {
			t.Errorf("%+q: got %+q, want %+q", in, got, want)
		}
	}
}

// Escaped JSON has no control characters and the same value.
func TestEscapeJSON(t *testing.T) {
	t.Parallel()
	in := "{\"a\":\"\u009b\x7f😀\U000e0041\xff\"}\n[]\n"
	want := `{"a":"\u009b\u007f😀\udb40\udc41\ufffd"}` + "\n[]\n"
	if got := string(EscapeJSON([]byte(in))); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		runes := rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("\n\x1b\x7f\u009b\u202e\u2028\U000e0041")))
		want := rapid.StringOf(runes).Draw(t, "text")
		line := EscapeJSON(append(plant.AppendString(nil, want), '\n'))
		got := ""
		if err := json.Unmarshal(line, &got); err != nil || got != want {
			t.Fatalf("%+q is written as %s and read as %+q, %v", want, line, got, err)
		}
		shown := strings.TrimSuffix(string(line), "\n")
		if strings.ContainsFunc(shown, unicode.IsControl) || strings.ContainsFunc(Printable(want), isControl) ||
			!utf8.ValidString(shown) {
			t.Fatalf("%+q is written as %+q, and for a terminal as %+q", want, line, Printable(want))
		}
	})
}

// A character may be split between two writes.
func TestTerminalWriter(t *testing.T) {
	t.Parallel()
	text := "\uFEFFé\uFEFF\u009b\u202e😀\U000e0041\t\r\n\x1b[\xff\xe2\x80."
	const want = "é\\ufeff\\u009b\\u202e😀\\udb40\\udc41\t\r\n\\u001b[\\ufffd\\ufffd\\ufffd."
	for size := 1; size <= len(text); size++ {
		var shown bytes.Buffer
		s := &Writer{To: &shown}
		for piece := range slices.Chunk([]byte(text), size) {
			if n, err := s.Write(piece); n != len(piece) || err != nil {
				t.Fatalf("pieces of %d: %d, %v", size, n, err)
			}
		}
		if got := shown.String(); got != want {
			t.Errorf("pieces of %d: got %q, want %q", size, got, want)
		}
	}
}
