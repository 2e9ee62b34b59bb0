package dump

import (
	"bytes"
	"strings"
)

// A spreadsheet runs a cell as a formula if it begins with one of a few
// characters, and any client that may create plants chooses their names. So, as
// in OWASP, "CSV Injection"
// (https://owasp.org/www-community/attacks/CSV_Injection), such a name or tag
// is written with an apostrophe before it, which marks text in a spreadsheet.
//
// A spreadsheet that is set to semicolons or TABs splits a row there. Our cell
// then begins in the middle of one of its cells, where it sees no quotes, so it
// also splits within quotes, and at line ends. A part of a name that would
// become such a cell is guarded like a name. Quotes before the formula do not
// protect it: they are written doubled, which is an empty text in quotes.
//
// Names that have apostrophes there already get one more, and reading takes
// exactly one away from each place. What is written is thus read back as it
// was, whatever it was.

// splitters are where other programs may split a cell of ours.
const splitters = ";\t\r\n"

// guarded tells whether a cell is written with an apostrophe before it.
func guarded(text string) bool {
	return beginsFormula(strings.TrimLeft(text, "'"))
}

// guardParts returns the text with an apostrophe before each part behind a
// splitter that is to be guarded.
func guardParts(text string) string {
	if !strings.ContainsAny(text, splitters) {
		return text
	}
	guarded := make([]byte, 0, len(text)+1)
	for i := range len(text) {
		guarded = append(guarded, text[i])
		if isSplitter(text[i]) && hidesFormula(text[i+1:]) {
			guarded = append(guarded, '\'')
		}
	}
	return string(guarded)
}

// unguard takes the apostrophes away that a cell was written with. It leaves
// the cell as it is, and returns another or a part of it.
func unguard(cell []byte) []byte {
	if bytes.IndexByte(cell, '\'') < 0 {
		return cell
	}
	if cell[0] == '\'' && beginsFormula(bytes.TrimLeft(cell, "'")) {
		cell = cell[1:]
	}
	if !bytes.ContainsAny(cell, splitters) {
		return cell
	}
	text := make([]byte, 0, len(cell))
	for i, c := range cell {
		guard := c == '\'' && i > 0 && isSplitter(cell[i-1]) && hidesFormula(cell[i:])
		if !guard {
			text = append(text, c)
		}
	}
	return text
}

func isSplitter(c byte) bool { return strings.IndexByte(splitters, c) >= 0 }

// hidesFormula tells whether the text begins as a formula but for apostrophes
// and quotes.
func hidesFormula[T string | []byte](text T) bool {
	for i := range len(text) {
		if text[i] != '\'' && text[i] != '"' {
			return beginsSign(text[i:])
		}
	}
	return false
}

// beginsFormula tells whether the text begins as a formula, or with TAB, CR or
// LF, which a spreadsheet may skip.
func beginsFormula[T string | []byte](text T) bool {
	if len(text) == 0 {
		return false
	}
	return text[0] == '\t' || text[0] == '\r' || text[0] == '\n' || beginsSign(text)
}

// beginsSign tells whether the text begins with = + - @ or their full-width
// forms.
func beginsSign[T string | []byte](text T) bool {
	if len(text) == 0 {
		return false
	}
	switch text[0] {
	case '=', '+', '-', '@':
		return true
	case "＝"[0]: // the first byte of all four
		switch string(text[:min(len(text), len("＝"))]) {
		case "＝", "＋", "－", "＠":
			return true
		}
	}
	return false
}
