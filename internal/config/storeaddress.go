package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"plantstore/internal/postgres"
	"plantstore/internal/store"
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

// otherAddress matches URLs of other schemes, encoded URLs, keyword strings of libpq, and URLs without a scheme. All of
// them may have a password.
var otherAddress = regexp.MustCompile(`(?s)^[^/]*([:=]|%3[aA])|^(//|[^/.]).*(:.*@|\?.*=)`)

// Set implements pflag.Value. Its errors contain no part of the text that may be secret.
func (a *StoreAddress) Set(text string) (err error) {
	*a = StoreAddress{} // after an error, no default takes its place
	switch {
	case text == "":
		return errors.New("the path is empty; use the path of a file")
	case postgres.IsURL(text):
		url, err := postgres.ParseURL(text)
		*a = StoreAddress{URL: url}
		return err
	case otherAddress.MatchString(text):
		return errors.New("the address is neither a path nor a URL of PostgreSQL; use the path of a file, or a URL " +
			"postgres://… or postgresql://…; write a path with a colon, an equals sign or a question mark as ./path")
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

// NoStore adds what to do to the error of a store that does not exist, and returns any other error as it is. It must
// not lead to a second store.
func (s *Settings) NoStore(err error) error {
	if !errors.Is(err, store.ErrNoStore) {
		return err
	}
	switch source := s.Sources["db"]; source {
	case Default:
		err = fmt.Errorf("%w: name yours with --db, or its settings with --config; plantstore serve creates one here", err)
	case s.Config:
		err = fmt.Errorf("%w, which %s names: start its server, or correct db in the file", err, source)
	default:
		err = fmt.Errorf("%w: check %s; plantstore serve creates a store", err, source)
	}
	return err
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
