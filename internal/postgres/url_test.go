package postgres_test

import (
	"strings"
	"testing"

	"plantstore/internal/postgres"
)

// secret is the password in the URLs of these tests. No shown text may contain a part of it.
const secret = "s3cret"

func TestParseURL(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		in, shown string
		password  bool
	}{
		{"postgres://db1/plants", "postgres://db1/plants", false},
		{
			"postgresql://flora@db1:5432,db2/plants?sslmode=verify-full",
			"postgresql://flora@db1:5432,db2/plants?sslmode=verify-full", false,
		},
		{"POSTGRES://flora:s3cret@db1/plants", "postgres://flora:xxxxx@db1/plants", true},
		{"PostgreSQL://flora:s3cret@db1", "postgresql://flora:xxxxx@db1", true},
		{"postgres://flora:a%40s3cret%2F@db1/plants", "postgres://flora:xxxxx@db1/plants", true},
		{"postgres://flora:s3cret:?#&=%25@db1/plants", "postgres://flora:xxxxx@db1/plants", true},
		{"postgres://:s3cret@db1/plants", "postgres://:xxxxx@db1/plants", true},
		{"postgres://flora:@db1/plants", "postgres://flora:xxxxx@db1/plants", true},
		{
			"postgres:///plants?host=/tmp/pg&user=flora&password=s3cret",
			"postgres:///plants?host=/tmp/pg&user=flora&password=xxxxx", true,
		},
		{
			"postgres://db1/plants?pass%77ord=s3cret&sslmode=disable",
			"postgres://db1/plants?password=xxxxx&sslmode=disable", true,
		},
		{
			"postgres://db1/plants?sslkey=/k&sslpassword=s3cret",
			"postgres://db1/plants?sslkey=/k&sslpassword=xxxxx", true,
		},
		{"postgres://db1/plants?options=-c%20a.b%3Ds3cret", "postgres://db1/plants?options=xxxxx", false},
		{"postgres://db1/plants?", "postgres://db1/plants?", false},
		{"postgres://[::1]:5432,[2001:db8::1]/plants", "postgres://[::1]:5432,[2001:db8::1]/plants", false},
		{"postgres://%2Fvar%2Frun%2Fpg/plants", "postgres://%2Fvar%2Frun%2Fpg/plants", false},
		{
			"postgres://flora%40tenant@db1/plants?passfile=/p&pool_max_conns=3",
			"postgres://flora%40tenant@db1/plants?passfile=/p&pool_max_conns=3", false,
		},
	} {
		u, err := postgres.ParseURL(test.in)
		if err != nil {
			t.Errorf("%s: %v", test.in, err)
			continue
		}
		if u.String() != test.shown || u.HasPassword() != test.password {
			t.Errorf("%s: got %s and %t, want %s and %t", test.in, u, u.HasPassword(), test.shown, test.password)
		}
		if strings.Contains(u.String(), secret) {
			t.Errorf("%s is shown as %s", test.in, u)
		}
		again, err := postgres.ParseURL(u.Reveal())
		_, after, _ := strings.Cut(test.in, "://")
		if err != nil || again.String() != u.String() || !strings.HasSuffix(u.Reveal(), after) {
			t.Errorf("%s is revealed as %s: %v", test.in, u.Reveal(), err)
		}
	}
}

