package postgres_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

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
			"postgres:///plants?host=/tmp/pg&user=flora&xxxxx", true,
		},
		{
			"postgres://db1/plants?password=s3cret&sslmode=disable",
			"postgres://db1/plants?xxxxx&sslmode=disable", true,
		},
		{
			"postgres://db1/plants?sslkey=/k&sslpassword=s3cret",
			"postgres://db1/plants?xxxxx&xxxxx", true,
		},
		{"postgres://db1/plants?options=-c%20a.b%3Ds3cret", "postgres://db1/plants?xxxxx", false},
		{"postgres://db1/plants?pwd=s3cret", "postgres://db1/plants?xxxxx", false}, // refused by Check
		{"postgres://db1/plants?", "postgres://db1/plants", false},
		{"postgres://[::1]:5432,[2001:db8::1]/plants", "postgres://[::1]:5432,[2001:db8::1]/plants", false},
		{"postgres://%2Fvar%2Frun%2Fpg/plants", "postgres://%2Fvar%2Frun%2Fpg/plants", false},
		{
			"postgres://flora%40tenant@db1/plants?passfile=/p&pool_max_conns=3",
			"postgres://flora%40tenant@db1/plants?xxxxx&xxxxx", false,
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
	const want = "the URL is not of the form postgres://user:password@host:port/database?name=value; "
	for _, in := range []string{
		"",
		"postgres:/flora:s3cret@db1/plants",
		"mysql://flora:s3cret@db1/plants",
		"postgres://flora:s3 cret@db1",
		"postgres://flora:s3\tcret@db1",
		"postgres://flora:s3cret\x00@db1",
		"postgres://flora:a@s3cret@db1",
		"postgres://flora:12/s3cret@db1",
		"postgres://flora:12/a?b=s3cret@db",
		"postgres://flora:s3/cret@db1",
		"postgres://db1/plants?user=a@b",
		"postgres://flora:s3cret/plants",
		"postgres://flora:s3cret,db2:5432/plants",
		"postgres://flora:12#s3cret/plants",
		"postgres://flora:s3cret%zz@db1",
		"postgres://flora:s3cret%2@db1",
		"postgres://db1/plants%",
		"postgres://flora%3As3cret@db1",
		"postgres://db1?user=flora%3As3cret",
		"postgres://flora%3as3cret%40db1/x",
		"postgres://flora%3As3cret/x",
		"postgres://[::1/plants",
		"postgres://[]/plants",
		"postgres://[::1]5432/plants",
		"postgres://db1?s3cret",
		"postgres://db1?password=s3&cret",
		"postgres://db1?password=s3=cret",
		"postgres://db1?password=s&3cret=a",
		"postgres://db1?PASSWORD=s3cret",
		"postgres://db1?pass%77ord=s3cret",
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

// FuzzParseURL shows that ParseURL divides a URL as the driver does: String names the same user, host and database, and
// HasPassword reports the password that the driver finds.
func FuzzParseURL(f *testing.F) {
	f.Setenv("PGPASSFILE", filepath.Join(f.TempDir(), "none"))
	for _, seed := range []string{
		"postgres://flora:SECRET@db1/plants", "postgres://flora:SECRET@db1?password=SECRET",
		"postgres://u:a?SECRET@h", "postgres://SECRET/x", "postgres://a:b@[::1]:1,c:2/d",
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
		revealed, err := pgconn.ParseConfig(u.Reveal())
		if err == nil && revealed.Password != "" && !u.HasPassword() {
			t.Errorf("%q has the password %q", text, revealed.Password)
		}
		if strings.Contains(text, "?") || err != nil {
			return
		}
		shown, err := pgconn.ParseConfig(u.String())
		if err != nil || shown.Host != revealed.Host || shown.Port != revealed.Port ||
			shown.User != revealed.User || shown.Database != revealed.Database {
			t.Errorf("%q is shown as %q: %v", text, u, err)
		}
	})
}
