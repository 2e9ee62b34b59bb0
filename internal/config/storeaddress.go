package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"plantstore/internal/postgres"
)

// StoreAddress is the address of a store: the path of a file or the URL of a PostgreSQL database. The zero value is no
// address.
//
// It implements pflag.Value.
type StoreAddress struct {
	Path string       // empty: a database
	URL  postgres.URL // empty: a file
}

// IsDatabase reports whether the store is in PostgreSQL.
func (a StoreAddress) IsDatabase() bool { return a.URL != "" }

// IsZero reports whether no address was given.
func (a StoreAddress) IsZero() bool { return a.String() == "" }

// String implements pflag.Value.
func (a StoreAddress) String() string { return a.Path + string(a.URL) }

// Type implements pflag.Value.
func (a *StoreAddress) Type() string { return "store" }

const acceptedAddresses = "use the path of a file, or a URL postgres://… or postgresql://…"

var (
	firstElement = regexp.MustCompile(`^[^/]*`)
	schemeOf     = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9+.-]{0,19}):`)
	// withoutScheme matches user:password@host/database and host/database?name=value.
	withoutScheme = regexp.MustCompile(`(?s)^(//|[^/.]).*(:.*@|\?.*=)`)
	encodedScheme = regexp.MustCompile(`(?i)^postgres(ql)?%3a`) // a percent-encoded URL
)

// Set implements pflag.Value. Its errors contain no part of the text that may be secret.
func (a *StoreAddress) Set(text string) (err error) {
	first := firstElement.FindString(text)
	switch {
	case text == "":
		return errors.New("the path is empty; use the path of a file")
	case postgres.IsURL(text):
		url, err := postgres.ParseURL(text)
		*a = StoreAddress{URL: url}
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
	*a = StoreAddress{Path: text}
	return nil
}

// File returns the path of a store in a file, and an error for a database.
func (a StoreAddress) File() (string, error) {
	if a.IsDatabase() {
		return "", Usagef("%s is a database, and this command needs a store in a file; use PostgreSQL's own tools, "+
			"such as pg_dump", a)
	}
	return a.Path, nil
}

// FilePath returns the path of an argument that is the path of a store or a backup.
func FilePath(argument string) (string, error) {
	var a StoreAddress
	if err := a.Set(argument); err != nil {
		return "", Usagef("%w", err)
	}
	return a.File()
}

// Absolute returns the address with an absolute path, as valid UTF-8.
func (a StoreAddress) Absolute() string {
	text := a.String()
	if path, err := filepath.Abs(a.Path); err == nil && !a.IsDatabase() {
		text = path
	}
	return strings.ToValidUTF8(text, "?")
}

// SameFile reports whether two paths name the same existing file.
func SameFile(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	return errA == nil && errB == nil && os.SameFile(infoA, infoB)
}

// CheckStore returns an error if the settings alone show that the store cannot be opened.
func (s *Settings) CheckStore() error {
	if !s.DB.IsDatabase() {
		if s.RequireSyncStandby {
			return s.Fault("require-sync-standby", "a store in a file has no standby")
		}
		return nil
	}
	if err := s.DB.URL.Check(); err != nil {
		return Usagef("%s: %w", s.Sources["db"], err)
	}
	return nil
}
