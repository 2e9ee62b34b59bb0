package adminapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/server"
)

// bodyBytesMax is the largest body of the API, except for a plant. A name has at most 64 characters, an identifier 255
// bytes.
const bodyBytesMax = 16 << 10

// decode decodes the JSON object in the body of a request into a struct whose fields have JSON tags.
func decode[T any](c *call, bytesMax int64) (value T, err error) {
	body, err := c.ReadBody(bytesMax)
	if err != nil {
		return value, err
	}
	members := map[string]any{}
	for field, at := range reflect.ValueOf(&value).Elem().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		members[name] = at.Addr().Interface()
	}
	err = read(body, members)
	return value, err
}

// read decodes a JSON object into the variables of its members. It refuses unknown and duplicate members, because the
// server would ignore a value that the client relies on.
func read(body []byte, members map[string]any) error {
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return plant.Errorf(plant.CodeBodyMissing, "the body is empty; send a JSON object")
	case !utf8.Valid(body):
		return plant.Errorf(plant.CodeBodyNotUTF8, "the body must be UTF-8")
	case !json.Valid(body):
		return plant.Errorf(plant.CodeBodyNotJSON, "the body must be one JSON object (RFC 8259)")
	case body[0] != '{':
		return plant.Errorf(plant.CodeBodyNotObject, "the body must be a JSON object")
	}
	given := map[string]bool{}
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
			return plant.InvalidInput("unknown member %q; use %s", server.Shorten(name),
				strings.Join(slices.Sorted(maps.Keys(members)), ", "))
		case given[name]:
			return plant.Errorf(plant.CodeMemberTwice, "member %s occurs twice; send it once", name)
		case string(value) == "null" || json.Unmarshal(value, into) != nil:
			return plant.InvalidInput("%s must be %s; got %s", name, kindOf(into), server.Shorten(string(value)))
		case value[0] == '"' && plant.HasUnpaired(value):
			return plant.Errorf(plant.CodeLoneSurrogate,
				"%s contains an unpaired surrogate; send the whole pair or the character in UTF-8", name)
		}
		given[name] = true
	}
	return nil
}

// kindOf returns the type of a member for a message.
func kindOf(into any) string {
	switch into.(type) {
	case *string, **string:
		return "a string"
	case *bool:
		return "true or false"
	case *[]string:
		return "a list of strings"
	case *[]int64:
		return "a list of 64-bit integers"
	case **time.Time:
		return "a time of the form 2026-11-22T09:30:00Z"
	case **auth.Hash:
		return "the SHA-256 of a secret in 64 hexadecimal digits"
	default:
		return "a 64-bit integer"
	}
}
