package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

func testReading(t *testing.T, s Store) {
	e := open(t, s)
	by := mustCreateToken(t, e, token("nursery", createdAt))
	ids := []int64{5, math.MaxInt64, -3, 0, math.MinInt64, 17}
	var batch []store.Create
	for i, id := range ids {
		c := create(id, fmt.Sprint("plant ", id), plant.Tag{})
		c.At = createdAt.Add(time.Duration(i) * time.Microsecond)
		switch i % 3 {
		case 1:
			c.Plant.Tag = plant.Tagged("tree")
			c.By = by.ID
		case 2:
			c.Plant.Tag = plant.Tagged("")
		}
		batch = append(batch, c)
	}
	mustInsert(t, e, batch...)
	for _, test := range []struct {
		name string
		q    store.Query
		want []int64
	}{
		{"all", store.Query{From: math.MinInt64, Limit: 100}, []int64{math.MinInt64, -3, 0, 5, 17, math.MaxInt64}},
		{"limit", store.Query{From: math.MinInt64, Limit: 2}, []int64{math.MinInt64, -3}},
		{"from a stored id", store.Query{From: 0, Limit: 2}, []int64{0, 5}},
		{"from an id that is not stored", store.Query{From: 6, Limit: 2}, []int64{17, math.MaxInt64}},
		{"the last", store.Query{From: math.MaxInt64, Limit: 5}, []int64{math.MaxInt64}},
		{"tag", store.Query{From: math.MinInt64, Limit: 5, Tag: plant.Tagged("tree")}, []int64{math.MinInt64, math.MaxInt64}},
		{"empty tag", store.Query{From: math.MinInt64, Limit: 5, Tag: plant.Tagged("")}, []int64{-3, 17}},
		{"tag and from", store.Query{From: 0, Limit: 5, Tag: plant.Tagged("tree")}, []int64{math.MaxInt64}},
		{"tag without a plant", store.Query{From: math.MinInt64, Limit: 5, Tag: plant.Tagged("Tree")}, nil},
	} {
		var got []int64
		for _, r := range mustList(t, e, test.q) {
			got = append(got, r.ID)
		}
		equal(t, test.name, got, test.want)
	}
	for i, c := range batch {
		want := plant.Record{NewPlant: c.Plant, CreatedAt: c.At}
		if c.By != 0 {
			want.CreatedBy = "nursery"
		}
		equal(t, fmt.Sprint("plant ", ids[i]), mustGet(t, e, ids[i]), want)
	}
	for _, id := range []int64{1, 6, -4, math.MaxInt64 - 1} {
		if _, err := e.Get(t.Context(), id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("Get(%d): %v, want %v", id, err, store.ErrNotFound)
		}
	}
}

func testPages(t *testing.T, s Store) {
	e := open(t, s)
	mustInsert(t, e,
		create(20, strings.Repeat("x", store.PlantsBytes/2), plant.Tag{}),
		create(21, "x", plant.Tagged(strings.Repeat("x", store.PlantsBytes/2))),
		create(22, strings.Repeat("x", store.PlantsBytes+1), plant.Tag{}),
		create(23, "small", plant.Tag{}),
		create(math.MaxInt64, "small", plant.Tag{}),
	)
	for _, test := range []struct {
		name string
		from int64
		want []int64
	}{
		{"two texts exceed PlantsBytes", 20, []int64{20, 21}},
		{"one text exceeds PlantsBytes", 22, []int64{22}},
		{"the next page", 23, []int64{23, math.MaxInt64}},
	} {
		var got []int64
		for _, r := range mustList(t, e, store.Query{From: test.from, Limit: 100}) {
			got = append(got, r.ID)
		}
		equal(t, test.name, got, test.want)
	}
}

func testReadCanceled(t *testing.T, s Store) {
	e := open(t, s)
	mustInsert(t, e, create(1, "Rosa", plant.Tag{}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.List(ctx, store.Query{From: 0, Limit: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("List: %v, want %v", err, context.Canceled)
	}
	equal(t, "the next read", mustGet(t, e, 1).ID, 1)
}

// token returns a new token that is allowed to create plants, without an id.
func token(name string, at time.Time) auth.Token {
	secret := auth.Mint()
	return auth.Token{
		Name: name, Hash: auth.HashOf(secret), Prefix: auth.PrefixOf(secret), Scopes: auth.ScopeCreate, CreatedAt: at,
	}
}
