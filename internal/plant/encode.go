package plant

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// AppendJSON appends the plant to dst as the JSON object of a response: name, and tag if the plant has one.
func (p Plant) AppendJSON(dst []byte) []byte {
	return p.appendMembers(append(dst, '{'))
}

// AppendJSON appends the plant to dst as a JSON object: id, name, and tag if the plant has one. Decode returns the same
// plant for it.
func (n NewPlant) AppendJSON(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = strconv.AppendInt(dst, n.ID, 10)
	return n.appendMembers(append(dst, ','))
}

// MarshalJSON returns the result of AppendJSON.
func (n NewPlant) MarshalJSON() ([]byte, error) { return n.AppendJSON(nil), nil }

// UnmarshalJSON sets the result of Decode.
func (n *NewPlant) UnmarshalJSON(text []byte) (err error) {
	*n, err = Decode(text)
	return err
}

func (p Plant) appendMembers(dst []byte) []byte {
	dst = append(dst, `"name":`...)
	dst = AppendString(dst, p.Name)
	if p.Tag.present {
		dst = append(dst, `,"tag":`...)
		dst = AppendString(dst, p.Tag.text)
	}
	return append(dst, '}')
}

// AppendJSON appends the record to dst as a JSON object: the members of the plant, created_at in RFC 3339, and
// created_by unless an import created the plant. A damaged record has the members id and damaged.
func (r Record) AppendJSON(dst []byte) []byte {
	if r.Damaged {
		return append(strconv.AppendInt(append(dst, `{"id":`...), r.ID, 10), `,"damaged":true}`...)
	}
	dst = r.NewPlant.AppendJSON(dst)
	dst = append(dst[:len(dst)-1], `,"created_at":`...)
	dst = AppendString(dst, r.CreatedAt.Format(time.RFC3339Nano))
	if r.CreatedBy != "" {
		dst = append(dst, `,"created_by":`...)
		dst = AppendString(dst, r.CreatedBy)
	}
	return append(dst, '}')
}

// MarshalJSON returns the result of AppendJSON.
func (r Record) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil), nil }

// UnmarshalJSON parses the result of AppendJSON.
func (r *Record) UnmarshalJSON(text []byte) error {
	var j struct {
		ID        int64     `json:"id"`
		Name      string    `json:"name"`
		Tag       *string   `json:"tag"`
		CreatedAt time.Time `json:"created_at"`
		CreatedBy string    `json:"created_by"`
		Damaged   bool      `json:"damaged"`
	}
	if err := json.Unmarshal(text, &j); err != nil {
		return err
	}
	*r = Record{CreatedAt: j.CreatedAt, CreatedBy: j.CreatedBy, Damaged: j.Damaged}
	r.ID, r.Name = j.ID, j.Name
	if j.Tag != nil {
		r.Tag = Tagged(*j.Tag)
	}
	return nil
}

// The characters that a backslash and a letter stand for, and these letters (RFC 8259 section 7).
const (
	escapedBytes  = "\"\\/\b\f\n\r\t"
	escapeLetters = `"\/bfnrt`
)

// AppendString appends text, which must be UTF-8, to dst as a JSON string. It escapes only the characters that RFC 8259
// section 7 requires, each in its shortest form. So no text is longer than in the body that it came from.
func AppendString(dst []byte, text string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := range len(text) {
		c := text[i]
		if c >= 0x20 && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, text[start:i]...)
		start = i + 1
		if i := strings.IndexByte(escapedBytes, c); i >= 0 {
			dst = append(dst, '\\', escapeLetters[i])
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	dst = append(dst, text[start:]...)
	return append(dst, '"')
}
