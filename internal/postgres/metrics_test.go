package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/store"
)

// TestMetrics shows that a scrape of the connection pool sends no query, and that the number of plants is the planner's
// estimate, if it has one.
func TestMetrics(t *testing.T) {
	t.Parallel()
	if server == nil {
		t.Skip("PostgreSQL is not installed")
	}
	url, err := server.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	open := func(metrics prometheus.Registerer) *postgres.Engine {
		t.Helper()
		e, err := postgres.Open(t.Context(), postgres.Config{URL: url, Server: true, Metrics: metrics})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	plants := func(e *postgres.Engine) int64 {
		t.Helper()
		state, err := e.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return state.Plants
	}

	e := open(nil)
	if got := plants(e); got != -1 {
		t.Errorf("without an estimate: got %d plants, want -1", got)
	}
	batch := make([]store.Create, 321)
	for i := range batch {
		batch[i] = store.Create{Plant: plant.NewPlant{ID: int64(i)}, At: time.Now()}
	}
	if err := insertBatch(t.Context(), e, batch); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Exec(t.Context(), "ANALYZE plants")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Fatal(err)
	}

	registry := prometheus.NewRegistry()
	e = open(registry)
	if got := plants(e); got != int64(len(batch)) {
		t.Errorf("got %d plants, want %d", got, len(batch))
	}
	const want = "# HELP plantstore_database_connections_in_use " +
		"Connections to the database that a transaction or query uses.\n" +
		`# TYPE plantstore_database_connections_in_use gauge
plantstore_database_connections_in_use 0
# HELP plantstore_database_connections_max Connections to the database that may be open at the same time.
# TYPE plantstore_database_connections_max gauge
plantstore_database_connections_max 8
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}
