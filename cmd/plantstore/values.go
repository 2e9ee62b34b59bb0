package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// address is a host and port to listen on.
type address string

func (a *address) String() string { return string(*a) }

func (a *address) Type() string { return "address" }

// Set implements pflag.Value.
func (a *address) Set(text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return fmt.Errorf("%q is no address to listen on: give one like 127.0.0.1:8080", text)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return fmt.Errorf("%q has no port from 0 to 65535", text)
	}
	*a = address(text)
	return nil
}

// baseURL is an http or https URL; nil if none was given.
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
		return fmt.Errorf("%q is no base URL: give one like https://plants.example/store", text)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("a base URL has no user, query or fragment")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	if u.RawPath != "" || strings.Contains(u.Path, "//") {
		return fmt.Errorf("%q has a path that is not plain", text)
	}
	b.url = u
	return nil
}

// choice is one of a few words.
type choice struct {
	value   string
	allowed []string
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

// byteCount is a number of bytes, written plainly or with KiB, MiB or GiB.
type byteCount struct{ n, min, max int64 }

var byteUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}}

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
		return fmt.Errorf("%q is no number of bytes: give one like 65536 or 64KiB", text)
	}
	if n *= factor; n < b.min || n > b.max {
		return fmt.Errorf("%s is out of range: from %s to %s", text, formatBytes(b.min), formatBytes(b.max))
	}
	b.n = n
	return nil
}

// fileName is the name of a file in a flag. It is empty only if the flag is not given: an unset variable of a script must
// not send a secret to standard output.
type fileName string

func (n *fileName) String() string { return string(*n) }

func (n *fileName) Type() string { return "file" }

// Set implements pflag.Value.
func (n *fileName) Set(text string) error {
	if text == "" {
		return errors.New("the name is empty: name a file, or leave the flag out")
	}
	*n = fileName(text)
	return nil
}
