package postgres

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// URL is the address of a database, as ParseURL returned it. The zero value is no
// address.
type URL struct {
	text     string // for pgx; may hold a password
	shown    string
	password bool
	given    []string // names of the parameters after the question mark
	sslmode  bool     // a parameter sets sslmode
}

// Reveal returns the whole URL, passwords included, for Config.
func (u URL) Reveal() string { return u.text }

// String returns the URL without its passwords, and without the values of
// parameters that may hold any text. It is safe to show and to log.
func (u URL) String() string { return u.shown }

// HasPassword reports whether the URL contains a password of any kind.
func (u URL) HasPassword() bool { return u.password }

// hidden replaces a secret value, as in (*url.URL).Redacted.
const hidden = "xxxxx"

// The parameters that a URL may have. ParseURL refuses others, as libpq does: an
// unknown name is a mistake, or a part of a password.
var (
	parametersShown = []string{
		"application_name", "channel_binding", "connect_timeout", "database", "dbname", "default_query_exec_mode",
		"description_cache_capacity", "host", "krbspn", "krbsrvname", "lock_timeout", "max_protocol_version",
		"min_protocol_version", "passfile", "pool_health_check_period", "pool_max_conn_idle_time",
		"pool_max_conn_lifetime", "pool_max_conn_lifetime_jitter", "pool_max_conns", "pool_min_conns",
		"pool_min_idle_conns", "pool_ping_timeout", "port", "require_auth", "search_path", "service", "servicefile",
		"ssl", "sslcert", "sslcertmode", "sslkey", "sslmode", "sslnegotiation", "sslrootcert", "sslsni",
		"statement_cache_capacity", "statement_timeout", "target_session_attrs", "timezone", "user",
	}
	parametersHidden = []string{"options", "password", "sslpassword"}
)

// IsURL reports whether a text begins like the URL of a PostgreSQL database.
// A scheme is the same in upper and lower case (RFC 3986, section 3.1).
func IsURL(text string) bool {
	scheme, _, ok := strings.Cut(text, "://")
	scheme = strings.ToLower(scheme)
	return ok && (scheme == "postgres" || scheme == "postgresql")
}

// ParseURL reads the URL of a database: postgres:// or postgresql://, then as in
// https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-CONNSTRING-URIS.
// It resolves nothing: no environment variable, file or host name.
//
// It refuses an ambiguous URL, because String might return a part of a password as
// something else. Its errors contain no text of the URL.
func ParseURL(text string) (URL, error) {
	if !IsURL(text) {
		return URL{}, errors.New("not a PostgreSQL URL: a URL starts with postgres:// or postgresql://")
	}
	if i := strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }); i >= 0 {
		return URL{}, fmt.Errorf("the URL has a space or a control character at byte %d: percent-encode it", i+1)
	}
	scheme, rest, _ := strings.Cut(text, "://")
	scheme = strings.ToLower(scheme) + "://"
	u := URL{text: scheme + rest}

	var user string
	// As in libpq, only a slash ends the search for the @ after the user.
	if i := strings.IndexAny(rest, "@/"); i >= 0 && rest[i] == '@' {
		user, rest = rest[:i], rest[i+1:]
	}
	rest, query, hasQuery := strings.Cut(rest, "?")
	if strings.Contains(rest, "@") || strings.Contains(query, "@") {
		return URL{}, errors.New("the URL has an unexpected @: " +
			"in a user name or password, percent-encode @ as %40 and / as %2F")
	}
	user, err := u.parseUser(user)
	if err != nil {
		return URL{}, err
	}
	hosts, _, _ := strings.Cut(rest, "/")
	if err := checkHosts(hosts); err != nil {
		return URL{}, err
	}
	if _, err := decode(rest); err != nil {
		return URL{}, err
	}
	u.shown = scheme + user + rest
	if hasQuery {
		query, err = u.parseQuery(query)
		if err != nil {
			return URL{}, err
		}
		u.shown += "?" + query
	}
	return u, nil
}

// parseUser parses the user and the password before the @, and returns them without
// the password.
func (u *URL) parseUser(text string) (shown string, err error) {
	if text == "" {
		return "", nil
	}
	name, password, hasPassword := strings.Cut(text, ":")
	if _, err := decode(password); err != nil {
		return "", err
	}
	decoded, err := decode(name)
	if err != nil {
		return "", err
	}
	if err := checkUser(decoded); err != nil {
		return "", err
	}
	if !hasPassword {
		return name + "@", nil
	}
	u.password = true
	return name + ":" + hidden + "@", nil
}

