package storetest

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// testPlants reads plants as a move does: by ranges and limits, and by id.
func testPlants(t *testing.T, s Store) {
	e := open(t, s)
	token := mustCreateToken(t, e, token("a", createdAt))
	all := []store.Create{
		create(math.MinInt64, "lowest", plant.Tag{}),
		create(-5, "", plant.Tagged("")),
		create(7, strings.Repeat("x", store.PlantsBytes/2), plant.Tag{}),
		create(8, strings.Repeat("x", store.PlantsBytes+1), plant.Tag{}),
		create(9, "Acer", plant.Tagged("tree")),
		create(math.MaxInt64, "highest", plant.Tag{}),
	}
	for i := range all {
		all[i].By = token.ID
		all[i].At = createdAt.Add(time.Duration(i) * time.Hour)
	}
	mustInsert(t, e, slices.Clone(all)...)
	for name, row := range map[string]struct {
		from, to int64
		limit    int
		want     []store.Create
	}{
		"too large for one": {math.MinInt64, math.MaxInt64, 100, all[:4]},
		"limited":           {math.MinInt64, math.MaxInt64, 2, all[:2]},
		"ends included":     {-5, 7, 100, all[1:3]},
		"one alone":         {8, 100, 100, all[3:4]},
		"the last":          {9, math.MaxInt64, 100, all[4:]},
		"none":              {10, 11, 100, nil},
	} {
		got, err := e.Plants(t.Context(), row.from, row.to, row.limit)
		if err != nil {
			t.Fatal(err)
		}
		equal(t, name, createsOf(got), row.want)
	}
	got, err := e.PlantsByID(t.Context(), []int64{math.MinInt64, -6, -5, 9, 10})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "by id", createsOf(got), []store.Create{all[0], all[1], all[4]})
}

// createsOf returns the creates that store the rows, with their times in UTC.
func createsOf(rows []store.Row) (creates []store.Create) {
	for _, r := range rows {
		r.CreatedAt = r.CreatedAt.UTC()
		creates = append(creates, r.Create())
	}
	return creates
}

// testPutTokens stores tokens with given ids and times, updates them, and creates the
// token with the next id.
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

// testCapture creates plants through two engines. The capture must have exactly the
// plants that were created during it.
func testCapture(t *testing.T, s Store) {
	e, other := open(t, s), open(t, s)
	mustInsert(t, other, create(1, "before", plant.Tag{}))
	for range 2 { // the second StartCapture discards the captured ids
		must(t, e.StartCapture(t.Context()))
		mustInsert(t, other, create(1, "before", plant.Tag{}), create(3, "c", plant.Tag{}), create(2, "b", plant.Tag{}))
		mustInsert(t, e, create(math.MinInt64, "d", plant.Tag{}), create(2, "b", plant.Tag{}))
	}
	equal(t, "plants that were created before", len(captured(t, e, 10)), 0)
	mustInsert(t, other, create(11, "e", plant.Tag{}), create(12, "f", plant.Tag{}), create(13, "g", plant.Tag{}))
	got := captured(t, e, 2)
	equal(t, "at most the limit", len(got), 2)
	mustInsert(t, e, create(14, "h", plant.Tag{}))
	got = append(got, captured(t, e, 10)...)
	slices.Sort(got)
	equal(t, "captured", got, []int64{11, 12, 13, 14})
	equal(t, "each once", len(captured(t, e, 10)), 0)

	must(t, e.Reopen(t.Context()))
	mustInsert(t, other, create(15, "i", plant.Tag{}))
	must(t, e.StartCapture(t.Context()))
	equal(t, "captured after Reopen", len(captured(t, e, 10)), 0)
	must(t, e.Reopen(t.Context()))
	mustInsert(t, other, create(16, "j", plant.Tag{}))
}

func captured(t *testing.T, e Engine, limit int) []int64 {
	t.Helper()
	ids, err := e.Captured(t.Context(), limit)
	must(t, err)
	return ids
}

