package admin

import (
	"bytes"
	"encoding/binary"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
)

// matcher finds a part in names by full case folding (Unicode Standard, section 3.13,
// definition D144). It does not normalize: a letter with a combining accent differs from
// the composed letter. One goroutine at a time may use it.
type matcher struct {
	part    []byte // folded
	ascii   bool   // part is ASCII
	folding *folding
	scratch []byte // a folded name; match does not allocate once it is large enough
}

func newMatcher(part string) *matcher {
	m := &matcher{folding: foldings()}
	m.part = m.folding.appendFolded(nil, []byte(part))
	m.ascii = utf8.RuneCount(m.part) == len(m.part)
	return m
}

// match reports whether the name has the part.
func (m *matcher) match(name []byte) bool {
	if len(m.part) == 0 {
		return true
	}
	var isASCII bool
	if m.scratch, isASCII = appendLower(m.scratch[:0], name); !isASCII {
		m.scratch = m.folding.appendFolded(m.scratch[:0], name)
	} else if !m.ascii {
		return false
	}
	return bytes.Contains(m.scratch, m.part)
}

// appendLower appends an ASCII text in lower case, eight bytes at a time. For another
// text it returns false, and dst has any content.
func appendLower(dst, text []byte) (_ []byte, isASCII bool) {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for ; len(text) >= 8; text = text[8:] {
		w := binary.LittleEndian.Uint64(text)
		if w&high != 0 {
			return dst, false
		}
		// No byte carries into the next one, because all are below 0x80. The high bit of a
		// byte is set in fromA if the byte is at least 'A', and in aboveZ if it is above 'Z'.
		fromA, aboveZ := w+(0x80-'A')*ones, w+(0x7f-'Z')*ones
		dst = binary.LittleEndian.AppendUint64(dst, w|(fromA&^aboveZ&high)>>2)
	}
	for _, c := range text {
		if c >= utf8.RuneSelf {
			return dst, false
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst, true
}

// folding is full case folding as tables, which are several times as fast as a
// cases.Caser.
type folding struct {
	basic  [1 << 16]uint16 // of the Basic Multilingual Plane; special: in others
	others map[rune]string // of further characters, and of those that fold to several
}

// special marks the characters in folding.others. No character folds to it.
const special = 0

// foldings returns the tables. The first call makes them, in some milliseconds.
var foldings = sync.OnceValue(func() *folding {
	f := &folding{others: map[rune]string{}}
	caser := cases.Fold()
	for r := range rune(0x20000) { // no character above has a case
		if !utf8.ValidRune(r) {
			continue
		}
		folded := caser.String(string(r))
		if unicode.Is(unicode.Cherokee, r) {
			// CaseFolding.txt folds to capitals; package cases exchanges the two cases.
			folded = string(unicode.ToUpper(r))
		}
		first, size := utf8.DecodeRuneInString(folded)
		switch {
		case r < 1<<16 && size == len(folded) && first < 1<<16 && first != special:
			f.basic[r] = uint16(first)
		case r < 1<<16 || first != r:
			f.others[r] = folded
		}
	}
	return f
})

// appendFolded appends a folded text. Bytes that are not UTF-8 stay as they are.
func (f *folding) appendFolded(dst, text []byte) []byte {
	for i := 0; i < len(text); {
		r, size := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(text[i:])
		}
		switch folded := f.fold(r); {
		case r == utf8.RuneError && size == 1:
			dst = append(dst, text[i])
		case folded != special:
			dst = utf8.AppendRune(dst, folded)
		default:
			dst = append(dst, f.others[r]...)
		}
		i += size
	}
	return dst
}

// fold returns the character to which a character folds, or special.
func (f *folding) fold(r rune) rune {
	if r < 1<<16 {
		return rune(f.basic[r])
	}
	if _, ok := f.others[r]; ok {
		return special
	}
	return r
}
