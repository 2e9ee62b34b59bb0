package terminal

import (
	"bytes"
	"encoding/json"
	"io"
)

// With --json a command prints its result as one JSON object on one line, or a list as one object per line, and nothing
// else on standard output. docs/reference/json.md describes the objects. The rules for all of them:
//
//   - Names are in snake_case. A name ends with the unit if it is not obvious: _ms, _bytes.
//   - A time is RFC 3339 in UTC, with Z, in full precision; its name ends with _at.
//   - An integer is a JSON number of up to 64 bits.
//   - A member without a value is absent; no member is null. Counts, flags and lists are never absent.
//   - An error is text on standard error, with the exit code, as without --json.

// WriteJSON writes a value as one line of JSON.
func WriteJSON(w io.Writer, value any) error {
	if v, ok := value.(interface{ AppendJSON(dst []byte) []byte }); ok {
		value = json.RawMessage(v.AppendJSON(nil))
	}
	var line bytes.Buffer
	out := json.NewEncoder(&line)
	out.SetEscapeHTML(false)
	if err := out.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(EscapeJSON(line.Bytes()))
	return err
}
