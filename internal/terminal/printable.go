package terminal

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

// Printable returns a text for a terminal: on one line, with an escape for each byte that is not UTF-8 and each control
// character. A text that contains such an escape itself looks the same; --json shows the difference.
func Printable(text string) string {
	var out strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&out, `\x%02x`, rest[0])
		case isControl(r):
			quoted := strconv.QuoteRuneToASCII(r)
			out.WriteString(quoted[1 : len(quoted)-1])
		default:
			out.WriteString(rest[:size])
		}
		rest = rest[size:]
	}
	return out.String()
}

// isControl reports whether a terminal interprets or hides a character: the controls (C0, DEL, C1), line ends, and
// the format characters of Unicode, which change the direction of writing or are invisible. Names of plants are in
// any script, so three kinds of format characters do not count: the two joiners, which Persian, Indic languages and
// emoji need, and the signs that enclose the digits after them.
func isControl(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	switch {
	case r < 0x20 || 0x7f <= r && r < 0xa0 || r == '\u2028' || r == '\u2029':
		return true
	case r < 0xa0 || r == nonJoiner || r == joiner:
		return false
	}
	return unicode.Is(unicode.Cf, r) && !unicode.Is(unicode.Prepended_Concatenation_Mark, r)
}

// EscapeJSON returns the text of a file with a JSON escape for each control character except TAB and line ends. The
// value of a JSON text does not change, because it has control characters only in strings.
func EscapeJSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, isControlInFile) && utf8.Valid(text) {
		return text
	}
	out := make([]byte, 0, len(text)+len(text)/8)
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		switch {
		case r == utf8.RuneError && size == 1:
			out = append(out, `\ufffd`...)
		case !isControlInFile(r):
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

func isControlInFile(r rune) bool { return isControl(r) && r != '\n' && r != '\r' && r != '\t' }

// Writer writes the text of a file to a terminal, through EscapeJSON and without the byte order mark of the file. It is
// not safe for concurrent use.
type Writer struct {
	To    io.Writer
	begun bool   // the first character is written
	rest  []byte // the first bytes of a character that the next Write completes
}

// Write implements io.Writer.
func (s *Writer) Write(p []byte) (int, error) {
	text := slices.Concat(s.rest, p)
	whole := len(text)
	for i := max(0, len(text)-utf8.UTFMax); i < whole; i++ {
		if utf8.RuneStart(text[i]) && !utf8.FullRune(text[i:]) {
			whole = i
		}
	}
	s.rest = bytes.Clone(text[whole:])
	text = text[:whole]
	if !s.begun {
		text = bytes.TrimPrefix(text, []byte("\uFEFF"))
	}
	s.begun = s.begun || whole > 0
	_, err := s.To.Write(EscapeJSON(text))
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// FormatTime returns a time for the user; "never" for the zero time.
func FormatTime(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format(time.RFC3339)
}

// Discards reports whether a stream is the null device, which the Go runtime also opens in place of a closed one.
func Discards(stream any) bool {
	f, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	null, errNull := os.Stat(os.DevNull)
	return err == nil && errNull == nil && os.SameFile(info, null)
}

// IsTerminal returns the file of a stream if it is a terminal.
func IsTerminal(stream any) (*os.File, bool) {
	f, ok := stream.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}
