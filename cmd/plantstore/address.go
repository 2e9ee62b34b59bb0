package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"plantstore/internal/postgres"
)

// storeAddress is the address of a store: the path of a file or the URL of a PostgreSQL database. The zero value is no
// address.
//
// It implements pflag.Value. String omits the password; reveal returns it.
type storeAddress struct {
	path string       // empty: a database
	url  postgres.URL // zero: a file
}

// isDatabase reports whether the store is in PostgreSQL.
func (a storeAddress) isDatabase() bool { return a.url.String() != "" }

// isZero reports whether no address was given.
func (a storeAddress) isZero() bool { return a.String() == "" }

// String implements pflag.Value.
func (a storeAddress) String() string { return a.path + a.url.String() }

func (a storeAddress) reveal() string { return a.path + a.url.Reveal() }

// Type implements pflag.Value.
func (a *storeAddress) Type() string { return "store" }

const acceptedAddresses = "use the path of a file, or a URL postgres://… or postgresql://…"

var (
	firstElement = regexp.MustCompile(`^[^/]*`)
	schemeOf     = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]{0,19}):`)
	// withoutScheme matches user:password@host/database and host/database?name=value.
	withoutScheme = regexp.MustCompile(`(?s)^(//|[^/.]).*(:.*@|\?.*=)`)
	encodedScheme = regexp.MustCompile(`(?i)^postgres(ql)?%3a`) // a percent-encoded URL
)

// Set implements pflag.Value. Its errors contain no part of the text that may be secret.
func (a *storeAddress) Set(text string) (err error) {
	first := firstElement.FindString(text)
	switch {
	case text == "":
		return errors.New("the path is empty; use the path of a file")
	case postgres.IsURL(text):
		url, err := postgres.ParseURL(text)
		*a = storeAddress{url: url}
		return err
	case strings.Contains(first, "="):
		return fmt.Errorf("the address is a libpq keyword string; %s; write a path with = as ./path", acceptedAddresses)
	case strings.Contains(first, ":"):
		fault := "has a colon before the first slash"
		if match := schemeOf.FindStringSubmatch(text); match != nil {
			fault = fmt.Sprintf("has the scheme %q", match[1])
		}
		return fmt.Errorf("the address %s; %s; write a path with a colon as ./path", fault, acceptedAddresses)
	case encodedScheme.MatchString(text):
		return fmt.Errorf("the address is a percent-encoded URL; %s", acceptedAddresses)
	case withoutScheme.MatchString(text):
		return fmt.Errorf("the address is a URL without a scheme; %s; write a path with these characters as ./path",
			acceptedAddresses)
	}
	*a = storeAddress{path: text}
	return nil
}

// file returns the path of a store in a file, and an error for a database.
func (a storeAddress) file() (string, error) {
	if a.isDatabase() {
		return "", usagef("%s is a database, and this command needs a store in a file; use PostgreSQL's own tools, "+
			"such as pg_dump", a)
	}
	return a.path, nil
}

// filePath returns the path of an argument that is the path of a store or a backup.
func filePath(argument string) (string, error) {
	var a storeAddress
	if err := a.Set(argument); err != nil {
		return "", usagef("%w", err)
	}
	return a.file()
}

// absolute returns the address with an absolute path, as valid UTF-8.
func (a storeAddress) absolute() string {
	text := a.String()
	if path, err := filepath.Abs(a.path); err == nil && !a.isDatabase() {
		text = path
	}
	return strings.ToValidUTF8(text, "?")
}

// sameFile reports whether two paths name the same existing file.
func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}
