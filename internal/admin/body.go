package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// bodyBytesMax is the largest body of the API. A name has at most 64 characters, an identifier 255 bytes.
const bodyBytesMax = 16 << 10

// readBody decodes the JSON object in the body of a request into the variables of its members. It refuses unknown and
// duplicate members, because the server would ignore a value that the client relies on. It returns the names of the
// members.
func readBody(w http.ResponseWriter, r *http.Request, members map[string]any) (given map[string]bool, err error) {
	body, err := server.ReadBody(w, r, bodyBytesMax)
	if err != nil {
		return nil, err
	}
	values, err := objectIn(body)
	if err != nil {
		return nil, err
	}
	given = map[string]bool{}
	for _, v := range values {
		name := v.name
		into, ok := members[name]
		switch {
		case !ok:
			return nil, badInput(fmt.Sprintf("unknown member %q; use %s", server.Shorten(name),
				strings.Join(slices.Sorted(maps.Keys(members)), ", ")))
		case given[name]:
			return nil, &plant.Error{
				Code: plant.CodeMemberTwice, Message: fmt.Sprintf("member %s occurs twice; send it once", name),
			}
		case string(v.value) == "null" || json.Unmarshal(v.value, into) != nil:
			return nil, badInput(fmt.Sprintf("%s must be %s; got %s", name, kindOf(into), server.Shorten(string(v.value))))
		}
		given[name] = true
	}
	return given, nil
}

type member struct {
	name  string
	value json.RawMessage
}

// objectIn returns the members of the JSON object in a body.
func objectIn(body []byte) (members []member, err error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, &plant.Error{Code: plant.CodeBodyMissing, Message: "the body is empty; send a JSON object"}
	}
	if !utf8.Valid(body) {
		return nil, &plant.Error{Code: plant.CodeBodyNotUTF8, Message: "the body must be UTF-8"}
	}
	d := json.NewDecoder(bytes.NewReader(body))
	start, err := d.Token()
	if err == nil && start != json.Delim('{') {
		return nil, &plant.Error{Code: plant.CodeBodyNotObject, Message: "the body must be a JSON object"}
	}
	for err == nil && d.More() {
		var name json.Token
		var m member
		if name, err = d.Token(); err == nil {
			m.name = name.(string) // the decoder returns no other token there
			err = d.Decode(&m.value)
			members = append(members, m)
		}
	}
	if err == nil {
		_, err = d.Token() // the end of the object
	}
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
			return members, nil
		}
	}
	return nil, &plant.Error{Code: plant.CodeBodyNotJSON, Message: "the body must be one JSON object (RFC 8259)"}
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
