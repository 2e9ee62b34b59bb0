package admin_test

import (
	"errors"
	"math"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/admin"
	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/postgres/pgtest"
	"plantstore/internal/store"
)

// The reads of plants return the same for a store in PostgreSQL as for a file.
func TestPlantsInPostgreSQL(t *testing.T) {
	t.Parallel()
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
	defer engine.Close()
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
