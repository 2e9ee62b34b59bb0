package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
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
	mustInsert(t, e, batch[2]) // -3
	if got, err := e.LargestID(t.Context()); err != nil || got != 0 {
		t.Errorf("the largest id without a positive one: got %d, %v", got, err)
	}
	mustInsert(t, e, slices.Concat(batch[:2], batch[3:])...)
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
	if got, err := e.LargestID(t.Context()); err != nil || got != math.MaxInt64 {
		t.Errorf("the largest id: got %d, %v", got, err)
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

// scanned is a copy of a store.Scanned.
type scanned struct {
	ID        int64
	Name, Tag string
	Tagged    bool
	CreatedAt int64
}

// scanAll returns the plants of every call of Scan.
func scanAll(t testing.TB, e Engine, from int64, rows int) (calls [][]scanned) {
	t.Helper()
	for {
		var call []scanned
		next, more, err := e.Scan(t.Context(), from, rows, func(p *store.Scanned) {
			call = append(call, scanned{p.ID, string(p.Name), string(p.Tag), p.Tag != nil, p.CreatedAt})
		})
		if err != nil {
			t.Fatalf("Scan(%d, %d): %v", from, rows, err)
		}
		calls = append(calls, call)
		if !more {
			return calls
		}
		from = next
	}
}

func testScan(t *testing.T, s Store) {
	e := open(t, s)
	equal(t, "empty store", scanAll(t, e, math.MinInt64, 10), [][]scanned{nil})
	mustInsert(t, e,
		create(math.MinInt64, "", plant.Tagged("")), create(-3, "Ácer 水", plant.Tagged("tree")),
		create(5, "Rosa", plant.Tag{}), create(math.MaxInt64, "last", plant.Tag{}),
	)
	at := createdAt.UnixMicro()
	all := []scanned{
		{math.MinInt64, "", "", true, at},
		{-3, "Ácer 水", "tree", true, at},
		{5, "Rosa", "", false, at},
		{math.MaxInt64, "last", "", false, at},
	}
	for _, test := range []struct {
		name string
		from int64
		rows int
		want [][]scanned
	}{
		{"all", math.MinInt64, 10, [][]scanned{all}},
		{"exactly all", math.MinInt64, 4, [][]scanned{all}},
		{"one by one", math.MinInt64, 1, [][]scanned{all[:1], all[1:2], all[2:3], all[3:]}},
		{"the last call is short", math.MinInt64, 3, [][]scanned{all[:3], all[3:]}},
		{"from an id that is not stored", 0, 10, [][]scanned{all[2:]}},
		{"the last", math.MaxInt64, 1, [][]scanned{all[3:]}},
	} {
		equal(t, test.name, scanAll(t, e, test.from, test.rows), test.want)
	}
}

// There are as many rows as plants, and the last plant does not have the greatest id.
func testScanEnd(t *testing.T, s Store) {
	e := open(t, s)
	mustInsert(t, e, create(1, "a", plant.Tag{}), create(2, "b", plant.Tag{}))
	at := createdAt.UnixMicro()
	equal(t, "calls", scanAll(t, e, 1, 2), [][]scanned{{{1, "a", "", false, at}, {2, "b", "", false, at}}, nil})
}

func testScanLarge(t *testing.T, s Store) {
	e := open(t, s)
	large := strings.Repeat("x", store.PlantsBytes/2)
	mustInsert(t, e,
		create(20, large, plant.Tag{}), create(21, "x", plant.Tagged(large)),
		create(22, large+large+"x", plant.Tag{}), create(23, "small", plant.Tag{}),
	)
	var got [][]int64
	for _, call := range scanAll(t, e, 0, 100) {
		var ids []int64
		for _, p := range call {
			ids = append(ids, p.ID)
		}
		got = append(got, ids)
	}
	equal(t, "calls", got, [][]int64{{20, 21}, {22}, {23}})
}

func testReadCanceled(t *testing.T, s Store) {
	e := open(t, s)
	mustInsert(t, e, create(1, "Rosa", plant.Tag{}))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.List(ctx, store.Query{From: 0, Limit: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("List: %v, want %v", err, context.Canceled)
	}
	visit := func(p *store.Scanned) { t.Errorf("Scan read the plant %d", p.ID) }
	if _, _, err := e.Scan(ctx, 0, 1, visit); !errors.Is(err, context.Canceled) {
		t.Errorf("Scan: %v, want %v", err, context.Canceled)
	}
	equal(t, "the next read", mustGet(t, e, 1).ID, 1)
}

// token returns a new token that is allowed to create plants, without an id.
func token(name string, at time.Time) auth.Token {
	t, _ := auth.NewToken(name, auth.ScopeCreate, 0)
	t.CreatedAt = at
	return t
}
