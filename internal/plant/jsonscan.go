package plant

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// This file is the grammar of RFC 8259, as methods of decoder. decode.go reads the members of a plant.

// text is a string of the body. Its bytes are valid until the decoder parses the next string.
type text struct {
	bytes   []byte
	lone    bool // has an unpaired surrogate, which is U+FFFD in bytes
	escaped bool // bytes refers to decoder.unescaped, not to the body
}

// object parses an object. It calls value with the name of each member; value parses the member's value. The name is
// valid until value parses a string, and empty if the object repeats it.
func (d *decoder) object(value func(name []byte) bool) bool {
	var names nameSet
	return d.elements('}', func() bool {
		if d.peek() != '"' {
			return d.unexpected("a member name in quotes")
		}
		name, ok := d.text()
		if !ok {
			return false
		}
		d.checkSurrogates(name, "a member name")
		if !names.add(name) {
			d.faults.Add(CodeMemberTwice, "member names must be unique; got "+Quote(name.bytes)+" twice")
			name.bytes = nil // value skips the repeated member like an unknown one
		}
		if d.space(); d.peek() != ':' {
			return d.unexpected("':'")
		}
		d.pos++
		d.space()
		return value(name.bytes)
	})
}

// elements parses the elements of an object or an array, with its brackets. element parses one.
func (d *decoder) elements(closing byte, element func() bool) bool {
	if d.depth == nestingMax {
		const rule = "arrays and objects must nest at most %d deep; got %d at byte %d"
		d.faults.Add(CodeBodyTooDeep, fmt.Sprintf(rule, nestingMax, nestingMax+1, d.pos))
		return false
	}
	d.depth++
	d.pos++
	d.space()
	for more := d.peek() != closing; more; {
		d.space()
		if !element() {
			return false
		}
		d.space()
		if more = d.peek() == ','; more {
			d.pos++
		}
	}
	if d.peek() != closing {
		return d.unexpected("',' or '" + string(closing) + "'")
	}
	d.depth--
	d.pos++
	return true
}

// skip parses a value of any type and discards it. Faults name it as where.
func (d *decoder) skip(where string) bool {
	switch c := d.peek(); c {
	case '{':
		return d.object(func([]byte) bool { return d.skip(where) })
	case '[':
		return d.elements(']', func() bool { return d.skip("an array element") })
	case '"':
		t, ok := d.text()
		d.checkSurrogates(t, where)
		return ok
	default:
		if c == '-' || '0' <= c && c <= '9' {
			return d.number()
		}
		for _, literal := range []string{"null", "true", "false"} {
			if bytes.HasPrefix(d.data[d.pos:], []byte(literal)) {
				d.pos += len(literal)
				return true
			}
		}
		return d.unexpected("a value")
	}
}

// number parses a number (RFC 8259 section 6).
func (d *decoder) number() bool {
	if d.peek() == '-' {
		d.pos++
	}
	if d.peek() == '0' {
		d.pos++
	} else if !d.digits() {
		return false
	}
	if d.peek() == '.' {
		d.pos++
		if !d.digits() {
			return false
		}
	}
	if c := d.peek(); c == 'e' || c == 'E' {
		d.pos++
		if c := d.peek(); c == '+' || c == '-' {
			d.pos++
		}
		return d.digits()
	}
	return true
}

func (d *decoder) digits() bool {
	start := d.pos
	for c := d.peek(); '0' <= c && c <= '9'; c = d.peek() {
		d.pos++
	}
	if d.pos == start {
		return d.unexpected("a digit")
	}
	return true
}

