package postgres

import (
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// URL is the address of a database, as ParseURL returned it. It contains no password, so it is safe to show and to log.
type URL string

// parameters returns the parameters in the form name=value.
func (u URL) parameters() []string {
	_, query, _ := strings.Cut(string(u), "?")
	return strings.Split(query, "&")
}

// has reports whether the URL has a parameter.
func (u URL) has(name string) bool {
	return slices.ContainsFunc(u.parameters(), func(p string) bool { return strings.HasPrefix(p, name+"=") })
}

const (
	hostSyntax      = `(?:\[[^][/?@]+\]|[^][:/?,@]*)(?::[0-9]*)?`
	parameterSyntax = `[a-z_]+=[^&=@]*`
)

var (
	isURL = regexp.MustCompile(`^(?i:postgres(?:ql)?://)`)

	// afterScheme matches user, place and parameters. There must be no other @ and no colon before it: the text around
	// them may be a part of a password. As in pgx, only a slash ends the search for the @.
	afterScheme = regexp.MustCompile(`^(?:[^:@/]*@)?` +
		hostSyntax + `(?:,` + hostSyntax + `)*(?:/[^?@]*)?` +
		`(?:\?(?:` + parameterSyntax + `(?:&` + parameterSyntax + `)*)?)?$`)

	// hasSecret matches the usual forms of a password after the scheme.
	hasSecret = regexp.MustCompile(`(?i)^[^/]*:[^/]*@|[?&][a-z_]*(?:passw|secret|scram_)[a-z_]*=`)
)

// The errors of ParseURL contain no text of the URL, because any part of it may be a part of a password.
var (
	errURL = errors.New("the URL is not of the form postgres://user@host:port/database?name=value; " +
		"write colons and names as they are, ports as numbers, and percent-encode other characters: " +
		"@ as %40, / as %2F, % as %25, & as %26, = as %3D, a space as %20")
	errPassword = errors.New("the URL has a password, which lists of processes and outputs would show; " +
		"put the password into the file that PGPASSFILE names, or into PGPASSWORD")
)

// IsURL reports whether a text begins like the URL of a PostgreSQL database. A scheme is the same in upper and lower
// case (RFC 3986, section 3.1).
func IsURL(text string) bool { return isURL.MatchString(text) }

// ParseURL reads the URL of a database: postgres:// or postgresql://, then as in
// https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS.
// It resolves nothing: no environment variable, file or host name.
//
// It refuses a URL with a password, and an ambiguous one, a part of which may be a password.
func ParseURL(text string) (URL, error) {
	scheme := strings.ToLower(isURL.FindString(text))
	rest := text[len(scheme):]
	_, err := url.PathUnescape(text)
	isBlank := func(r rune) bool { return r <= ' ' || r == 0x7f }
	switch {
	case scheme != "" && hasSecret.MatchString(rest):
		return "", errPassword
	case scheme == "", !afterScheme.MatchString(rest), err != nil, strings.ContainsFunc(text, isBlank),
		strings.Contains(strings.ToLower(rest), "%3a"): // perhaps between a user and a password
		return "", errURL
	}
	return URL(scheme + strings.TrimSuffix(rest, "?")), nil
}
