package postgres_test

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/postgres/pgtest"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
)

// server is the PostgreSQL server of the tests; nil if PostgreSQL is not installed.
var server *pgtest.Server

func TestMain(m *testing.M) {
	os.Exit(pgtest.Around(m.Run, &server))
}

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

// ownServer starts a PostgreSQL server for the test alone, with additional settings.
func ownServer(t *testing.T, settings ...string) *pgtest.Server {
	t.Helper()
	if server == nil {
		t.Skip("PostgreSQL is not installed")
	}
	own, err := pgtest.Start(t.Context(), settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
	return own
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
	execute(t, string(p), sql)
}

func TestEngine(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Store { return place(schema(t)) })
}

// TestScanFormats shows that Scan returns the same in the binary and in the text format of PostgreSQL.
func TestScanFormats(t *testing.T) {
	t.Parallel()
	url := schema(t)
	at := time.Date(1969, 12, 31, 23, 59, 59, 123456000, time.UTC)
	for i, mode := range []string{"cache_statement", "cache_describe", "simple_protocol"} {
		e := place(url + "&default_query_exec_mode=" + mode).Open(t)
		if i == 0 {
			create := func(id int64, tag plant.Tag) store.Create {
				return store.Create{Plant: plant.NewPlant{ID: id, Plant: plant.Plant{Name: "水仙", Tag: tag}}, At: at}
			}
			if err := insertBatch(t.Context(), e, []store.Create{
				create(math.MinInt64, plant.Tag{}), create(math.MaxInt64, plant.Tagged("")),
			}); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		_, _, err := e.Scan(t.Context(), math.MinInt64, 10, func(p *store.Scanned) {
			got = append(got, fmt.Sprintf("%d %s %t %d", p.ID, p.Name, p.Tag == nil, p.CreatedAt))
		})
		want := []string{"-9223372036854775808 水仙 true -876544", "9223372036854775807 水仙 false -876544"}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v, -want +got:\n%s", mode, err, diff)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}
