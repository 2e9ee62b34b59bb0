package audit

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The limits of an entry. Texts are cut at a limit; the decoder refuses longer ones.
const (
	textBytesMax  = 256
	keyBytesMax   = 64
	valueBytesMax = 1024
	detailsMax    = 256
	// EntryBytesMax bounds the canonical text of an entry: twice the values, because a character may be escaped.
	EntryBytesMax = 1 << 20
)

// TimeFormat is the layout of the times in entries, in UTC.
const TimeFormat = "2006-01-02T15:04:05.000000Z"

// The canonical text is JSON in the form of RFC 8785 (JSON Canonicalization Scheme): no white space, and the members of
// each object sorted. Every text is free of control characters, so only quotation marks and backslashes are escaped.
// A member whose text is empty is absent.

// encode returns the canonical text of a clean event.
func encode(sequence int64, e Event) string {
	var b bytes.Buffer
	b.WriteByte('{')
	member(&b, "action", string(e.Action))
	b.WriteString(`,"actor":{`)
	member(&b, "id", e.Actor.ID)
	member(&b, "kind", string(e.Actor.Kind))
	member(&b, "name", e.Actor.Name)
	member(&b, "sudo_user", e.Actor.SudoUser)
	b.WriteByte('}')
	member(&b, "address", e.Address)
	b.WriteString(`,"details":{`)
	for i, d := range e.Details {
		if i > 0 {
			b.WriteByte(',')
		}
		quote(&b, d.Key)
		b.WriteByte(':')
		quote(&b, d.Value)
	}
	b.WriteByte('}')
	member(&b, "request_id", e.RequestID)
	b.WriteString(`,"sequence":`)
	b.WriteString(strconv.FormatInt(sequence, 10))
	member(&b, "time", e.Time.Format(TimeFormat))
	b.WriteByte('}')
	return b.String()
}

// Text returns the canonical text of an entry.
func (e Entry) Text() string { return encode(e.Sequence, e.Event) }

// member writes a member of an object, after a comma unless it is the first one. It writes nothing for an empty text.
func member(b *bytes.Buffer, name, text string) {
	if text == "" {
		return
	}
	if last := b.Bytes()[b.Len()-1]; last != '{' {
		b.WriteByte(',')
	}
	quote(b, name)
	b.WriteByte(':')
	quote(b, text)
}

var escaper = strings.NewReplacer(`"`, `\"`, `\`, `\\`)

func quote(b *bytes.Buffer, text string) {
	b.WriteByte('"')
	_, _ = escaper.WriteString(b, text) // a bytes.Buffer returns no error
	b.WriteByte('"')
}

// clean returns the event as it is stored.
func clean(e Event) Event {
	e.Time = e.Time.UTC().Truncate(time.Microsecond)
	if year := e.Time.Year(); year < 0 || year > 9999 { // RFC 3339 has four digits
		e.Time = time.Time{}
	}
	for _, text := range e.texts() {
		*text.at = cleanText(*text.at, text.max)
	}
	e.Action = Action(cleanText(string(e.Action), textBytesMax))
	e.Actor.Kind = Kind(cleanText(string(e.Actor.Kind), textBytesMax))
	details := make([]Detail, 0, len(e.Details))
	for _, d := range e.Details {
		key := cleanText(d.Key, keyBytesMax)
		known := slices.ContainsFunc(details, func(o Detail) bool { return o.Key == key })
		if !known && keyForm.MatchString(key) && len(details) < detailsMax {
			details = append(details, Detail{key, cleanText(d.Value, valueBytesMax)})
		}
	}
	slices.SortFunc(details, func(a, b Detail) int { return cmp.Compare(a.Key, b.Key) })
	e.Details = details
	return e
}

type boundedText struct {
	at  *string
	max int
}

func (e *Event) texts() []boundedText {
	return []boundedText{
		{&e.Actor.ID, textBytesMax},
		{&e.Actor.Name, textBytesMax},
		{&e.Actor.SudoUser, textBytesMax},
		{&e.Address, textBytesMax},
		{&e.RequestID, textBytesMax},
	}
}

var keyForm = regexp.MustCompile(`^[a-z][a-z0-9._-]*$`)

// cleanText replaces control characters and invalid UTF-8 by U+FFFD and cuts the text to a number of bytes.
func cleanText(text string, bytesMax int) string {
	const ellipsis = "…"
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, text)
	if len(text) <= bytesMax {
		return text
	}
	end := bytesMax - len(ellipsis)
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + ellipsis
}

// stored is the JSON form of an entry, for the decoder.
type stored struct {
	Action    Action            `json:"action"`
	Actor     Actor             `json:"actor"`
	Address   string            `json:"address"`
	Details   map[string]string `json:"details"`
	RequestID string            `json:"request_id"`
	Sequence  int64             `json:"sequence"`
	Time      string            `json:"time"`
}

var (
	errNotCanonical = errors.New("its text is not in the canonical form")
	errMoved        = errors.New("its text has another sequence number")
)

// Entry decodes the row. The error is that Seal cannot have written the text; Entry does not check the chain.
func (r Row) Entry() (Entry, error) {
	e := Entry{Sequence: r.Sequence, Previous: r.Previous, Hash: r.Hash}
	if len(r.Text) > EntryBytesMax {
		return e, fmt.Errorf("its text has %d bytes; at most %d are allowed", len(r.Text), EntryBytesMax)
	}
	var s stored
	if err := json.Unmarshal([]byte(r.Text), &s); err != nil {
		return e, fmt.Errorf("its text is not valid: %w", err)
	}
	at, err := time.Parse(TimeFormat, s.Time)
	if err != nil {
		return e, fmt.Errorf("its time is not valid: %w", err)
	}
	e.Event = Event{
		Time: at, Action: s.Action, Origin: Origin{Actor: s.Actor, Address: s.Address, RequestID: s.RequestID},
	}
	for key, value := range s.Details {
		e.Details = append(e.Details, Detail{key, value})
	}
	e.Event = clean(e.Event)
	if s.Action == "" || encode(s.Sequence, e.Event) != r.Text {
		return e, errNotCanonical
	}
	if s.Sequence != r.Sequence {
		return e, fmt.Errorf("%w: %d", errMoved, s.Sequence)
	}
	return e, nil
}
