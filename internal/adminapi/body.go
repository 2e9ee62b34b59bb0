package adminapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// bodyBytesMax is the largest body of the API. A name has at most 64 characters, an identifier 255 bytes.
const bodyBytesMax = 16 << 10

// read decodes the JSON object in the body of a request into the variables of its members. It refuses unknown and
// duplicate members, because the server would ignore a value that the client relies on. It returns the names of the
// members.
func (c *call) read(members map[string]any) (given map[string]bool, err error) {
	body, err := c.ReadBody(bodyBytesMax)
	if err != nil {
		return nil, err
	}
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return nil, plant.Errorf(plant.CodeBodyMissing, "the body is empty; send a JSON object")
	case !utf8.Valid(body):
		return nil, plant.Errorf(plant.CodeBodyNotUTF8, "the body must be UTF-8")
	case !json.Valid(body):
		return nil, plant.Errorf(plant.CodeBodyNotJSON, "the body must be one JSON object (RFC 8259)")
	case body[0] != '{':
		return nil, plant.Errorf(plant.CodeBodyNotObject, "the body must be a JSON object")
	}
	given = map[string]bool{}
	d := json.NewDecoder(bytes.NewReader(body))
	_, _ = d.Token() // the body is valid, so nothing fails here
	for d.More() {
		token, _ := d.Token()
		name := token.(string)
		var value json.RawMessage
		_ = d.Decode(&value)
		into, ok := members[name]
		switch {
		case !ok:
			return nil, plant.InvalidInput("unknown member %q; use %s", server.Shorten(name),
				strings.Join(slices.Sorted(maps.Keys(members)), ", "))
		case given[name]:
			return nil, plant.Errorf(plant.CodeMemberTwice, "member %s occurs twice; send it once", name)
		case string(value) == "null" || json.Unmarshal(value, into) != nil:
			return nil, plant.InvalidInput("%s must be %s; got %s", name, kindOf(into), server.Shorten(string(value)))
		}
		given[name] = true
	}
	return given, nil
}

// kindOf returns the type of a member for a message.
func kindOf(into any) string {
	switch into.(type) {
	case *string:
		return "a string"
	case *bool:
		return "true or false"
	case *[]string:
		return "a list of strings"
	default:
		return "a 64-bit integer"
	}
}
