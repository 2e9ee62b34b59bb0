package plant

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// nestingMax is the maximum depth of the arrays and objects of a body.
const nestingMax = 64

// Decode parses one plant from JSON. The data must be one RFC 8259 value in UTF-8: an object with the members id and
// name, and optionally tag. Decode ignores other members.
//
// An id is any JSON number whose exact value is an int64. 1.0 and 1e3 are integers, as in JSON Schema draft 2020-12
// (section 4.2.3 of the core, section 6.1.1 of the validation). Decode never converts an id to a float.
//
// Decode also refuses a member name that an object repeats (RFC 8259 section 4 leaves it open), an unpaired surrogate
// (section 8.2), a value that nests deeper than 64, and U+0000 in name or tag.
//
// The error is an *Error with every fault of the data. The plant keeps no reference to data.
func Decode(data []byte) (NewPlant, error) {
	d := decoder{data: data, whole: "the body", give: "send"}
	if err := d.decode(); err != nil {
		return NewPlant{}, err
	}
	return d.plant, nil
}

// DecodeRow is Decode for a row of a file, which its errors call that. It calls unknown with the name of each member
// that it ignores, which is valid during the call. With an error it returns a plant with the id alone, or 0.
func DecodeRow(data []byte, unknown func(name []byte)) (NewPlant, error) {
	d := decoder{data: data, whole: "the row", give: "add", unknown: unknown}
	if err := d.decode(); err != nil {
		return NewPlant{ID: d.plant.ID}, err
	}
	return d.plant, nil
}

func (d *decoder) decode() error {
	data := d.data
	if !utf8.Valid(data) {
		i := invalidAt(data)
		d.faults.Add(CodeBodyNotUTF8, fmt.Sprintf("%s must be UTF-8; got 0x%02X at byte %d", d.whole, data[i], i))
	}
	d.document()
	return d.faults.Err()
}

// invalidAt returns the offset of the first byte that is not part of valid UTF-8, or the length of the data.
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

// decoder parses one body. Its methods return false if they cannot parse the rest of the body; they have added the
// fault to faults.
type decoder struct {
	data    []byte
	whole   string            // data in a message
	give    string            // what the client or the user has to do with a missing member
	unknown func(name []byte) // nil: nothing
	pos     int
	depth   int
	plant   NewPlant
	faults  Faults

	hasID, hasName bool // the outermost object has these members

	unescaped []byte // memory of the last string with escapes; text.bytes refers to it
}

func (d *decoder) document() {
	d.space()
	if d.pos == len(d.data) {
		d.faults.Add(CodeBodyMissing, d.whole+" is empty; "+d.give+" a JSON object with id, name and an optional tag")
		return
	}
	if start := d.pos; d.data[start] != '{' {
		if d.skip(d.whole) {
			got := valueText(d.data[start:d.pos])
			if d.end() {
				d.faults.Add(CodeBodyNotObject, d.whole+" must be a JSON object; got "+got)
			}
		}
		return
	}
	if d.object(func(name []byte) bool { return d.member(name) }) && d.end() {
		if !d.hasID {
			d.faults.Add(CodeIDMissing, "id is missing; "+d.give+" a 64-bit integer")
		}
		if !d.hasName {
			d.faults.Add(CodeNameMissing, "name is missing; "+d.give+" a string")
		}
	}
}

// member parses the value of one member of the outermost object.
func (d *decoder) member(name []byte) bool {
	switch string(name) {
	case "id":
		d.hasID = true
		return d.id()
	case "name":
		d.hasName = true
		return d.stringMember("name", CodeNameWrongType, CodeNameHasNUL, &d.plant.Name)
	case "tag":
		d.plant.Tag.present = true
		return d.stringMember("tag", CodeTagWrongType, CodeTagHasNUL, &d.plant.Tag.text)
	}
	if d.unknown != nil {
		d.unknown(name)
	}
	return d.skip("an unknown member")
}

const (
	idRule      = "id must be a 64-bit integer; got "
	idRangeRule = "id must be from -9223372036854775808 to 9223372036854775807; got "
)

func (d *decoder) id() bool {
	c := d.peek()
	if c != '-' && (c < '0' || c > '9') {
		return d.wrongType("id", CodeIDWrongType, idRule)
	}
	start := d.pos
	if !d.number() {
		return false
	}
	number := d.data[start:d.pos]
	id, code := parseInteger(string(number))
	switch code {
	case CodeIDNotInteger:
		d.faults.Add(code, idRule+valueText(number))
	case CodeIDOutOfRange:
		d.faults.Add(code, idRangeRule+valueText(number))
	}
	d.plant.ID = id
	return true
}

// stringMember parses the value of a member that must be a string into out.
func (d *decoder) stringMember(member string, wrongType, hasNUL Code, out *string) bool {
	if d.peek() != '"' {
		return d.wrongType(member, wrongType, member+" must be a string; got ")
	}
	t, ok := d.text()
	if !ok {
		return false
	}
	d.checkSurrogates(t, member)
	if t.escaped && bytes.IndexByte(t.bytes, 0) >= 0 {
		d.faults.Add(hasNUL, member+" contains the character U+0000; remove it")
	}
	*out = string(t.bytes)
	return true
}

// wrongType skips the value of a member of the wrong type. The message of the fault is the rule and the value.
func (d *decoder) wrongType(member string, code Code, rule string) bool {
	start := d.pos
	if !d.skip(member) {
		return false
	}
	d.faults.Add(code, rule+valueText(d.data[start:d.pos]))
	return true
}

func (d *decoder) checkSurrogates(t text, where string) {
	if t.lone {
		d.faults.Add(CodeLoneSurrogate,
			where+" contains an unpaired surrogate; "+d.give+" the whole pair or the character in UTF-8")
	}
}

// valueText returns a JSON value for a message. It copies null, booleans and numbers; of strings only those that look
// like a number, because any other text may be confidential.
func valueText(value []byte) string {
	const bytesMax = 40
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		const numeric = "0123456789+-.eE"
		if len(value) > bytesMax || len(bytes.Trim(value[1:len(value)-1], numeric)) > 0 {
			return "a string"
		}
	}
	if len(value) > bytesMax {
		return string(value[:bytesMax]) + "…"
	}
	return string(value)
}

// Quote returns text from a client for a message: quoted, and cut after 40 bytes.
func Quote(b []byte) string {
	const bytesMax = 40
	if len(b) <= bytesMax {
		return strconv.Quote(string(b))
	}
	end := bytesMax
	for end > bytesMax-utf8.UTFMax && !utf8.RuneStart(b[end]) { // keep characters whole
		end--
	}
	return strconv.Quote(string(b[:end])) + "…"
}