// testMoveState sets the move state of a store that two engines have open.
func testMoveState(t *testing.T, s Store) {
	e, other := open(t, s), open(t, s)
	used := mustCreateToken(t, e, token("a", createdAt))
	mustInsert(t, e, create(1, "Rosa", plant.Tag{}))
	refused := func(what string, e Engine) {
		t.Helper()
		_, err := e.Insert(t.Context(), []store.Create{create(2, "Acer", plant.Tag{})})
		if !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("%s: Insert: %v, want %v", what, err, store.ErrReadOnly)
		}
		if _, err := e.Get(t.Context(), 2); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: Get: %v, want %v", what, err, store.ErrNotFound)
		}
	}
	state := func(what string, want store.MoveState) {
		t.Helper()
		now, err := other.State(t.Context())
		must(t, err)
		equal(t, what, now.Move, want)
	}
	state("at the start", store.MoveState{})
	before := store.MoveState{}
	for _, phase := range []store.MovePhase{store.Moving, store.Moved} {
		after := store.MoveState{Phase: phase, Other: "a place"}
		must(t, e.SetMoveState(t.Context(), before, after))
		if err := e.SetMoveState(t.Context(), before, after); !errors.Is(err, store.ErrReadOnly) {
			t.Errorf("SetMoveState with another state before: %v, want %v", err, store.ErrReadOnly)
		}
		before = after
		state("read-only", after)
		refused("read-only", other)
		for what, change := range map[string]func() error{
			"probe": func() error { return other.Probe(t.Context()) },
			"create": func() error {
				_, err := other.CreateToken(t.Context(), auth.Token{Name: "b", CreatedAt: createdAt}, operator)
				return err
			},
			"rotate": func() error {
				_, _, err := other.RotateToken(t.Context(), auth.Token{Name: "a", CreatedAt: createdAt}, 0, operator)
				return err
			},
			"revoke": func() error {
				_, err := other.RevokeTokens(t.Context(), store.Selector{Name: "a"}, createdAt, operator)
				return err
			},
			"put a token": func() error { return other.PutTokens(t.Context(), nil) },
		} {
			if err := change(); !errors.Is(err, store.ErrReadOnly) {
				t.Errorf("%s of a read-only store: %v, want %v", what, err, store.ErrReadOnly)
			}
		}
		must(t, other.MarkUsed(t.Context(), []auth.Use{{TokenID: used.ID, At: createdAt}}))
	}
	must(t, e.Reopen(t.Context()))
	must(t, e.Reopen(t.Context()))
	state("reopened", store.MoveState{})
	mustInsert(t, other, create(2, "Acer", plant.Tag{}))
	mustCreateToken(t, other, token("b", createdAt))

	// Only the engine that set the state Filling may write to the store.
	filling := store.MoveState{Phase: store.Filling, Other: "a place"}
	must(t, e.SetMoveState(t.Context(), store.MoveState{}, filling))
	state("filling", filling)
	mustInsert(t, e, create(3, "Salix", plant.Tag{}))
	must(t, e.PutTokens(t.Context(), nil))
	if err := other.PutTokens(t.Context(), nil); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("PutTokens of another engine while the store is Filling: %v, want %v", err, store.ErrReadOnly)
	}
}

// testLock locks a store for a move by two engines.
func testLock(t *testing.T, s Store) {
	e, other := open(t, s), open(t, s)
	interrupted := func(what string, want bool) {
		t.Helper()
		got, err := other.Interrupted(t.Context())
		must(t, err)
		equal(t, what, got, want)
	}
	interrupted("no move: interrupted", false)
	unlock, err := e.Lock(t.Context())
	must(t, err)
	if _, err := other.Lock(t.Context()); !errors.Is(err, store.ErrMoveRunning) {
		t.Errorf("the second: %v, want %v", err, store.ErrMoveRunning)
	}
	must(t, e.StartCapture(t.Context()))
	interrupted("a move that runs: interrupted", false)
	unlock()
	interrupted("a move that has ended: interrupted", true)
	unlock, err = other.Lock(t.Context())
	must(t, err)
	must(t, other.Reopen(t.Context()))
	interrupted("no capture: interrupted", false)
	unlock()

	must(t, e.StartCapture(t.Context()))
	moved := store.MoveState{Phase: store.Moved, Other: "a place"}
	must(t, e.SetMoveState(t.Context(), store.MoveState{}, moved))
	interrupted("the capture of a complete move: interrupted", false)
}

// testTotals compares the totals that the store maintains, if it does, with its
// plants.
func testTotals(t *testing.T, s Store) {
	e := open(t, s)
	mustInsert(t, e, create(1, "Rosa", plant.Tag{}), create(2, "Acer", plant.Tagged("")))
	mustInsert(t, e, create(1, "Rosa", plant.Tag{}), create(2, "Salix", plant.Tag{}))
	got, known, err := e.Totals(t.Context())
	must(t, err)
	rows, err := e.Plants(t.Context(), math.MinInt64, math.MaxInt64, 10)
	must(t, err)
	want := store.Totals{Plants: 2}
	var d store.Digester
	for i := range rows {
		want.Digests += d.Plant(&rows[i].NewPlant, rows[i].CreatedAt, rows[i].CreatedBy)
	}
	if known {
		equal(t, "totals", got, want)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