// checkUser refuses a user name that may contain a password.
func checkUser(name string) error {
	if strings.Contains(name, ":") {
		return errors.New("the user name in the URL has an encoded colon: between user name and password write a plain colon")
	}
	return nil
}

// checkHosts refuses a list of hosts and ports that may contain a user.
func checkHosts(text string) error {
	for host := range strings.SplitSeq(text, ",") {
		var port string
		if address, ok := strings.CutPrefix(host, "["); ok { // IPv6
			address, port, ok = strings.Cut(address, "]")
			if !ok || address == "" || port != "" && port[0] != ':' {
				return errors.New("an IPv6 address in the URL is not written as [::1] or [::1]:5432")
			}
			host, port = address, strings.TrimPrefix(port, ":")
		} else {
			host, port, _ = strings.Cut(host, ":")
		}
		host, err := decode(host)
		if err != nil {
			return err
		}
		if err := checkHost(host); err != nil {
			return err
		}
		if err := checkPort(port); err != nil {
			return err
		}
	}
	return nil
}

// checkHost refuses a text that is no host name, address or socket directory.
func checkHost(host string) error {
	_, err := netip.ParseAddr(host)
	if strings.ContainsAny(host, "@ ") || strings.Contains(host, ":") && !strings.HasPrefix(host, "/") && err != nil {
		return errors.New("a host in the URL has an encoded @, colon or space: " +
			"between user, host and port write a plain @ and colon")
	}
	return nil
}

func checkPort(text string) error {
	if n, err := strconv.ParseUint(text, 10, 16); text != "" && (err != nil || n == 0) {
		return errors.New("a port in the URL is not a number from 1 to 65535; in a password percent-encode / as %2F")
	}
	return nil
}

// parseQuery parses the parameters, and returns them without their secrets.
func (u *URL) parseQuery(text string) (shown string, err error) {
	if text == "" {
		return "", nil
	}
	pairs := strings.Split(text, "&")
	for i, pair := range pairs {
		name, value, err := parseParameter(pair)
		if err != nil {
			return "", fmt.Errorf("parameter %d of the URL: %w", i+1, err)
		}
		if slices.Contains(u.given, name) {
			return "", fmt.Errorf("parameter %d of the URL: %s is given twice", i+1, name)
		}
		u.given = append(u.given, name)
		switch name {
		case "password", "sslpassword":
			u.password = true
		case "sslmode":
			u.sslmode = value != ""
		case "ssl":
			u.sslmode = u.sslmode || value == "true" // short for sslmode=require
		}
		if slices.Contains(parametersHidden, name) {
			value = hidden
		} else {
			_, value, _ = strings.Cut(pair, "=") // as it was encoded
		}
		pairs[i] = name + "=" + value
	}
	return strings.Join(pairs, "&"), nil
}

// parseParameter parses name=value. Its errors do not contain the name: it may be a
// part of a password with an &.
func parseParameter(pair string) (name, value string, err error) {
	name, value, ok := strings.Cut(pair, "=")
	if !ok || strings.Contains(value, "=") {
		return "", "", errors.New("want name=value; percent-encode & as %26 and = as %3D in a value")
	}
	if name, err = decode(name); err != nil {
		return "", "", err
	}
	if value, err = decode(value); err != nil {
		return "", "", err
	}
	switch {
	case !slices.Contains(parametersShown, name) && !slices.Contains(parametersHidden, name):
		known := slices.Sorted(slices.Values(slices.Concat(parametersShown, parametersHidden)))
		return "", "", fmt.Errorf("its name is unknown; names are in lower case: %s", strings.Join(known, ", "))
	case name == "user":
		err = checkUser(value)
	case name == "host":
		for host := range strings.SplitSeq(value, ",") {
			err = errors.Join(err, checkHost(host))
		}
	case name == "port":
		for port := range strings.SplitSeq(value, ",") {
			err = errors.Join(err, checkPort(port))
		}
	}
	return name, value, err
}

// decode undoes percent-encoding.
func decode(text string) (string, error) {
	decoded, err := url.PathUnescape(text)
	if err != nil { // its text may be a part of a password
		return "", errors.New("the URL has a % without two hexadecimal digits after it: write %25 for a plain %")
	}
	if strings.Contains(decoded, "\x00") {
		return "", errors.New("the URL has a NUL character")
	}
	return decoded, nil
}
