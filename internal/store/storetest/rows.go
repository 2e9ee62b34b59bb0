package storetest

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// testPlantsByID reads plants with extreme ids, and one that is larger than a page.
func testPlantsByID(t *testing.T, s Store) {
	e := open(t, s)
	token := mustCreateToken(t, e, token("a", createdAt))
	all := []store.Create{
		create(math.MinInt64, "lowest", plant.Tag{}),
		create(-5, "", plant.Tagged("")),
		create(8, strings.Repeat("x", store.PlantsBytes+1), plant.Tag{}),
		create(9, "Acer", plant.Tagged("tree")),
		create(math.MaxInt64, "highest", plant.Tag{}),
	}
	for i := range all {
		all[i].By = token.ID
		all[i].At = createdAt.Add(time.Duration(i) * time.Hour)
	}
	mustInsert(t, e, slices.Clone(all)...)
	rows, err := e.PlantsByID(t.Context(), []int64{math.MinInt64, -6, -5, 8, 9, 10, math.MaxInt64}, math.MaxInt)
	must(t, err)
	within, err := e.PlantsByID(t.Context(), []int64{-5, 8, 9}, store.PlantsBytes)
	must(t, err)
	equal(t, "plants until their texts exceed the bytes", len(within), 2)
	var got []store.Create
	for _, r := range rows {
		got = append(got, store.Create{Plant: r.NewPlant, By: r.CreatedBy, At: r.CreatedAt.UTC()})
	}
	equal(t, "plants", got, all)
}

// testPutTokens stores tokens with given ids and times, updates them, and creates the token with the next id.
func testPutTokens(t *testing.T, s Store) {
	e := open(t, s)
	first, second := token("a", createdAt), token("b", createdAt)
	first.ID, second.ID = 3, 7
	second.Prefix = "" // as of a subject
	first.ExpiresAt, second.LastUsedAt = createdAt.Add(time.Hour), createdAt.Add(time.Minute)
	before, err := e.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := e.PutTokens(t.Context(), []auth.Token{first, second}); err != nil {
			t.Fatal(err)
		}
		equal(t, "tokens", mustTokens(t, e), []auth.Token{first, second})
		first.ExpiresAt, first.LastUsedAt, second.RevokedAt = time.Time{}, createdAt, createdAt.Add(time.Hour)
	}
	if now, err := e.State(t.Context()); err != nil || now.TokenChanges == before.TokenChanges {
		t.Errorf("State after PutTokens: %+v, %v; want a change", now, err)
	}
	equal(t, "the next token's id", mustCreateToken(t, e, token("c", createdAt)).ID, 8)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
