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

// storeAddress is where a store is: the path of a file, or a PostgreSQL
// database. The zero value is no address.
//
// It implements pflag.Value, so what a user writes is parsed once. String
// returns the form that is safe to show; the password is in url alone.
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

// Type implements pflag.Value.
func (a *storeAddress) Type() string { return "store" }

const acceptedAddresses = "a store is the path of a file, or a PostgreSQL database: postgres://… or postgresql://…"

var (
	firstElement  = regexp.MustCompile(`^[^/]*`)
	schemeOf      = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]{0,19}):`)
	withoutScheme = regexp.MustCompile(`(?s)^(//|[^/.]).*(:.*@|\?.*=)`) // user:password@host/database, host/database?name=value
	encodedScheme = regexp.MustCompile(`(?i)^postgres(ql)?%3a`)         // all of a URL percent-encoded
)

// Set implements pflag.Value. Its errors contain nothing that may be secret.
func (a *storeAddress) Set(text string) (err error) {
	first := firstElement.FindString(text)
	switch {
	case text == "":
		return errors.New("the path is empty: give the path of a file")
	case postgres.IsURL(text):
		url, err := postgres.ParseURL(text)
		*a = storeAddress{url: url}
		return err
	case strings.Contains(first, "="):
		return fmt.Errorf("it has the form of a libpq keyword string, which is not accepted: %s; write a path with = in it as ./path", acceptedAddresses)
	case strings.Contains(first, ":"):
		seen := "has a colon before the first slash"
		if match := schemeOf.FindStringSubmatch(text); match != nil {
			seen = fmt.Sprintf("begins with the scheme %q", match[1])
		}
		return fmt.Errorf("it %s: %s; write a path with a colon in it as ./path", seen, acceptedAddresses)
	case encodedScheme.MatchString(text):
		return fmt.Errorf("it has the form of a URL whose colon and slashes are percent-encoded: %s", acceptedAddresses)
	case withoutScheme.MatchString(text):
		return fmt.Errorf("it has the form of a URL without its scheme: %s; write a path with these characters as ./path", acceptedAddresses)
	}
	*a = storeAddress{path: text}
	return nil
}

// file returns the path of a store that must be in a file.
func (a storeAddress) file() (string, error) {
	if a.isDatabase() {
		return "", usagef("this command needs a store in a file, and %s is a database: use PostgreSQL's own tools, such as pg_dump", a)
	}
	return a.path, nil
}

// filePath returns the path of an argument that names a store's file or a
// backup.
func filePath(argument string) (string, error) {
	var a storeAddress
	if err := a.Set(argument); err != nil {
		return "", usagef("%w", err)
	}
	return a.file()
}

// absolute returns the address as it is written where the working directory of
// this process is unknown. It is valid UTF-8.
func (a storeAddress) absolute() string {
	text := a.String()
	if path, err := filepath.Abs(a.path); err == nil && !a.isDatabase() {
		text = path
	}
	return strings.ToValidUTF8(text, "?")
}

// sameFile reports whether two paths name one file that is there.
func sameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}
