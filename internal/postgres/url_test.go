package postgres_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"plantstore/internal/postgres"
)

func TestParseURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]postgres.URL{
		"postgres://db1/plants": "postgres://db1/plants",
		"postgresql://flora@db1:5432,db2/plants?sslmode=verify-full": "" +
			"postgresql://flora@db1:5432,db2/plants?sslmode=verify-full",
		"POSTGRES://flora@db1/plants":                       "postgres://flora@db1/plants",
		"PostgreSQL://flora@db1":                            "postgresql://flora@db1",
		"postgres:///plants?host=/tmp/pg&user=flora":        "postgres:///plants?host=/tmp/pg&user=flora",
		"postgres://db1/plants?options=-c%20a.b%3Dc":        "postgres://db1/plants?options=-c%20a.b%3Dc",
		"postgres://db1/plants?":                            "postgres://db1/plants",
		"postgres://[::1]:5432,[2001:db8::1]/plants":        "postgres://[::1]:5432,[2001:db8::1]/plants",
		"postgres://flora@[::1]:5432/plants":                "postgres://flora@[::1]:5432/plants",
		"postgres://%2Fvar%2Frun%2Fpg/plants":               "postgres://%2Fvar%2Frun%2Fpg/plants",
		"postgres://flora%40tenant@db1/plants?passfile=/p":  "postgres://flora%40tenant@db1/plants?passfile=/p",
		"postgres://db1/plants?sslkey=/k&pool_max_conns=12": "postgres://db1/plants?sslkey=/k&pool_max_conns=12",
	} {
		if u, err := postgres.ParseURL(in); u != want || err != nil {
			t.Errorf("%s: got %s, %v, want %s", in, u, err, want)
		}
	}
}

// TestParseURLRefuses lists URLs with a password, and others of which a part may be one. No error has a part of them.
func TestParseURLRefuses(t *testing.T) {
	t.Parallel()
	const password = "the URL has a password, which lists of processes and outputs would show; "
	const form = "the URL is not of the form postgres://user@host:port/database?name=value; "
	for want, list := range map[string][]string{
		password: {
			"POSTGRES://flora:s3cret@db1/plants",
			"postgres://flora:a%40s3cret%2F@db1/plants",
			"postgres://flora:s3cret:?#&=%25@db1/plants",
			"postgres://:s3cret@db1/plants",
			"postgres://flora:@db1/plants",
			"postgres:///plants?host=/tmp/pg&user=flora&password=s3cret",
			"postgres://db1/plants?password=s3cret&sslmode=disable",
			"postgres://db1/plants?sslkey=/k&sslpassword=s3cret",
			"postgres://db1/plants?passwd=s3cret",
			"postgres://db1/plants?scram_client_key=s3cret",
			"postgres://flora:s3 cret@db1",
			"postgres://flora:s3\tcret@db1",
			"postgres://flora:s3cret\x00@db1",
			"postgres://flora:a@s3cret@db1",
			"postgres://flora:s3cret%zz@db1",
			"postgres://flora:s3cret%2@db1",
			"postgres://db1?password=s3&cret",
			"postgres://db1?password=s3=cret",
			"postgres://db1?password=s&3cret=a",
			"postgres://db1?PASSWORD=s3cret",
		},
		form: {
			"",
			"postgres:/flora:s3cret@db1/plants",
			"mysql://flora:s3cret@db1/plants",
			"postgres://flora:12/s3cret@db1",
			"postgres://flora:12/a?b=s3cret@db",
			"postgres://flora:s3/cret@db1",
			"postgres://db1/plants?user=a@b",
			"postgres://flora:s3cret/plants",
			"postgres://flora:s3cret,db2:5432/plants",
			"postgres://flora:12#s3cret/plants",
			"postgres://db1/plants%",
			"postgres://flora%3As3cret@db1",
			"postgres://db1?user=flora%3As3cret",
			"postgres://flora%3as3cret%40db1/x",
			"postgres://flora%3As3cret/x",
			"postgres://[::1/plants",
			"postgres://[]/plants",
			"postgres://[::1]5432/plants",
			"postgres://db1?s3cret",
			"postgres://db1?pass%77ord=s3cret",
		},
	} {
		for _, in := range list {
			u, err := postgres.ParseURL(in)
			if err == nil || !strings.HasPrefix(err.Error(), want) || u != "" {
				t.Errorf("%q:\ngot  %q and %v\nwant %s", in, u, err, want)
				continue
			}
			if text := err.Error(); strings.Contains(text, "s3") || strings.Contains(text, "cret") {
				t.Errorf("%q: the password is shown: %s", in, err)
			}
		}
	}
}

// FuzzParseURL shows that the driver finds no password in an accepted URL.
func FuzzParseURL(f *testing.F) {
	f.Setenv("PGPASSFILE", filepath.Join(f.TempDir(), "none"))
	for _, seed := range []string{
		"postgres://flora:SECRET@db1/plants", "postgres://flora@db1?password=SECRET", "postgres://flora@db1:1/x?user=y",
		"postgres://u:a?SECRET@h", "postgres://SECRET/x", "postgres://a@[::1]:1,c:2/d",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := postgres.ParseURL(text)
		if err != nil {
			if u != "" {
				t.Errorf("%q: refused, and returned as %s", text, u)
			}
			return
		}
		if found, err := pgconn.ParseConfig(string(u)); err == nil && found.Password != "" {
			t.Errorf("%q has the password %q", text, found.Password)
		}
	})
}
