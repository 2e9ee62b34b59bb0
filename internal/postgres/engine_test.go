package postgres_test

import (
	"log/slog"
	"os"
	"strings"
	"testing"

	"plantstore/internal/postgres"
	"plantstore/internal/postgres/pgtest"
	"plantstore/internal/store/storetest"
)

// server is the PostgreSQL server of the tests; nil if PostgreSQL is not installed.
var server *pgtest.Server

func TestMain(m *testing.M) { os.Exit(pgtest.Around(m.Run, &server)) }

// database returns the URL of an empty database.
func database(t testing.TB) string {
	t.Helper()
	if server == nil {
		t.Skip("PostgreSQL is not installed")
	}
	url, err := server.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// schema returns the URL of an empty schema in a database of several tests.
func schema(t testing.TB) string {
	t.Helper()
	if server == nil {
		t.Skip("PostgreSQL is not installed")
	}
	url, err := server.Schema(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return url
}

// place is the URL of a store.
type place string

func (p place) Open(t testing.TB) storetest.Engine {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	e, err := postgres.Open(t.Context(), postgres.Config{URL: string(p), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Tamper implements storetest.Store.
func (p place) Tamper(t testing.TB, sql string) {
	t.Helper()
	execute(t, string(p), strings.ReplaceAll(sql, "STATE", "plantstore"))
}

func TestEngine(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Store { return place(schema(t)) })
}
