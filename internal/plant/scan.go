package plant

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// This file is the grammar of RFC 8259, as methods of decoder; what the values
// mean for a plant is in decode.go.

// text is a string of the body. Its bytes are valid until the next string is read.
type text struct {
	bytes   []byte
	lone    bool // has a lone surrogate, which stands as U+FFFD in bytes
	escaped bool // bytes is the decoder's scratch, not the body
}

// object reads an object; the value of each member is read by value, which is
// given the member's name, valid until it reads the first string.
func (d *decoder) object(value func(name []byte) bool) bool {
	if !d.enter() {
		return false
	}
	defer d.leave()
	if d.space(); d.peek() == '}' {
		d.pos++
		return true
	}
	var names nameSet
	for {
		if d.space(); d.peek() != '"' {
			return d.unexpected("a member name in quotes")
		}
		name, ok := d.text()
		if !ok {
			return false
		}
		d.checkSurrogates(name, "a member name")
		if !names.add(name) {
			d.faults.Add(CodeMemberTwice, "the member "+Quote(name.bytes)+" is there twice: send it once")
		}
		if d.space(); d.peek() != ':' {
			return d.unexpected("':'")
		}
		d.pos++
		d.space()
		if !value(name.bytes) {
			return false
		}
		more, ok := d.separator('}')
		if !ok || !more {
			return ok
		}
	}
}

func (d *decoder) array() bool {
	if !d.enter() {
		return false
	}
	defer d.leave()
	if d.space(); d.peek() == ']' {
		d.pos++
		return true
	}
	for {
		d.space()
		if !d.skip("an array") {
			return false
		}
		more, ok := d.separator(']')
		if !ok || !more {
			return ok
		}
	}
}

// separator reads what follows an element: a comma, or the closing bracket.
func (d *decoder) separator(closing byte) (more, ok bool) {
	d.space()
	switch d.peek() {
	case ',':
		d.pos++
		return true, true
	case closing:
		d.pos++
		return false, true
	}
	return false, d.unexpected("',' or '" + string(closing) + "'")
}

// skip reads a value of any type for its form alone.
func (d *decoder) skip(where string) bool {
	switch c := d.peek(); c {
	case '{':
		return d.object(func([]byte) bool { return d.skip(where) })
	case '[':
		return d.array()
	case '"':
		t, ok := d.text()
		d.checkSurrogates(t, where)
		return ok
	case 't':
		return d.literal("true")
	case 'f':
		return d.literal("false")
	case 'n':
		return d.literal("null")
	default:
		if c == '-' || '0' <= c && c <= '9' {
			return d.number()
		}
		return d.unexpected("a value")
	}
}

func (d *decoder) literal(want string) bool {
	if !bytes.HasPrefix(d.data[d.pos:], []byte(want)) {
		return d.unexpected("a value")
	}
	d.pos += len(want)
	return true
}

// number reads a number as in RFC 8259 section 6.
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

// text reads a string as in RFC 8259 section 7.
func (d *decoder) text() (text, bool) {
	d.pos++ // the opening quote, which the caller has seen
	start := d.pos
	for d.pos < len(d.data) {
		switch c := d.data[d.pos]; {
		case c == '"':
			d.pos++
			return text{bytes: d.data[start : d.pos-1]}, true
		case c == '\\':
			return d.escapedText(start)
		case c < 0x20:
			return text{}, d.unexpected("an escape for the control character")
		default:
			d.pos++
		}
	}
	return text{}, d.unexpected("the closing quote of a string")
}

// escapedText goes on where text met the first backslash of a string that
// began at start.
func (d *decoder) escapedText(start int) (text, bool) {
	t := text{escaped: true}
	out := append(d.unescaped[:0], d.data[start:d.pos]...)
	for d.pos < len(d.data) {
		c := d.data[d.pos]
		switch {
		case c == '"':
			d.pos++
			d.unescaped, t.bytes = out, out
			return t, true
		case c < 0x20:
			return text{}, d.unexpected("an escape for the control character")
		case c != '\\':
			out = append(out, c)
			d.pos++
		default:
			d.pos++
			r, ok := d.escape()
			if !ok {
				return text{}, false
			}
			t.lone = t.lone || r == loneSurrogate
			out = utf8.AppendRune(out, r) // writes a lone surrogate as U+FFFD
		}
	}
	return text{}, d.unexpected("the closing quote of a string")
}

// loneSurrogate stands for every escape that is half of a pair.
const loneSurrogate rune = 0xD800

// escape reads what follows a backslash.
func (d *decoder) escape() (rune, bool) {
	const from, to = `"\/bfnrt`, "\"\\/\b\f\n\r\t"
	c := d.peek()
	if c != 'u' {
		i := bytes.IndexByte([]byte(from), c)
		if i < 0 {
			return 0, d.unexpected("one of \"\\/bfnrtu after a backslash")
		}
		d.pos++
		return rune(to[i]), true
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
		d.pos = second // the second escape stands for itself
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

// peek returns the next byte, or 0 at the end: no rule of JSON begins with 0.
func (d *decoder) peek() byte {
	if d.pos < len(d.data) {
		return d.data[d.pos]
	}
	return 0
}

// end checks that nothing follows the value.
func (d *decoder) end() bool {
	if d.space(); d.pos < len(d.data) {
		return d.unexpected("nothing after the value")
	}
	return true
}

// enter counts one level of nesting more; leave takes it back.
func (d *decoder) enter() bool {
	if d.depth == nestingMax {
		d.faults.Add(CodeBodyTooDeep, fmt.Sprintf("the body nests deeper than %d at byte %d", nestingMax, d.pos))
		return false
	}
	d.depth++
	d.pos++ // the opening bracket
	return true
}

func (d *decoder) leave() { d.depth-- }

// unexpected notes that the body is not JSON at the present place.
func (d *decoder) unexpected(want string) bool {
	found := "the end"
	if d.pos < len(d.data) {
		r, size := utf8.DecodeRune(d.data[d.pos:])
		found = strconv.QuoteRune(r)
		if r == utf8.RuneError && size == 1 {
			found = fmt.Sprintf("the byte 0x%02X", d.data[d.pos])
		}
	}
	d.faults.Add(CodeBodyNotJSON, fmt.Sprintf("the body is not JSON: at byte %d, want %s, found %s", d.pos, want, found))
	return false
}
