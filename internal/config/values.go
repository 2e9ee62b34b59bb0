package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/pflag"
)

// value is a setting or a flag with a value of type T.
type value[T any] struct {
	to     *T
	parse  func(text string) (T, error)
	format func(T) string
	words  []string                 // the only texts that parse accepts; nil: it accepts others
	show   func(text string) string // returns the text without its secrets; nil: as it is
}

// Set implements pflag.Value.
func (v *value[T]) Set(text string) error {
	parsed, err := v.parse(text)
	if err == nil {
		*v.to = parsed
	}
	return err
}

func (v *value[T]) String() string {
	if v.show == nil {
		return v.reveal()
	}
	return v.show(v.reveal())
}

func (v *value[T]) reveal() string { return v.format(*v.to) }

const boolType = "bool" // pflag's name of the type

// Type implements pflag.Value.
func (v *value[T]) Type() string {
	if _, ok := any(v.to).(*bool); ok {
		return boolType
	}
	return "value"
}

func (v *value[T]) allWords() []string { return v.words }

// WordsOf returns the only texts that a value accepts, nil if it accepts others.
func WordsOf(v pflag.Value) []string {
	if c, ok := v.(interface{ allWords() []string }); ok {
		return c.allWords()
	}
	return nil
}

// checked is a text without a fault.
func checked(to *string, check func(text string) error) pflag.Value {
	return &value[string]{
		to: to, parse: func(text string) (string, error) { return text, check(text) },
		format: func(text string) string { return text },
	}
}

// optional returns a check that also accepts no text.
func optional(check func(text string) error) func(text string) error {
	return func(text string) error {
		if text == "" {
			return nil
		}
		return check(text)
	}
}

func text(to *string) pflag.Value { return checked(to, func(string) error { return nil }) }

// FileName is the name of a file in a flag. It is empty only if the flag is not given, because an unset variable of a
// script must not send a secret to standard output.
func FileName(to *string) pflag.Value {
	return checked(to, func(name string) error {
		if name == "" {
			return errors.New("the file name is empty; give a file name or omit the flag")
		}
		return nil
	})
}

// checkAddress returns an error for a text that is not a host and port to listen on.
func checkAddress(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return fmt.Errorf("%q is not a host and port; use the form 127.0.0.1:8080", text)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("%q has an invalid port; use 0 to 65535", text)
	}
	return nil
}

// toggle is true or false. A flag without a value is true. ValueFault describes its errors.
func toggle(to *bool) pflag.Value {
	return &value[bool]{to: to, parse: strconv.ParseBool, format: strconv.FormatBool}
}

// baseURL is an http or https URL, or nil.
func baseURL(to **url.URL) pflag.Value {
	return &value[*url.URL]{to: to, parse: parseBaseURL, format: func(u *url.URL) string {
		if u == nil {
			return ""
		}
		return u.String()
	}}
}

func parseBaseURL(text string) (*url.URL, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // no URL
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not an http or https URL; use the form https://plants.example/store", text)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("a base URL cannot have a user, query or fragment")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	if u.RawPath != "" || strings.Contains(u.Path, "//") {
		return nil, fmt.Errorf("%q has an escape or an empty segment in its path; use a plain path", text)
	}
	return u, nil
}

// Choice is one of some words.
func Choice(to *string, words ...string) pflag.Value {
	return &value[string]{
		to: to, words: words, format: func(word string) string { return word },
		parse: func(text string) (string, error) {
			if !slices.Contains(words, text) {
				return "", fmt.Errorf("%q is not one of %s", text, strings.Join(words, ", "))
			}
			return text, nil
		},
	}
}

// byteCount is a number of bytes in a range, written as digits or with KiB, MiB or GiB.
func byteCount(to *int64, least, most int64) pflag.Value {
	return &value[int64]{to: to, format: FormatBytes, parse: func(text string) (int64, error) {
		number, factor := text, int64(1)
		for _, unit := range byteUnits {
			if rest, ok := strings.CutSuffix(text, unit.suffix); ok {
				number, factor = rest, unit.bytes
			}
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 0 || n > (1<<62)/factor {
			return 0, fmt.Errorf("%q is not a number of bytes; use the form 65536 or 64KiB", text)
		}
		if n *= factor; n < least || n > most {
			return 0, fmt.Errorf("%s is out of range; use %s to %s", text, FormatBytes(least), FormatBytes(most))
		}
		return n, nil
	}}
}

var byteUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}

// FormatBytes returns a number of bytes in the form of a setting.
func FormatBytes(n int64) string {
	for _, unit := range slices.Backward(byteUnits) {
		if n >= unit.bytes && n%unit.bytes == 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

// count is a whole number from least on.
func count(to *int, least int) pflag.Value {
	const most = 1 << 20 // it only has to be finite
	return &value[int]{to: to, format: strconv.Itoa, parse: func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return 0, fmt.Errorf("%q is not a whole number", text)
		}
		if err != nil || n < least || n > most {
			return 0, fmt.Errorf("%s is out of range; use %d to %d", text, least, most)
		}
		return n, nil
	}}
}

// ID is the id of a plant. It has decimal digits: pflag's integers read 010 as 8.
func ID(to *int64) pflag.Value {
	return &value[int64]{
		to: to, format: func(id int64) string { return strconv.FormatInt(id, 10) },
		parse: func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) },
	}
}

// List is a list of items, with commas between them. A flag that is repeated adds items.
type List struct {
	to    *[]string
	isSet bool
	check func(item string) error  // nil: none
	show  func(item string) string // returns an item without its secrets; nil: as it is
}

func list(to *[]string, check func(item string) error) *List { return &List{to: to, check: check} }

// Type implements pflag.Value.
func (l *List) Type() string { return "list" }

func (l *List) String() string { return strings.Join(l.Shown(), ",") }

// Shown returns the items without their secrets.
func (l *List) Shown() []string {
	if l.show == nil {
		return *l.to
	}
	var items []string
	for _, item := range *l.to {
		items = append(items, l.show(item))
	}
	return items
}

func (l *List) reveal() string { return strings.Join(*l.to, ",") }

// TextOf returns the text of a value with its secrets, which String omits. Only Set and comparisons use it.
func TextOf(v pflag.Value) string {
	if s, ok := v.(interface{ reveal() string }); ok {
		return s.reveal()
	}
	return v.String()
}

// Set implements pflag.Value.
func (l *List) Set(text string) error {
	var items []string
	if text != "" {
		items = strings.Split(text, ",")
	}
	for _, item := range items {
		if strings.ContainsFunc(item, unicode.IsControl) {
			return errors.New("an item of the list has a control character") // and possibly a secret, so it is not repeated
		}
		if l.check == nil {
			continue
		}
		if err := l.check(item); err != nil {
			return err
		}
	}
	if l.isSet {
		items = append(*l.to, items...)
	}
	*l.to, l.isSet = items, true
	return nil
}
