package admin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/dump"
	"plantstore/internal/importer"
	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/postgres/pgtest"
	"plantstore/internal/store"
	"plantstore/internal/writepath"
)

// openPostgres opens an engine on a new database, and returns a connection to the same database.
func openPostgres(t *testing.T) (*postgres.Engine, *pgx.Conn) {
	t.Helper()
	server, err := pgtest.Start(t.Context())
	if errors.Is(err, pgtest.ErrMissing) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	url, err := server.Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	engine, err := postgres.Open(t.Context(), postgres.Config{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return engine, c
}

// A search holds no snapshot while it waits for its client, so it blocks no vacuum. It ends when its client
// disconnects, also in a read that waits for a lock.
func TestSearchInPostgreSQL(t *testing.T) {
	t.Parallel()
	engine, c := openPostgres(t)
	var batch []store.Create
	for id := range int64(5000) {
		batch = append(batch, create(id, "Acer", plant.Tag{}))
	}
	if _, err := engine.Insert(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	service, err := admin.New(admin.Config{Engine: engine})
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	end, err := service.Search(ctx, admin.SearchQuery{Name: "acer", Limit: 4000}, func(p admin.SearchProgress) error {
		var held int
		err := c.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
			AND query LIKE '%FROM plants%' AND pid <> pg_backend_pid()
			AND (backend_xmin IS NOT NULL OR xact_start IS NOT NULL)`).Scan(&held)
		if err != nil || held > 0 {
			t.Errorf("after %d plants: %d backends hold a snapshot, %v", p.Rows, held, err)
		}
		if p.Rows == 0 {
			return nil
		}
		if _, err := c.Exec(ctx, "BEGIN; LOCK TABLE plants"); err != nil {
			t.Error(err)
		}
		go func() { // ends with the search
			defer cancel()
			awaitBlocked(t, c)
		}()
		return nil
	})
	if !errors.Is(err, context.Canceled) || end.Rows != 2048 { // the lock is still held
		t.Errorf("got %+v, %v", end, err)
	}
}

// awaitBlocked waits until a connection waits for a lock of c.
func awaitBlocked(t *testing.T, c *pgx.Conn) {
	for deadline := time.Now().Add(wait); time.Now().Before(deadline); {
		var waiting bool
		err := c.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks
			WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid)))`).Scan(&waiting)
		if err != nil {
			t.Error(err)
		}
		if err != nil || waiting {
			return
		}
	}
	t.Error("no read waits for the lock")
}

// The reads of plants return the same for a store in PostgreSQL as for a file.
func TestPlantsInPostgreSQL(t *testing.T) {
	t.Parallel()
	engine, _ := openPostgres(t)
	batch := []store.Create{
		create(math.MinInt64, "Acer CAMPESTRE", plant.Tagged("tree")), create(5, "Straße", plant.Tag{}),
		create(math.MaxInt64, "水仙", plant.Tagged("")),
	}
	if _, err := engine.Insert(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	service, err := admin.New(admin.Config{Engine: engine})
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	for name, row := range map[string]struct {
		query admin.SearchQuery
		want  []int64
	}{
		"name":  {admin.SearchQuery{Name: "STRASSE"}, []int64{5}},
		"tag":   {admin.SearchQuery{Tag: plant.Tagged("")}, []int64{math.MaxInt64}},
		"all":   {admin.SearchQuery{}, []int64{math.MinInt64, 5, math.MaxInt64}},
		"zero":  {admin.SearchQuery{Name: "\x00", Tag: plant.Tagged("\x00")}, nil},
		"other": {admin.SearchQuery{Name: "rosa"}, nil},
	} {
		var got []int64
		row.query.Limit = 10
		end, err := service.Search(t.Context(), row.query, func(p admin.SearchProgress) error {
			for _, hit := range p.Hits {
				got = append(got, hit.ID)
			}
			return nil
		})
		if diff := cmp.Diff(row.want, got); diff != "" || err != nil || end.Rows != 3 || end.Reason != admin.Complete {
			t.Errorf("%s: %+v, %v (-want +got):\n%s", name, end, err, diff)
		}
	}
	for deadline := time.Now().Add(wait); ; {
		counts, _, err := service.Counts(time.Hour)
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("no counts: %v", err)
		}
		if counts != nil {
			if want := []admin.TagCount{{Tag: "", Plants: 1}, {Tag: "tree", Plants: 1}}; !cmp.Equal(want, counts.Tags) {
				t.Errorf("tags: got %v, want %v", counts.Tags, want)
			}
			return
		}
	}
}

// An import into a store in PostgreSQL counts and attributes the plants as one into a file.
func TestImportIntoPostgreSQL(t *testing.T) {
	t.Parallel()
	engine, _ := openPostgres(t)
	id, err := engine.CreateToken(t.Context(), auth.Token{
		Name: "nursery", Hash: auth.HashOf(auth.Mint()), Scopes: auth.ScopeCreate, CreatedAt: time.Now(),
	}, audit.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	st, err := writepath.New(t.Context(), writepath.Config{Engine: engine})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	service, err := admin.New(admin.Config{Engine: engine, WritePath: st})
	if err != nil {
		t.Fatal(err)
	}
	defer service.Close()
	var file strings.Builder
	file.WriteString("id,name\n")
	for i := range 2500 {
		fmt.Fprintf(&file, "%d,Rosa %d\n", i+1, i)
	}
	for _, want := range []importer.Counts{{Created: 2500, Conflicting: 1}, {Existing: 2500, Conflicting: 1}} {
		got, err := service.Import(t.Context(), admin.NewImport{
			ID: "a", Format: dump.CSV, OnConflict: importer.Report, Bytes: -1,
			File: func(context.Context) io.ReadCloser {
				return io.NopCloser(strings.NewReader(file.String() + "7,Other\n"))
			},
			Received: func() int64 { return 1 }, Principal: auth.Principal{TokenID: id, Name: "nursery"},
		})
		if err != nil || got.Counts != want || got.State != admin.JobComplete {
			t.Errorf("got %+v, %v; want %+v", got, err, want)
		}
	}
	if p, err := engine.Get(t.Context(), 2500); err != nil || p.CreatedBy != "nursery" {
		t.Errorf("got %+v, %v", p, err)
	}
}
