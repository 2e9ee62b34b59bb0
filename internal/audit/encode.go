package audit

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The limits of an entry. Texts are cut at a limit; the decoder refuses longer ones.
const (
	textBytesMax = 256
	keyBytesMax  = 64
	detailsMax   = 256

	// ValueBytesMax bounds the value of a detail.
	ValueBytesMax = 1024
	// EntryBytesMax bounds the canonical text of an entry: twice the values, because a character may be escaped.
	EntryBytesMax = 1 << 20
)

// TimeFormat is the layout of the times in entries, in UTC.
const TimeFormat = "2006-01-02T15:04:05.000000Z"

// canonical is an entry as JSON. Its text has the form of RFC 8785 (JSON Canonicalization Scheme): no white space,
// sorted members, and no character that encoding/json escapes and the RFC does not. A member whose text is empty is
// absent.
type canonical struct {
	Action    Action            `json:"action,omitempty"`
	Actor     Actor             `json:"actor"`
	Address   string            `json:"address,omitempty"`
	Details   map[string]string `json:"details"`
	RequestID string            `json:"request_id,omitempty"`
	Sequence  int64             `json:"sequence"`
	Time      string            `json:"time"`
}

// encode returns the canonical text of a clean event.
func encode(sequence int64, e Event) string {
	c := canonical{
		Action: e.Action, Actor: e.Actor, Address: e.Address, Details: map[string]string{}, RequestID: e.RequestID,
		Sequence: sequence, Time: e.Time.Format(TimeFormat),
	}
	for _, d := range e.Details {
		c.Details[d.Key] = d.Value
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(c) // cannot fail for these types
	return strings.TrimSuffix(text.String(), "\n")
}

// Text returns the canonical text of an entry.
func (e Entry) Text() string { return encode(e.Sequence, e.Event) }

// clean returns the event as it is stored.
func clean(e Event) Event {
	e.Time = e.Time.UTC().Truncate(time.Microsecond)
	if year := e.Time.Year(); year < 0 || year > 9999 { // RFC 3339 has four digits
		e.Time = time.Time{}
	}
	for _, text := range []*string{&e.Actor.ID, &e.Actor.Name, &e.Actor.SudoUser, &e.Address, &e.RequestID} {
		*text = cleanText(*text, textBytesMax)
	}
	e.Action = Action(cleanText(string(e.Action), textBytesMax))
	e.Actor.Kind = Kind(cleanText(string(e.Actor.Kind), textBytesMax))
	details := make([]Detail, 0, len(e.Details))
	for _, d := range e.Details {
		key := cleanText(d.Key, keyBytesMax)
		known := slices.ContainsFunc(details, func(o Detail) bool { return o.Key == key })
		if !known && keyForm.MatchString(key) && len(details) < detailsMax {
			details = append(details, Detail{key, cleanText(d.Value, ValueBytesMax)})
		}
	}
	slices.SortFunc(details, func(a, b Detail) int { return cmp.Compare(a.Key, b.Key) })
	e.Details = details
	return e
}

var keyForm = regexp.MustCompile(`^[a-z][a-z0-9._-]*$`)

// cleanText replaces control characters, line separators and invalid UTF-8 by U+FFFD, and cuts the text to a number of
// bytes.
func cleanText(text string, bytesMax int) string {
	const ellipsis = "…"
	text = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp) {
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

var (
	errNotCanonical = errors.New("its text is not in the canonical form")
	errMoved        = errors.New("its text has another sequence number")
)

// Entry decodes the row. An error means that Seal cannot have written the text. Entry does not check the chain.
func (r Row) Entry() (Entry, error) {
	e := Entry{Sequence: r.Sequence, Previous: r.Previous, Hash: r.Hash}
	if len(r.Text) > EntryBytesMax {
		return e, fmt.Errorf("its text has %d bytes; at most %d are allowed", len(r.Text), EntryBytesMax)
	}
	var c canonical
	if err := json.Unmarshal([]byte(r.Text), &c); err != nil {
		return e, fmt.Errorf("its text is not valid: %w", err)
	}
	at, err := time.Parse(TimeFormat, c.Time)
	if err != nil {
		return e, fmt.Errorf("its time is not valid: %w", err)
	}
	e.Event = Event{
		Time: at, Action: c.Action, Origin: Origin{Actor: c.Actor, Address: c.Address, RequestID: c.RequestID},
	}
	for key, value := range c.Details {
		e.Details = append(e.Details, Detail{key, value})
	}
	e.Event = clean(e.Event)
	if c.Action == "" || encode(c.Sequence, e.Event) != r.Text {
		return e, errNotCanonical
	}
	if c.Sequence != r.Sequence {
		return e, fmt.Errorf("%w: %d", errMoved, c.Sequence)
	}
	return e, nil
}
