package dump

import (
	"bytes"
	"strings"
)

// A spreadsheet runs a cell as a formula if it begins with one of a few
// characters, and a plant's name comes from whoever may create plants. So, as
// in OWASP, "CSV Injection"
// (https://owasp.org/www-community/attacks/CSV_Injection), such a name or tag
// is written with an apostrophe before it, which spreadsheets take for "this
// is text".
//
// Names that begin with apostrophes before such a character get one more, and
// reading takes exactly one away from them. What is written is thus read back
// as it was, whatever it was.

// guarded tells whether a cell is written with an apostrophe before it.
func guarded(text string) bool {
	return beginsFormula(strings.TrimLeft(text, "'"))
}

// unguard takes the apostrophe off a cell that was written with one.
func unguard(cell []byte) []byte {
	if len(cell) == 0 || cell[0] != '\'' {
		return cell
	}
	if beginsFormula(bytes.TrimLeft(cell, "'")) {
		return cell[1:]
	}
	return cell
}

// beginsFormula tells whether the text begins with = + - @, their full-width
// forms, TAB, CR or LF.
func beginsFormula[T string | []byte](text T) bool {
	if len(text) == 0 {
		return false
	}
	switch text[0] {
	case '=', '+', '-', '@', '\t', '\r', '\n':
		return true
	case "＝"[0]: // the first byte of all four
		switch string(text[:min(len(text), len("＝"))]) {
		case "＝", "＋", "－", "＠":
			return true
		}
	}
	return false
}
