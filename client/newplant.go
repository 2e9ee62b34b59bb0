package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// NewPlant is a plant to create.
type NewPlant struct {
	ID   int64   `json:"id"` // any 64-bit integer; no two plants of a store have the same
	Name string  `json:"name"`
	Tag  *string `json:"tag,omitempty"` // nil: none; the empty tag is a tag
}

// UnmarshalJSON reads a plant as the server does. After an error, n is unchanged.
//
// Without it, encoding/json would read another plant from JSON that the server refuses: it accepts an absent name, null
// and member names in other case, keeps the last of two members, and replaces invalid characters by U+FFFD.
func (n *NewPlant) UnmarshalJSON(data []byte) error {
	if !json.Valid(data) || bytes.TrimLeft(data, " \t\r\n")[0] != '{' {
		return errors.New("a plant must be a JSON object")
	}
	v := values{Decoder: json.NewDecoder(bytes.NewReader(data))}
	v.UseNumber()
	members, _ := v.next(1).(map[string]any)
	number, _ := members["id"].(json.Number)
	id, isInteger := integer(string(number))
	name, isText := members["name"].(string)
	tag, hasTag := members["tag"]
	tagText, tagIsText := tag.(string)
	isLone := func(match [][]byte) bool { return match[1] != nil }
	for _, rule := range []struct {
		holds bool
		text  string
	}{
		{utf8.Valid(data), "a plant must be UTF-8"},
		{v.depth <= 64, "arrays and objects must nest at most 64 deep"},
		{!v.repeated, "the member names of an object must be unique"},
		{!slices.ContainsFunc(escape.FindAllSubmatch(data, -1), isLone), "a string contains an unpaired surrogate"},
		{isInteger, "id must be an integer from -9223372036854775808 to 9223372036854775807"},
		{isText && !strings.Contains(name, "\x00"), "name must be a string without U+0000"},
		{tagIsText == hasTag && !strings.Contains(tagText, "\x00"), "tag must be absent or a string without U+0000"},
	} {
		if !rule.holds {
			return errors.New(rule.text)
		}
	}
	*n = NewPlant{ID: id, Name: name}
	if hasTag {
		n.Tag = &tagText
	}
	return nil
}

// values reads the values of valid JSON.
type values struct {
	*json.Decoder
	depth    int  // maximum of the arrays and objects
	repeated bool // an object repeats a member name
}

// next returns the next value: a map for the members of an object or for an array. depth is the depth of the value if
// it is one of these.
func (v *values) next(depth int) any {
	token, _ := v.Token()
	if _, opens := token.(json.Delim); !opens {
		return token
	}
	v.depth = max(v.depth, depth)
	members := map[string]any{}
	for v.More() {
		name := "" // of each element of an array
		if token == json.Delim('{') {
			name, _ = v.next(depth).(string)
			_, found := members[name]
			v.repeated = v.repeated || found
		}
		members[name] = v.next(depth + 1)
	}
	_, _ = v.Token() // the closing bracket
	return members
}

// escape matches each escape of valid JSON. Its group is an unpaired surrogate.
var escape = regexp.MustCompile(`\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F])|.)`)

// integer returns the exact value of a JSON number, if that is an int64: 1.0 and 1e3 are integers. It is
// digits × 10^shift.
func integer(number string) (value int64, ok bool) {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	shift, _ := strconv.ParseInt(exponent, 10, 32) // the limit beyond it: no plant has as many digits
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimRight(whole+fraction, "0")
	shift += int64(len(whole) - len(digits))
	if strings.Trim(digits, "-0") == "" {
		return 0, number != ""
	}
	zeros := strings.Repeat("0", int(min(max(shift, 0), 19))) // 19 are too many
	value, err := strconv.ParseInt(digits+zeros, 10, 64)
	return value, err == nil && shift >= 0
}
