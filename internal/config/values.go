package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/pflag"
)

// Address is a host and port to listen on.
type Address string

func (a *Address) String() string { return string(*a) }

// Type implements pflag.Value.
func (a *Address) Type() string { return "address" }

// Set implements pflag.Value.
func (a *Address) Set(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return fmt.Errorf("%q is not a host and port; use the form 127.0.0.1:8080", text)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("%q has an invalid port; use 0 to 65535", text)
	}
	*a = Address(text)
	return nil
}

// BaseURL is an http or https URL; the zero value is no URL.
type BaseURL struct{ URL *url.URL }

// Type implements pflag.Value.
func (b *BaseURL) Type() string { return "URL" }

func (b *BaseURL) String() string {
	if b.URL == nil {
		return ""
	}
	return b.URL.String()
}

// Set implements pflag.Value.
func (b *BaseURL) Set(text string) error {
	if text == "" {
		b.URL = nil
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%q is not an http or https URL; use the form https://plants.example/store", text)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("a base URL cannot have a user, query or fragment")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	if u.RawPath != "" || strings.Contains(u.Path, "//") {
		return fmt.Errorf("%q has an escape or an empty segment in its path; use a plain path", text)
	}
	b.URL = u
	return nil
}

// Choice is one of some words.
type Choice struct {
	Value   string
	Allowed []string
}

// among sets the allowed words and returns c.
func (c *Choice) among(words ...string) *Choice {
	c.Allowed = words
	return c
}

func (c *Choice) String() string { return c.Value }

// Type implements pflag.Value.
func (c *Choice) Type() string { return "word" }

// Set implements pflag.Value.
func (c *Choice) Set(text string) error {
	if !slices.Contains(c.Allowed, text) {
		return fmt.Errorf("%q is not one of %s", text, strings.Join(c.Allowed, ", "))
	}
	c.Value = text
	return nil
}

// ByteCount is a number of bytes, written as digits or with KiB, MiB or GiB.
type ByteCount struct{ N, Min, Max int64 }

var byteUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}

// between sets the range and returns b.
func (b *ByteCount) between(least, most int64) *ByteCount {
	b.Min, b.Max = least, most
	return b
}

// Type implements pflag.Value.
func (b *ByteCount) Type() string { return "bytes" }

func (b *ByteCount) String() string { return FormatBytes(b.N) }

// FormatBytes returns a number of bytes in the form that ByteCount accepts.
func FormatBytes(n int64) string {
	for _, unit := range slices.Backward(byteUnits) {
		if n >= unit.bytes && n%unit.bytes == 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

// Set implements pflag.Value.
func (b *ByteCount) Set(text string) error {
	number, factor := text, int64(1)
	for _, unit := range byteUnits {
		if rest, ok := strings.CutSuffix(text, unit.suffix); ok {
			number, factor = rest, unit.bytes
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/factor {
		return fmt.Errorf("%q is not a number of bytes; use the form 65536 or 64KiB", text)
	}
	if n *= factor; n < b.Min || n > b.Max {
		return fmt.Errorf("%s is out of range; use %s to %s", text, FormatBytes(b.Min), FormatBytes(b.Max))
	}
	b.N = n
	return nil
}

// Count is a whole number in a range.
type Count struct{ N, Min, Max int }

// between sets the range and returns c.
func (c *Count) between(least, most int) *Count {
	c.Min, c.Max = least, most
	return c
}

// Type implements pflag.Value.
func (c *Count) Type() string { return "number" }

func (c *Count) String() string { return strconv.Itoa(c.N) }

// Set implements pflag.Value.
func (c *Count) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("%q is not a whole number", text)
	}
	if err != nil || n < c.Min || n > c.Max {
		return fmt.Errorf("%s is out of range; use %d to %d", text, c.Min, c.Max)
	}
	c.N = n
	return nil
}

// Timeout is a duration longer than 0.
type Timeout time.Duration

// Type implements pflag.Value.
func (t *Timeout) Type() string { return "duration" }

func (t *Timeout) String() string { return FormatDuration(time.Duration(*t)) }

// Set implements pflag.Value.
func (t *Timeout) Set(text string) error {
	d, err := ParseDuration(text)
	if err == nil && d == 0 {
		err = fmt.Errorf("%s is out of range; use a duration longer than 0, such as 10s", text)
	}
	if err != nil {
		return err
	}
	*t = Timeout(d)
	return nil
}

// Toggle is true or false. A flag without a value is true.
type Toggle bool

const boolType = "bool" // pflag's name of the type

// Type implements pflag.Value.
func (b *Toggle) Type() string { return boolType }

func (b *Toggle) String() string { return strconv.FormatBool(bool(*b)) }

// Set implements pflag.Value.
func (b *Toggle) Set(text string) error {
	value, err := strconv.ParseBool(text)
	*b = Toggle(value)
	return err // valueFault describes it
}

// Text is any text.
type Text string

// Type implements pflag.Value.
func (t *Text) Type() string { return "text" }

func (t *Text) String() string { return string(*t) }

// Set implements pflag.Value.
func (t *Text) Set(value string) error {
	*t = Text(value)
	return nil
}

// List is a list of items, with commas between them. A flag that is repeated adds items.
type List struct {
	Items []string
	isSet bool
	check func(item string) error
	show  func(item string) string // returns an item without its secrets; nil: as it is
}

// of sets the check of an item and returns l.
func (l *List) of(check func(item string) error) *List {
	l.check = check
	return l
}

// shownBy sets the form in which outputs have the items and returns l.
func (l *List) shownBy(show func(item string) string) *List {
	l.show = show
	return l
}

// Type implements pflag.Value.
func (l *List) Type() string { return "list" }

func (l *List) String() string { return strings.Join(l.Shown(), ",") }

// Shown returns the items without their secrets.
func (l *List) Shown() []string {
	if l.show == nil {
		return l.Items
	}
	items := make([]string, len(l.Items))
	for i, item := range l.Items {
		items[i] = l.show(item)
	}
	return items
}

func (l *List) reveal() string { return strings.Join(l.Items, ",") }

// secretValue is a value whose String omits its secrets.
type secretValue interface {
	// reveal returns the text of the value with its secrets.
	reveal() string
}

// TextOf returns the text of a value with its secrets. Only Set and comparisons use it.
func TextOf(v pflag.Value) string {
	if s, ok := v.(secretValue); ok {
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
		if err := l.check(item); err != nil {
			return err
		}
	}
	if l.isSet {
		items = append(l.Items, items...)
	}
	l.Items, l.isSet = items, true
	return nil
}

// FileName is the name of a file in a flag. It is empty only if the flag is not given, because an unset variable of a
// script must not send a secret to standard output.
type FileName string

func (n *FileName) String() string { return string(*n) }

// Type implements pflag.Value.
func (n *FileName) Type() string { return "file" }

// Set implements pflag.Value.
func (n *FileName) Set(text string) error {
	if text == "" {
		return errors.New("the file name is empty; give a file name or omit the flag")
	}
	*n = FileName(text)
	return nil
}
