package dump

import (
	"strings"
	"unicode/utf8"
)

// A spreadsheet evaluates a cell that begins with one of a few characters as a formula, and a client chooses the names
// of its plants. As OWASP recommends in "CSV Injection" (https://owasp.org/www-community/attacks/CSV_Injection), the
// Writer puts an apostrophe before such a name or tag: it marks text in a spreadsheet.
//
// A spreadsheet that separates cells by semicolons or TABs splits a row there. A part of a name then becomes a cell of
// its own, even inside quotes and after line ends, so the Writer guards such a part like a name. Quotes before the
// formula do not protect it: CSV doubles them, and two quotes are an empty text.
//
// A text that has apostrophes at such a place gets one more, and Read removes exactly one from each place. So every
// text survives a write and a read.

// splitters are the characters at which a spreadsheet may split a cell.
const splitters = ";\t\r\n"

// guard returns the text with an apostrophe before it and before each part that follows a splitter, if these begin like
// a formula.
func guard(text string) string {
	first := beginsFormula(strings.TrimLeft(text, "'"))
	if !first && !strings.ContainsAny(text, splitters) {
		return text
	}
	guarded := make([]byte, 0, len(text)+1)
	if first {
		guarded = append(guarded, '\'')
	}
	for i := range len(text) {
		guarded = append(guarded, text[i])
		if isSplitter(text[i]) && hidesFormula(text[i+1:]) {
			guarded = append(guarded, '\'')
		}
	}
	return string(guarded)
}

// unguard returns the text of a cell without the apostrophes that guard added.
func unguard(cell string) string {
	if strings.IndexByte(cell, '\'') < 0 {
		return cell
	}
	if cell[0] == '\'' && beginsFormula(strings.TrimLeft(cell, "'")) {
		cell = cell[1:]
	}
	if !strings.ContainsAny(cell, splitters) {
		return cell
	}
	text := make([]byte, 0, len(cell))
	for i := range len(cell) {
		guard := cell[i] == '\'' && i > 0 && isSplitter(cell[i-1]) && hidesFormula(cell[i:])
		if !guard {
			text = append(text, cell[i])
		}
	}
	return string(text)
}

func isSplitter(c byte) bool { return strings.IndexByte(splitters, c) >= 0 }

// hidesFormula reports whether the text begins like a formula after apostrophes and quotes.
func hidesFormula(text string) bool { return beginsSign(strings.TrimLeft(text, `'"`)) }

// beginsFormula reports whether the text begins like a formula, or with TAB, CR or LF, which a spreadsheet may skip.
func beginsFormula(text string) bool {
	return text != "" && strings.IndexByte("\t\r\n", text[0]) >= 0 || beginsSign(text)
}

// beginsSign reports whether the text begins with = + - @ or with the full-width form of one.
func beginsSign(text string) bool {
	sign, _ := utf8.DecodeRuneInString(text)
	switch sign {
	case '=', '+', '-', '@', '＝', '＋', '－', '＠':
		return true
	}
	return false
}