// text parses a string (RFC 8259 section 7).
func (d *decoder) text() (text, bool) {
	d.pos++ // the opening quote
	out, escaped, lone := d.unescaped[:0], false, false
	for {
		run := d.data[d.pos:] // starts with characters that stand for themselves
		n := 0
		for n < len(run) && run[n] >= 0x20 && run[n] != '"' && run[n] != '\\' {
			n++
		}
		run = run[:n]
		d.pos += n
		switch d.peek() {
		case '"':
			d.pos++
			if escaped {
				d.unescaped = append(out, run...)
				run = d.unescaped
			}
			return text{run, lone, escaped}, true
		case '\\':
			d.pos++
			r, ok := d.escape()
			if !ok {
				return text{}, false
			}
			out = utf8.AppendRune(append(out, run...), r) // encodes an unpaired surrogate as U+FFFD
			escaped, lone = true, lone || r == loneSurrogate
		default:
			if d.pos == len(d.data) {
				return text{}, d.unexpected("the closing quote of a string")
			}
			return text{}, d.unexpected("an escape for the control character")
		}
	}
}

// HasUnpaired reports whether a valid JSON string, in its quotes, has an unpaired surrogate. encoding/json replaces it
// by U+FFFD.
func HasUnpaired(value []byte) bool {
	d := decoder{data: value}
	t, _ := d.text()
	return t.lone
}

// loneSurrogate is the result of every escape that is an unpaired surrogate.
const loneSurrogate rune = 0xD800

// escape parses an escape sequence after its backslash.
func (d *decoder) escape() (rune, bool) {
	c := d.peek()
	if c != 'u' {
		i := strings.IndexByte(escapeLetters, c)
		if i < 0 {
			return 0, d.unexpected("one of \"\\/bfnrtu after the backslash")
		}
		d.pos++
		return rune(escapedBytes[i]), true
	}
	d.pos++
	r, ok := d.hex4()
	if !ok || !utf16.IsSurrogate(r) {
		return r, ok
	}
	if !bytes.HasPrefix(d.data[d.pos:], []byte(`\u`)) {
		return loneSurrogate, true
	}
	second := d.pos
	d.pos += 2
	low, ok := d.hex4()
	if !ok {
		return 0, false
	}
	pair := utf16.DecodeRune(r, low)
	if pair == utf8.RuneError {
		d.pos = second // the second escape is a character of its own
		return loneSurrogate, true
	}
	return pair, true
}

func (d *decoder) hex4() (rune, bool) {
	var r rune
	for range 4 {
		c := d.peek()
		switch {
		case '0' <= c && c <= '9':
			r = r<<4 | rune(c-'0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			r = r<<4 | rune(c|0x20-'a'+10)
		default:
			return 0, d.unexpected("four hexadecimal digits after \\u")
		}
		d.pos++
	}
	return r, true
}

func (d *decoder) space() {
	for d.pos < len(d.data) {
		switch d.data[d.pos] {
		case ' ', '\t', '\n', '\r':
			d.pos++
		default:
			return
		}
	}
}

// peek returns the next byte, or 0 at the end. No token of JSON begins with 0.
func (d *decoder) peek() byte {
	if d.pos < len(d.data) {
		return d.data[d.pos]
	}
	return 0
}

// end checks that only white space follows the value.
func (d *decoder) end() bool {
	if d.space(); d.pos < len(d.data) {
		return d.unexpected("the end of " + d.whole)
	}
	return true
}

// unexpected adds the fault that the body is not JSON at the current position.
func (d *decoder) unexpected(want string) bool {
	got := "the end of " + d.whole
	if d.pos < len(d.data) {
		r, size := utf8.DecodeRune(d.data[d.pos:])
		got = strconv.QuoteRune(r)
		switch {
		case r == utf8.RuneError && size == 1:
			got = fmt.Sprintf("0x%02X", d.data[d.pos])
		case r == '\uFEFF': // RFC 8259 section 8.1 forbids it
			got = "a byte order mark, which must be removed"
		}
	}
	d.faults.Add(CodeBodyNotJSON, fmt.Sprintf("%s is not JSON: expected %s at byte %d; got %s", d.whole, want, d.pos, got))
	return false
}
