package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/term"
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

// escapeJSON returns a file's text with a JSON escape for each character that a terminal does more with than show it,
// but for TAB and line ends. JSON stays the same JSON: it has such characters in strings alone.
func escapeJSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, steersInFile) && utf8.Valid(text) {
		return text
	}
	out := make([]byte, 0, len(text)+len(text)/8)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			out = append(out, `\ufffd`...)
		case !steersInFile(r):
			out = append(out, text[:size]...)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		text = text[size:]
	}
	return out
}

func steersInFile(r rune) bool { return steers(r) && r != '\n' && r != '\r' && r != '\t' }

// screen writes to a terminal, through escapeJSON, the text of a file. It is not safe for concurrent use.
type screen struct {
	terminal io.Writer
	rest     []byte // the beginning of a character, whose end comes with the next Write
}

// Write implements io.Writer.
func (s *screen) Write(p []byte) (int, error) {
	text := slices.Concat(s.rest, p)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if last := text[len(text)-back:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				whole -= back
			}
			break
		}
	}
	_, err := s.terminal.Write(escapeJSON(text[:whole]))
	s.rest = bytes.Clone(text[whole:])
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// formatTime returns a time as a command shows it to a user; "never" for the zero time.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format(time.RFC3339)
}

// isTerminal returns the file of a stream that is a terminal.
func isTerminal(stream any) (*os.File, bool) {
	f, ok := stream.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}
