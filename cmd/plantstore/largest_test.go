package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"plantstore/internal/plant"
	"plantstore/internal/postgres/pgtest"
)

// bodyOf returns a body of size bytes. Its name and tag have the shortest form in JSON; most formats need more bytes
// for one of them.
func bodyOf(size int) string {
	const head, middle, tail, unit = `{"id":-9e18,"name":"=`, `","tag":"`, `"}`, `x\"\\\u0001\b\f\n=\t=;=,'é`
	rest := size - len(head) - len(middle) - len(tail)
	name := strings.Repeat(unit, rest/len(unit))
	return head + name + middle + strings.Repeat("x", rest-len(name)) + tail
}

// The largest plant that a server accepts is the same after each format, plain and compressed, and after PostgreSQL.
// The long form of the test has the largest --body-max.
func TestLargestPlantInEveryFormat(t *testing.T) {
	t.Parallel()
	bodyMax := plant.BodyBytesMax
	if testing.Short() {
		bodyMax = 1 << 18
	}
	dir := t.TempDir()
	db := filepath.Join(dir, "0.db")
	s := startServer(t, db, "--body-max", fmt.Sprint(bodyMax))
	token := s.creator(t)
	body := bodyOf(bodyMax)
	for _, sent := range []struct {
		body string
		want int
	}{{body, http.StatusOK}, {body + " ", http.StatusRequestEntityTooLarge}} {
		status, response, err := post(t.Context(), httpClient(1), s.url, token, sent.body)
		if err != nil || status != sent.want {
			t.Fatalf("%d bytes: got %d %.100s, %v, want %d", len(sent.body), status, response, err, sent.want)
		}
	}
	s.stop(t)

	want := plantstore(t, "export", "--db", db)
	for i, format := range []string{"csv", "jsonl", "json", "csv.gz", "jsonl.zst", "json.gz"} {
		file := filepath.Join(dir, "plants."+format)
		plantstore(t, "export", "--db", db, "-o", file)
		db = filepath.Join(dir, fmt.Sprint(i+1, ".db"))
		got := plantstore(t, "import", file, "--db", db, "--create")
		if got != "created 1, existing 0, conflicting 0, invalid 0\n" {
			t.Fatalf("%s: got %q", format, got)
		}
	}
	if got := plantstore(t, "export", "--db", db); got != want {
		t.Errorf("after every format, the plant differs: %.200q, want %.200q", got, want)
	}

	url := database(t)
	plantstore(t, "move", "--from", db, "--to", url)
	if got := plantstore(t, "export", "--db", url); got != want {
		t.Errorf("in PostgreSQL, the plant differs: %.200q, want %.200q", got, want)
	}
	got := plantstore(t, "import", filepath.Join(dir, "plants.csv"), "--db", url)
	if got != "created 0, existing 1, conflicting 0, invalid 0\n" {
		t.Errorf("into PostgreSQL: got %q", got)
	}
}

// database returns the URL of an empty PostgreSQL database. Without PostgreSQL it skips the rest of the test.
func database(t *testing.T) string {
	t.Helper()
	url, err := postgresServer(t).Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// thePostgres is the PostgreSQL server of the tests. It starts with the first test that needs one; TestMain stops it.
var thePostgres struct {
	start  sync.Once
	server *pgtest.Server
	err    error
}

// postgresServer returns the PostgreSQL server of the tests. Without PostgreSQL it skips the test.
func postgresServer(t *testing.T) *pgtest.Server {
	t.Helper()
	p := &thePostgres
	p.start.Do(func() { p.server, p.err = pgtest.Start(context.WithoutCancel(t.Context())) })
	if errors.Is(p.err, pgtest.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(p.err)
	}
	if p.err != nil {
		t.Fatal(p.err)
	}
	return p.server
}
