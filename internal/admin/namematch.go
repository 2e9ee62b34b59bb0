package admin

import (
	"bytes"
	"encoding/binary"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
)

// matcher finds a part in names by full case folding (Unicode Standard, section 3.13, definition D144). It does not
// normalize: a letter with a combining accent differs from the composed letter. One goroutine at a time may use it.
type matcher struct {
	part    []byte // folded
	ascii   bool   // part is ASCII
	scratch []byte // a folded name; match does not allocate once it is large enough
}

func newMatcher(part string) *matcher {
	m := &matcher{part: foldings().appendFolded(nil, []byte(part))}
	m.ascii = utf8.RuneCount(m.part) == len(m.part)
	return m
}

// find returns where the part begins in a name; -1: nowhere.
func (m *matcher) find(name []byte) int {
	if len(m.part) == 0 {
		return 0
	}
	var isASCII bool
	if m.scratch, isASCII = appendLower(m.scratch[:0], name); !isASCII {
		m.scratch = foldings().appendFolded(m.scratch[:0], name)
	} else if !m.ascii {
		return -1
	}
	return bytes.Index(m.scratch, m.part)
}

// appendLower appends an ASCII text in lower case, eight bytes at a time. For another text it returns false, and dst
// has any content.
func appendLower(dst, text []byte) (_ []byte, isASCII bool) {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for ; len(text) >= 8; text = text[8:] {
		w := binary.LittleEndian.Uint64(text)
		if w&high != 0 {
			return dst, false
		}
		// No byte carries into the next one, because all are below 0x80. The high bit of a byte is set in fromA if the byte
		// is at least 'A', and in aboveZ if it is above 'Z'.
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

// folding is full case folding as a table, which is several times as fast as a cases.Caser: the text to which a
// character folds; empty: the character itself. No character beyond the table has a case.
type folding [0x20000]string

// foldings returns the table. The first call makes it, in some milliseconds.
var foldings = sync.OnceValue(func() *folding {
	f, caser := new(folding), cases.Fold()
	for i := range f {
		character := string(rune(i))
		folded := caser.String(character)
		if unicode.Is(unicode.Cherokee, rune(i)) {
			// CaseFolding.txt folds to capitals; package cases exchanges the two cases.
			folded = string(unicode.ToUpper(rune(i)))
		}
		if folded != character {
			f[i] = folded
		}
	}
	return f
})

// appendFolded appends a folded text. Bytes that are not UTF-8 stay as they are.
func (f *folding) appendFolded(dst, text []byte) []byte {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if int(r) < len(f) && f[r] != "" {
			dst = append(dst, f[r]...)
		} else {
			dst = append(dst, text[:size]...)
		}
		text = text[size:]
	}
	return dst
}