func TestParseURLRefuses(t *testing.T) {
	t.Parallel()
	const (
		at      = "the URL has an unexpected @: in a user name or password, percent-encode @ as %40 and / as %2F"
		port    = "a port in the URL is not a number from 1 to 65535; in a password percent-encode / as %2F"
		percent = "the URL has a % without two hexadecimal digits after it: write %25 for a plain %"
		user    = "the user name in the URL has an encoded colon: between user name and password write a plain colon"
		host    = "a host in the URL has an encoded @, colon or space: " +
			"between user, host and port write a plain @ and colon"
		noURL     = "not a PostgreSQL URL: a URL starts with postgres:// or postgresql://"
		space     = "the URL has a space or a control character at byte "
		ipv6      = "an IPv6 address in the URL is not written as [::1] or [::1]:5432"
		nameValue = "want name=value; percent-encode & as %26 and = as %3D in a value"
		unknown   = "its name is unknown; names are in lower case: application_name, channel_binding, "
	)
	for in, want := range map[string]string{
		"":                                               noURL,
		"postgres:/flora:s3cret@db1/plants":              noURL,
		"mysql://flora:s3cret@db1/plants":                noURL,
		"postgres://flora:s3 cret@db1":                   space + "20: percent-encode it",
		"postgres://flora:s3\tcret@db1":                  space + "20: percent-encode it",
		"postgres://flora:s3cret\x00@db1":                space + "24: percent-encode it",
		"postgres://flora:s3cret%00@db1":                 "the URL has a NUL character",
		"postgres://flora:a@s3cret@db1":                  at,
		"postgres://flora:12/s3cret@db1":                 at,
		"postgres://flora:12/a?b=s3cret@db":              at,
		"postgres://flora:s3/cret@db1":                   at,
		"postgres://db1/plants?user=a@b":                 at,
		"postgres://flora:s3cret/plants":                 port,
		"postgres://db1:0/plants":                        port,
		"postgres://db1:65536/plants":                    port,
		"postgres://db1/plants?port=s3cret":              "parameter 1 of the URL: " + port,
		"postgres://flora:s3cret%zz@db1":                 percent,
		"postgres://flora:s3cret%2@db1":                  percent,
		"postgres://db1/plants%":                         percent,
		"postgres://flora%3As3cret@db1":                  user,
		"postgres://db1?user=flora%3As3cret":             "parameter 1 of the URL: " + user,
		"postgres://flora%3As3cret%40db1/x":              host,
		"postgres://flora%3As3cret/x":                    host,
		"postgres://db1?host=a,b%40s3cret":               "parameter 1 of the URL: " + host,
		"postgres://[::1/plants":                         ipv6,
		"postgres://[]/plants":                           ipv6,
		"postgres://[::1]5432/plants":                    ipv6,
		"postgres://db1?s3cret":                          "parameter 1 of the URL: " + nameValue,
		"postgres://db1?password=s3&cret":                "parameter 2 of the URL: " + nameValue,
		"postgres://db1?password=s3=cret":                "parameter 1 of the URL: " + nameValue,
		"postgres://db1?password=s&3cret=a":              "parameter 2 of the URL: " + unknown,
		"postgres://db1?PASSWORD=s3cret":                 "parameter 1 of the URL: " + unknown,
		"postgres://db1?pwd=s3cret":                      "parameter 1 of the URL: " + unknown,
		"postgres://db1?sslmode=disable&sslmode=require": "parameter 2 of the URL: sslmode is given twice",
	} {
		u, err := postgres.ParseURL(in)
		if err == nil || !strings.HasPrefix(err.Error(), want) || u.String() != "" {
			t.Errorf("%q:\ngot  %q and %v\nwant %s", in, u, err, want)
			continue
		}
		if text := err.Error(); strings.Contains(text, "s3") || strings.Contains(text, "cret") {
			t.Errorf("%q: the password is shown: %s", in, err)
		}
	}
}

// FuzzParseURL shows that String returns a URL that ParseURL accepts and that shows the same, and nothing for a refused
// text.
func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{
		"postgres://flora:SECRET@db1/plants?sslmode=verify-full", "postgres://db1?password=SECRET",
		"postgres://u:a@SECRET@h", "postgres://SECRET/x",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := postgres.ParseURL(text)
		if err != nil {
			if u.String() != "" {
				t.Errorf("%q: refused, and shown as %s", text, u)
			}
			return
		}
		shown, err := postgres.ParseURL(u.String())
		if err != nil || shown.String() != u.String() {
			t.Errorf("%q is shown as %q, which is no URL: %v", text, u, err)
		}
	})
}
