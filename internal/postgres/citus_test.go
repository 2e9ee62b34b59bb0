package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
)

// citusVariable is the URL of a database with the extension Citus, on the coordinator of a cluster. The tests
// create schemas in it and remove them.
const citusVariable = "PLANTSTORE_TEST_CITUS"

// citusMu serializes the creation of stores: two transactions that distribute tables may deadlock.
var citusMu sync.Mutex

// citusURL returns the URL of the cluster, or skips the test.
func citusURL(t testing.TB) string {
	t.Helper()
	base := os.Getenv(citusVariable)
	if base == "" {
		t.Skip("no Citus: set " + citusVariable + " to the URL of a database with the extension")
	}
	return base
}

// distributed returns the URL of a new store whose table plants is distributed.
func distributed(t testing.TB) string {
	t.Helper()
	base := citusURL(t)
	citusMu.Lock()
	defer citusMu.Unlock()
	name := fmt.Sprint("test", time.Now().UnixNano())
	executeAfter(t, base, "CREATE SCHEMA "+name)
	t.Cleanup(func() { executeAfter(t, base, "DROP SCHEMA "+name+" CASCADE") })
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("search_path", name)
	u.RawQuery = query.Encode()
	if err := place(u.String()).Open(t).Close(); err != nil { // creates the tables
		t.Fatal(err)
	}
	executeAfter(t, u.String(), "SELECT create_distributed_table('plants', 'id', shard_count => 4)")
	return u.String()
}

// executeAfter is execute that also works after the test.
func executeAfter(t testing.TB, url, sql string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	if _, err := c.Exec(ctx, sql); err != nil {
		t.Fatalf("%s: %v", strings.Fields(sql)[0], err)
	}
}

// imitated returns the URL of an empty schema in a database of PostgreSQL that has the name of the extension Citus
// in its catalogue. So the engine uses its statements for Citus.
func imitated(t testing.TB) string {
	t.Helper()
	imitatedMu.Lock()
	defer imitatedMu.Unlock()
	if imitatedURL == "" {
		imitatedURL = database(t)
		imitate(t, imitatedURL)
	}
	name := fmt.Sprint("test", time.Now().UnixNano())
	execute(t, imitatedURL, "CREATE SCHEMA "+name)
	return imitatedURL + "&search_path=" + name
}

// imitatedMu guards imitatedURL, the database of the schemas that imitated returns.
var (
	imitatedMu  sync.Mutex
	imitatedURL string
)

func imitate(t testing.TB, at string) {
	t.Helper()
	execute(t, at, `SET allow_system_table_mods = on; INSERT INTO pg_extension
		(oid, extname, extowner, extnamespace, extrelocatable, extversion)
		SELECT 1, 'citus', extowner, extnamespace, FALSE, '0' FROM pg_extension LIMIT 1`)
}

// TestCitus runs the suite of all engines on a cluster.
func TestCitus(t *testing.T) {
	t.Parallel()
	citusURL(t)
	storetest.Run(t, func(t testing.TB) storetest.Store {
		return place(distributed(t))
	})
}

// TestCitusStatements runs the suite of all engines with the statements for Citus on PostgreSQL.
func TestCitusStatements(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t testing.TB) storetest.Store { return place(imitated(t)) })
}

// TestCitusBatch stores a batch of several statements and the smallest ones, with plants that exist.
func TestCitusBatch(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]func(testing.TB) string{"imitated": imitated, "cluster": distributed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := place(at(t)).Open(t)
			defer e.Close()
			for _, batch := range []struct{ first, end int64 }{
				{0, 1}, {10, 13}, {0, 3}, {100, 105}, {0, 1200}, {1200, 1400},
			} {
				var creates []store.Create
				for id := batch.first; id < batch.end; id++ {
					creates = append(creates, store.Create{
						Plant: plant.NewPlant{ID: id, Plant: plant.Plant{Name: fmt.Sprint("plant ", id)}}, By: batch.end, At: time.Now(),
					})
				}
				before := existing(t, e)
				outcomes, err := e.Insert(t.Context(), creates)
				if err != nil {
					t.Fatal(err)
				}
				var replayed []int64
				for i, o := range outcomes {
					if o.Conflict != nil {
						t.Errorf("plant %d: %v", creates[i].Plant.ID, o.Conflict)
					}
					if o.Replayed {
						replayed = append(replayed, creates[i].Plant.ID)
					}
				}
				want := slices.DeleteFunc(before, func(id int64) bool { return id < batch.first || id >= batch.end })
				if !slices.Equal(replayed, want) {
					t.Errorf("%+v: replayed %d, want %d", batch, replayed, want)
				}
			}
			if n := len(existing(t, e)); n != 1400 {
				t.Errorf("%d plants are stored, want 1400", n)
			}
		})
	}
}

// existing returns the ids of all plants in ascending order.
func existing(t testing.TB, e storetest.Engine) (ids []int64) {
	t.Helper()
	all, err := e.List(t.Context(), store.Query{Limit: 10000})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		ids = append(ids, p.ID)
	}
	return ids
}

// citus stores plants with the statements for Citus, including a plant that exists.
func (r *recorder) citus(t *testing.T) {
	at := r.database(t)
	imitate(t, at)
	e, err := postgres.Open(t.Context(), postgres.Config{URL: at})
	if err != nil {
		t.Fatal(err)
	}
	for _, ids := range [][]int64{{1}, {1, 2}} {
		var batch []store.Create
		for _, id := range ids {
			batch = append(batch, store.Create{Plant: plant.NewPlant{ID: id}, At: time.Now()})
		}
		if err := insertBatch(t.Context(), e, batch); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
