package postgres

import (
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// URL is the address of a database, as ParseURL returned it. The zero value is no
// address.
type URL struct {
	text       string // for pgx; may hold a password
	shown      string
	password   bool
	parameters []string // name=value
}

// Reveal returns the whole URL, passwords included, for Config.
func (u URL) Reveal() string { return u.text }

// String returns the URL without its passwords, and without the parameters that may hold
// any text. It is safe to show and to log.
func (u URL) String() string { return u.shown }

// HasPassword reports whether the URL contains a password of any kind.
func (u URL) HasPassword() bool { return u.password }

// has reports whether the URL has a parameter.
func (u URL) has(name string) bool {
	return slices.ContainsFunc(u.parameters, func(p string) bool { return strings.HasPrefix(p, name+"=") })
}

// hidden replaces a secret, as in (*url.URL).Redacted.
const hidden = "xxxxx"

const (
	hostSyntax      = `(?:\[[^][/?@]+\]|[^][:/?,@]*)(?::[0-9]*)?`
	parameterSyntax = `[a-z_]+=[^&=@]*`
)

var (
	isURL = regexp.MustCompile(`^(?i:postgres(?:ql)?://)`)

	// afterScheme divides the rest of a URL into user, password, place and parameters. As in pgx, only
	// a slash ends the search for the @ after the password. There must be no other @: the text
	// before it may be a part of the password.
	afterScheme = regexp.MustCompile(`^(?:([^:@/]*)(:[^@/]*)?(@))?` +
		`(` + hostSyntax + `(?:,` + hostSyntax + `)*(?:/[^?@]*)?)` +
		`(?:\?((?:` + parameterSyntax + `(?:&` + parameterSyntax + `)*)?))?$`)

	// shownParameter matches a parameter that String returns.
	shownParameter = regexp.MustCompile(`^(?:dbname|host|sslmode|user)=`)
)

// errURL contains no text of the URL, because any part of it may be a part of a password.
var errURL = errors.New("the URL is not of the form postgres://user:password@host:port/database?name=value; " +
	"write colons and names as they are, ports as numbers, and percent-encode other characters: " +
	"@ as %40, / as %2F, % as %25, & as %26, = as %3D, a space as %20")

// IsURL reports whether a text begins like the URL of a PostgreSQL database.
// A scheme is the same in upper and lower case (RFC 3986, section 3.1).
func IsURL(text string) bool { return isURL.MatchString(text) }

// ParseURL reads the URL of a database: postgres:// or postgresql://, then as in
// https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS.
// It resolves nothing: no environment variable, file or host name.
//
// It refuses an ambiguous URL, because String might return a part of a password as
// something else. Its errors contain no text of the URL.
func ParseURL(text string) (URL, error) {
	scheme := strings.ToLower(isURL.FindString(text))
	parts := afterScheme.FindStringSubmatch(text[len(scheme):])
	_, err := url.PathUnescape(text)
	isBlank := func(r rune) bool { return r <= ' ' || r == 0x7f }
	if scheme == "" || parts == nil || err != nil || strings.ContainsFunc(text, isBlank) {
		return URL{}, errURL
	}
	user, password, at, place, query := parts[1], parts[2], parts[3], parts[4], parts[5]
	u := URL{text: scheme + parts[0], password: password != ""}
	if u.password {
		password = ":" + hidden
	}
	u.shown = scheme + user + password + at + place
	if query != "" {
		u.parameters = strings.Split(query, "&")
		u.password = u.password || u.has("password") || u.has("sslpassword")
		shown := slices.Clone(u.parameters)
		for i, p := range shown {
			if !shownParameter.MatchString(p) {
				shown[i] = hidden
			}
		}
		u.shown += "?" + strings.Join(shown, "&")
	}
	if strings.Contains(strings.ToLower(u.shown), "%3a") { // perhaps between a user and a password
		return URL{}, errURL
	}
	return u, nil
}
