package postgres_test

import (
	"log/slog"
	"os"
	"testing"

	"plantstore/internal/postgres"
	"plantstore/internal/postgres/pgtest"
	"plantstore/internal/store/storetest"
)

// server is the PostgreSQL that all tests of the package use; nil if there is
// none.
var server *pgtest.Server

func TestMain(m *testing.M) { os.Exit(pgtest.Around(m.Run, &server)) }

// database returns the URL of an empty database.
func database(t testing.TB) string {
	t.Helper()
	if server == nil {
		t.Skip("there is no PostgreSQL")
	}
	url, err := server.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return url
}

type place string

func (p place) Open(t testing.TB) storetest.Engine {
	t.Helper()
	e, err := postgres.Open(t.Context(), postgres.Config{URL: string(p), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestEngine(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Store {
		if server == nil {
			t.Skip("there is no PostgreSQL")
		}
		url, err := server.Schema(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return place(url)
	})
}
