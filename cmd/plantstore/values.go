package main

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

// address is a host and port to listen on.
type address string

func (a *address) String() string { return string(*a) }

func (a *address) Type() string { return "address" }

// Set implements pflag.Value.
func (a *address) Set(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return fmt.Errorf("%q is not a host and port; use the form 127.0.0.1:8080", text)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("%q has an invalid port; use 0 to 65535", text)
	}
	*a = address(text)
	return nil
}

// baseURL is an http or https URL; the zero value is no URL.
type baseURL struct{ url *url.URL }

func (b *baseURL) Type() string { return "URL" }

func (b *baseURL) String() string {
	if b.url == nil {
		return ""
	}
	return b.url.String()
}

// Set implements pflag.Value.
func (b *baseURL) Set(text string) error {
	if text == "" {
		b.url = nil
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
	b.url = u
	return nil
}

// choice is one of some words.
type choice struct {
	value   string
	allowed []string
}

// among sets the allowed words and returns c.
func (c *choice) among(words ...string) *choice {
	c.allowed = words
	return c
}

func (c *choice) String() string { return c.value }

func (c *choice) Type() string { return "word" }

// Set implements pflag.Value.
func (c *choice) Set(text string) error {
	if !slices.Contains(c.allowed, text) {
		return fmt.Errorf("%q is not one of %s", text, strings.Join(c.allowed, ", "))
	}
	c.value = text
	return nil
}

// byteCount is a number of bytes, written as digits or with KiB, MiB or GiB.
type byteCount struct{ n, min, max int64 }

var byteUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}

// between sets the range and returns b.
func (b *byteCount) between(least, most int64) *byteCount {
	b.min, b.max = least, most
	return b
}

func (b *byteCount) Type() string { return "bytes" }

func (b *byteCount) String() string { return formatBytes(b.n) }

func formatBytes(n int64) string {
	for _, unit := range slices.Backward(byteUnits) {
		if n >= unit.bytes && n%unit.bytes == 0 {
			return strconv.FormatInt(n/unit.bytes, 10) + unit.suffix
		}
	}
	return strconv.FormatInt(n, 10)
}

// Set implements pflag.Value.
func (b *byteCount) Set(text string) error {
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
	if n *= factor; n < b.min || n > b.max {
		return fmt.Errorf("%s is out of range; use %s to %s", text, formatBytes(b.min), formatBytes(b.max))
	}
	b.n = n
	return nil
}

// count is a whole number in a range.
type count struct{ n, min, max int }

// between sets the range and returns c.
func (c *count) between(least, most int) *count {
	c.min, c.max = least, most
	return c
}

func (c *count) Type() string { return "number" }

func (c *count) String() string { return strconv.Itoa(c.n) }

// Set implements pflag.Value.
func (c *count) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("%q is not a whole number", text)
	}
	if err != nil || n < c.min || n > c.max {
		return fmt.Errorf("%s is out of range; use %d to %d", text, c.min, c.max)
	}
	c.n = n
	return nil
}

// timeout is a duration longer than 0.
type timeout time.Duration

func (t *timeout) Type() string { return "duration" }

func (t *timeout) String() string { return formatDuration(time.Duration(*t)) }

// Set implements pflag.Value.
func (t *timeout) Set(text string) error {
	d, err := parseDuration(text)
	if err == nil && d == 0 {
		err = fmt.Errorf("%s is out of range; use a duration longer than 0, such as 10s", text)
	}
	if err != nil {
		return err
	}
	*t = timeout(d)
	return nil
}

// toggle is true or false. A flag without a value is true.
type toggle bool

const boolType = "bool" // pflag's name of the type

func (b *toggle) Type() string { return boolType }

func (b *toggle) String() string { return strconv.FormatBool(bool(*b)) }

// Set implements pflag.Value.
func (b *toggle) Set(text string) error {
	value, err := strconv.ParseBool(text)
	*b = toggle(value)
	return err // valueFault describes it
}

// text is any text.
type text string

func (t *text) Type() string { return "text" }

func (t *text) String() string { return string(*t) }

// Set implements pflag.Value.
func (t *text) Set(value string) error {
	*t = text(value)
	return nil
}

// list is a list of items, with commas between them. A flag that is repeated adds items.
type list struct {
	items []string
	isSet bool
	check func(item string) error
	show  func(item string) string // returns an item without its secrets; nil: as it is
}

// of sets the check of an item and returns l.
func (l *list) of(check func(item string) error) *list {
	l.check = check
	return l
}

// shownBy sets the form in which outputs have the items and returns l.
func (l *list) shownBy(show func(item string) string) *list {
	l.show = show
	return l
}

func (l *list) Type() string { return "list" }

func (l *list) String() string { return strings.Join(l.shown(), ",") }

// shown returns the items without their secrets.
func (l *list) shown() []string {
	if l.show == nil {
		return l.items
	}
	items := make([]string, len(l.items))
	for i, item := range l.items {
		items[i] = l.show(item)
	}
	return items
}

func (l *list) reveal() string { return strings.Join(l.items, ",") }

// secretValue is a value whose String omits its secrets.
type secretValue interface {
	// reveal returns the text of the value with its secrets.
	reveal() string
}

// textOf returns the text of a value with its secrets. Only Set and comparisons use it.
func textOf(v pflag.Value) string {
	if s, ok := v.(secretValue); ok {
		return s.reveal()
	}
	return v.String()
}

// Set implements pflag.Value.
func (l *list) Set(text string) error {
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
		items = append(l.items, items...)
	}
	l.items, l.isSet = items, true
	return nil
}

// fileName is the name of a file in a flag. It is empty only if the flag is not given, because an unset variable of a
// script must not send a secret to standard output.
type fileName string

func (n *fileName) String() string { return string(*n) }

func (n *fileName) Type() string { return "file" }

// Set implements pflag.Value.
func (n *fileName) Set(text string) error {
	if text == "" {
		return errors.New("the file name is empty; give a file name or omit the flag")
	}
	*n = fileName(text)
	return nil
}
