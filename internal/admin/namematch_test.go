package admin

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
)

func TestMatch(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name, part string
		want       bool
	}{
		{"Acer campestre", "", true},
		{"", "", true},
		{"", "a", false},
		{"Acer campestre", "CAMP", true},
		{"ACER CAMPESTRE", "acer campestre", true},
		{"Acer", "acer ", false},
		{"abcdefgHIJKLMNOPQ", "hijklmnopq", true},
		{"@[`{@[`{@[`{", "@[`{@[", true},
		{"@@@@@@@@", "````````", false}, // differ in the bit of the case
		{"[[[[[[[[", "{{{{{{{{", false},
		{"ÅNGERMANLAND", "ångerman", true},
		{"Straße", "STRASSE", true},
		{"STRASSE", "straße", true},
		{"ẞ", "ss", true},
		{"ΜΉΛΟΝ Σ", "μήλον ς", true}, // final sigma
		{"ЯБЛОНЯ", "блон", true},
		{"ﬁcus", "FI", true},              // ligature
		{"İstanbul", "i\u0307stan", true}, // folds to i and a combining dot
		{"ISTANBUL", "ı", false},          // the folding is not Turkish
		{"Ꭰꭰ", "ꭰᎠ", true},                // Cherokee folds to capitals
		{"𐐀 Deseret", "𐐨 dese", true},
		{"𞤀𞤁", "𞤢𞤣", true},
		{"水仙", "仙", true},
		{"水仙", "a", false},
		{"ナルキッソス", "キッ", true},
		{"قيقب", "يق", true},
		{"K", "\u212a", true},     // Kelvin sign
		{"a\u017fa", "ASA", true}, // long s
		{"e\u0301", "\u00e9", false},
		{"bad \xff\xc3 BYTES é", "\xff\xc3 bytes É", true},
		{"bad \xff", "\ufffd", false},
		{"Acer", "水", false},
		{strings.Repeat("x", 10_000) + "Y", "xY", true},
	} {
		if got := newMatcher(row.part).find([]byte(row.name)) >= 0; got != row.want {
			t.Errorf("%q in %q: got %t, want %t", row.part, row.name, got, row.want)
		}
	}
}

// The tables fold every character as package cases does, except for Cherokee, and all characters of an orbit of simple
// folding in the same way.
func TestFolding(t *testing.T) {
	t.Parallel()
	caser := cases.Fold()
	for r := range rune(utf8.MaxRune + 1) {
		if r >= 0x20000 && unicode.SimpleFold(r) == r || !utf8.ValidRune(r) {
			continue
		}
		text := []byte(string(r))
		got := foldings().appendFolded(nil, text)
		if want := caser.Bytes(text); !bytes.Equal(got, want) && !unicode.Is(unicode.Cherokee, r) {
			t.Errorf("%U: got %q, want %q", r, got, want)
		}
		if next := foldings().appendFolded(nil, []byte(string(unicode.SimpleFold(r)))); !bytes.Equal(got, next) {
			t.Errorf("%U: got %q, but %U folds to %q", r, got, unicode.SimpleFold(r), next)
		}
	}
}

func FuzzMatch(f *testing.F) {
	f.Add([]byte("Acer CAMPESTRE"), "camp")
	f.Add([]byte("Straße"), "SS")
	f.Fuzz(func(t *testing.T, name []byte, part string) {
		folding := foldings()
		want := bytes.Contains(folding.appendFolded(nil, name), folding.appendFolded(nil, []byte(part)))
		if got := newMatcher(part).find(name) >= 0; got != want {
			t.Errorf("%q in %q: got %t, want %t", part, name, got, want)
		}
	})
}

func TestMatchDoesNotAllocate(t *testing.T) { //nolint:paralleltest // counts the allocations of all goroutines
	m := newMatcher("campestre")
	for _, name := range []string{"Acer campestre L.", "Ácer Campéstre", "水仙"} {
		text := []byte(name)
		m.find(text)
		if n := testing.AllocsPerRun(100, func() { m.find(text) }); n != 0 {
			t.Errorf("%s: %v allocations, want 0", name, n)
		}
	}
}

func BenchmarkMatch(b *testing.B) {
	for _, name := range []string{
		"Abolboda abbreviata Malme var. minor", "Ábolboda abbreviáta Málme", "Яблоня домашняя обыкновенная",
	} {
		b.Run(name, func(b *testing.B) {
			m, text := newMatcher("campestre"), []byte(name)
			for b.Loop() {
				m.find(text)
			}
		})
	}
}
