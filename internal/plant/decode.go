package plant

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// nestingMax is how deep arrays and objects of a body may nest.
const nestingMax = 64

// Decode reads one NewPlant from JSON, strictly: one RFC 8259 value in UTF-8,
// an object with the members id and name and at most tag besides unknown ones,
// which are ignored. An id is any JSON number whose exact value is an integer
// of int64 (1.0 and 1e3 are), as JSON Schema draft 2020-12 section 4.2.3 and
// its validation section 6.1.1 have it; it never passes through a float.
//
// Refused besides wrong types are: a member name given twice in any object
// (RFC 8259 section 4 leaves it open), a lone surrogate (section 8.2), a value
// that nests deeper than 64, and U+0000 in name or tag.
//
// The error is an *Error that names every fault. The plant keeps no reference
// to data.
func Decode(data []byte) (NewPlant, error) {
	d := decoder{data: data}
	if !utf8.Valid(data) {
		d.faults.Add(CodeBodyNotUTF8, fmt.Sprintf("the body is not UTF-8: byte %d begins no valid character", invalidAt(data)))
	}
	d.document()
	if err := d.faults.Err(); err != nil {
		return NewPlant{}, err
	}
	return d.plant, nil
}

// invalidAt returns the offset of the first byte that is not valid UTF-8.
func invalidAt(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(data)
}

// decoder walks over one body. Its methods return false when the rest of the
// body cannot be read for what it means; the fault is noted by then.
type decoder struct {
	data   []byte
	pos    int
	depth  int
	plant  NewPlant
	faults Faults

	unescaped []byte // the last string that had escapes; text.bytes points into it
}

func (d *decoder) document() {
	d.space()
	if d.pos == len(d.data) {
		d.faults.Add(CodeBodyMissing, "the body is empty: send a JSON object with id, name and, if wanted, tag")
		return
	}
	if c := d.data[d.pos]; c != '{' {
		if d.skip("the body") && d.end() {
			d.faults.Add(CodeBodyNotObject, "the body is "+kind(c)+": send a JSON object with id, name and, if wanted, tag")
		}
		return
	}
	var seen members
	if d.object(func(name []byte) bool { return d.member(name, &seen) }) && d.end() {
		if !seen.id {
			d.faults.Add(CodeIDMissing, "id is missing: send an integer of 64 bits")
		}
		if !seen.name {
			d.faults.Add(CodeNameMissing, "name is missing: send a string")
		}
	}
}

// members says which members of the plant were met.
type members struct{ id, name, tag bool }

// member reads the value of one member of the outermost object.
func (d *decoder) member(name []byte, seen *members) bool {
	switch string(name) {
	case "id":
		if !seen.id {
			seen.id = true
			return d.id()
		}
	case "name":
		if !seen.name {
			seen.name = true
			return d.string("name", CodeNameWrongType, CodeNameHasNUL, &d.plant.Name)
		}
	case "tag":
		if !seen.tag {
			seen.tag, d.plant.Tag.present = true, true
			return d.string("tag", CodeTagWrongType, CodeTagHasNUL, &d.plant.Tag.text)
		}
	}
	return d.skip("a member that is not part of a plant")
}

func (d *decoder) id() bool {
	c := d.peek()
	if c != '-' && (c < '0' || c > '9') {
		return d.wrongType("id", CodeIDWrongType, "an integer of 64 bits, without quotes")
	}
	start := d.pos
	if !d.number() {
		return false
	}
	id, code := parseInteger(d.data[start:d.pos])
	switch code {
	case CodeIDNotInteger:
		d.faults.Add(code, "id is not a whole number: send an integer of 64 bits")
	case CodeIDOutOfRange:
		d.faults.Add(code, "id does not fit 64 bits: send an integer from -9223372036854775808 to 9223372036854775807")
	}
	d.plant.ID = id
	return true
}

// string reads the value of a member that must be a string into out.
func (d *decoder) string(member string, wrongType, hasNUL Code, out *string) bool {
	if d.peek() != '"' {
		return d.wrongType(member, wrongType, "a string")
	}
	t, ok := d.text()
	if !ok {
		return false
	}
	d.checkSurrogates(t, member)
	if t.escaped && bytes.IndexByte(t.bytes, 0) >= 0 {
		d.faults.Add(hasNUL, member+" has the character U+0000: leave it out")
	}
	*out = string(t.bytes)
	return true
}

// wrongType notes a member's wrong type and passes over its value.
func (d *decoder) wrongType(member string, code Code, want string) bool {
	got := kind(d.peek())
	if !d.skip(member) {
		return false
	}
	d.faults.Add(code, member+" is "+got+": send "+want)
	return true
}

func (d *decoder) checkSurrogates(t text, where string) {
	if t.lone {
		d.faults.Add(CodeLoneSurrogate, where+" has half of a surrogate pair: escape the whole pair, or send the character in UTF-8")
	}
}

// kind names the type of the value that begins with c.
func kind(c byte) string {
	switch c {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

// Quote returns a client's text for a message: quoted, and cut after 40 bytes.
func Quote(b []byte) string {
	const bytesMax = 40
	if len(b) <= bytesMax {
		return strconv.Quote(string(b))
	}
	end := bytesMax
	for end > bytesMax-utf8.UTFMax && !utf8.RuneStart(b[end]) { // no character is cut in two
		end--
	}
	return strconv.Quote(string(b[:end])) + "…"
}
