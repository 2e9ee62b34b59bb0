package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// printable returns a text as a terminal can show it: on one line, with an escape for each byte that is not UTF-8 and
// each character that steers or hides. A text that contains such an escape itself looks the same: --json tells them apart.
func printable(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, steers) {
		return text
	}
	var out strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, rest[0])
		case steers(r):
			quoted := strconv.QuoteRuneToASCII(r)
			out.WriteString(quoted[1 : len(quoted)-1])
		default:
			out.WriteString(rest[:size])
		}
		rest = rest[size:]
	}
	return out.String()
}

// steers reports whether a terminal does more with a character than show it. Such are the controls (C0, DEL, C1), ends
// of lines, and the format characters of Unicode, which turn the direction of writing or are invisible. Names of plants
// are in any script, so three kinds of format characters are shown: the joiners, which Persian, Indic languages and emoji
// are written with, and the signs that enclose the digits after them.
func steers(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	switch {
	case r < 0x20 || 0x7f <= r && r < 0xa0 || r == '\u2028' || r == '\u2029':
		return true
	case r < 0xa0 || r == nonJoiner || r == joiner:
		return false
	}
	return unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// escapeJSON returns lines of JSON with an escape for each character that a terminal does more with than show it. The
// values stay the same: JSON has such characters in strings alone, and those below U+0020 are escaped there already.
func escapeJSON(lines []byte) []byte {
	harmless := true
	for i := 0; i < len(lines) && harmless; i++ {
		harmless = lines[i] < 0x7f // the usual case
	}
	if harmless {
		return lines
	}
	out := make([]byte, 0, len(lines)+len(lines)/8)
	for len(lines) > 0 {
		r, size := utf8.DecodeRune(lines)
		switch {
		case r == utf8.RuneError && size == 1:
			out = append(out, `\ufffd`...)
		case r == '\n' || !steers(r):
			out = append(out, lines[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		lines = lines[size:]
	}
	return out
}
