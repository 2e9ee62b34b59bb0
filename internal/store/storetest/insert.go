package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// outcome is a store.Outcome without the text of a conflict.
type outcome struct {
	Replayed bool
	Code     plant.Code // why it conflicts; 0: it does not
}

func outcomesOf(outcomes []store.Outcome) []outcome {
	got := make([]outcome, len(outcomes))
	for i, o := range outcomes {
		got[i].Replayed = o.Replayed
		var conflict *plant.Error
		if errors.As(o.Conflict, &conflict) {
			got[i].Code = conflict.Code
		}
	}
	return got
}

func testOutcomes(t *testing.T, s Store) {
	e := open(t, s)
	first := mustInsert(t, e,
		create(1, "Rosa canina", plant.Tagged("shrub")),
		create(2, "Acer", plant.Tag{}),
		create(3, "Salix", plant.Tagged("")),
	)
	batch := []store.Create{
		create(1, "Rosa canina", plant.Tagged("shrub")),
		create(1, "Rosa", plant.Tagged("shrub")),
		create(1, "Rosa canina", plant.Tagged("tree")),
		create(1, "Rosa canina", plant.Tag{}),
		create(1, "Rosa", plant.Tag{}),
		create(2, "Acer", plant.Tag{}),
		create(2, "Acer", plant.Tagged("")),
		create(3, "Salix", plant.Tagged("")),
		create(3, "Salix", plant.Tag{}),
		create(4, "Quercus", plant.Tag{}),
	}
	equal(t, "outcomes", outcomesOf(mustInsert(t, e, batch...)), []outcome{
		{Replayed: true},
		{Code: plant.CodeDifferentName},
		{Code: plant.CodeDifferentTag},
		{Code: plant.CodeDifferentTag},
		{Code: plant.CodeDifferentName},
		{Replayed: true},
		{Code: plant.CodeDifferentTag},
		{Replayed: true},
		{Code: plant.CodeDifferentTag},
		{},
	})
	equal(t, "outcomes of the earlier batch", outcomesOf(first), []outcome{{}, {}, {}}) // an engine reuses no result
	var got []plant.NewPlant
	for _, r := range mustList(t, e, store.Query{From: math.MinInt64, Limit: 100}) {
		got = append(got, r.NewPlant)
	}
	equal(t, "stored", got, []plant.NewPlant{
		create(1, "Rosa canina", plant.Tagged("shrub")).Plant,
		create(2, "Acer", plant.Tag{}).Plant,
		create(3, "Salix", plant.Tagged("")).Plant,
		create(4, "Quercus", plant.Tag{}).Plant,
	})
}

func testSameBatch(t *testing.T, s Store) {
	e := open(t, s)
	batch := []store.Create{
		create(7, "Acer", plant.Tag{}),
		create(5, "Rosa", plant.Tag{}),
		create(7, "Acer", plant.Tag{}),
		create(7, "Salix", plant.Tagged("tree")),
		create(5, "Rosa", plant.Tag{}),
	}
	equal(t, "outcomes", outcomesOf(mustInsert(t, e, batch...)), []outcome{
		{}, {}, {Replayed: true}, {Code: plant.CodeDifferentName}, {Replayed: true},
	})
	equal(t, "stored", mustGet(t, e, 7).NewPlant, batch[0].Plant)
}

// testContent stores plants with extreme ids and texts, and reads them after the store was reopened.
func testContent(t *testing.T, s Store) {
	e := s.Open(t)
	texts := []string{
		"", " ", "'", `"`, "\\", "\x01\x1f\x7f", "\r\n\t",
		"Ä", "日本語", "🌱", "e\u0301", "\u202eabc", "\ufeff", "\uffff",
		"'; DROP TABLE plants; --", "NULL", "%s", strings.Repeat("é", 40_000), strings.Repeat("x", 300_000),
	}
	ids := []int64{math.MinInt64, math.MinInt64 + 1, -1, 0, 1, 1 << 53, 1<<53 + 1, math.MaxInt64 - 1, math.MaxInt64}
	var batch []store.Create
	for i, text := range texts {
		batch = append(batch, create(int64(1000+i), text, plant.Tagged(text)))
	}
	for _, id := range ids {
		batch = append(batch, create(id, fmt.Sprint(id), plant.Tag{}))
	}
	mustInsert(t, e, batch...)
	mustClose(t, e)

	e = open(t, s)
	for _, c := range batch {
		want := plant.Record{NewPlant: c.Plant, CreatedAt: createdAt}
		equal(t, fmt.Sprint("plant ", c.Plant.ID), mustGet(t, e, c.Plant.ID), want)
	}
	for i, o := range outcomesOf(mustInsert(t, e, batch...)) {
		equal(t, fmt.Sprint("again ", batch[i].Plant.ID), o, outcome{Replayed: true})
	}
}

func testEmptyBatch(t *testing.T, s Store) {
	e := open(t, s)
	mustInsert(t, e)
	equal(t, "plants", len(mustList(t, e, store.Query{From: math.MinInt64, Limit: 1})), 0)
}

// testProbe shows that a probe changes nothing that a caller can see.
func testProbe(t *testing.T, s Store) {
	e := open(t, s)
	mustSetWebhooks(t, e, urlA)
	mustInsert(t, e, create(1, "Rosa", plant.Tag{}))
	state := func() store.State {
		now, err := e.State(t.Context())
		must(t, err)
		return now
	}
	before, audited := state(), len(auditRows(t, e))
	for range 3 {
		must(t, e.Probe(t.Context()))
	}
	equal(t, "state", state(), before)
	equal(t, "audit entries", len(auditRows(t, e)), audited)
	equal(t, "plants", len(mustList(t, e, store.Query{From: math.MinInt64, Limit: 9})), 1)
	equal(t, "deliveries", len(mustTake(t, e, claims(9))), 1)
}

// testInsertDeadline calls Insert with short deadlines: the result agrees with the store.
func testInsertDeadline(t *testing.T, s Store) {
	e := open(t, s)
	for id := range int64(30) {
		timeout := time.Duration(id) * 100 * time.Microsecond // 0: expired at the call
		if err := insertWithin(t.Context(), e, id, timeout); err != nil {
			t.Errorf("timeout %s: %v", timeout, err)
		}
	}
}

// insertWithin inserts a plant with a timeout, and returns an error if the result of Insert contradicts the content of
// the store. At the end it stores the plant.
func insertWithin(ctx context.Context, e Engine, id int64, timeout time.Duration) error {
	short, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	batch := []store.Create{create(id, "Rosa", plant.Tag{})}
	outcomes, err := e.Insert(short, batch)
	_, getErr := e.Get(ctx, id)
	stored := getErr == nil
	if !stored && !errors.Is(getErr, store.ErrNotFound) {
		return fmt.Errorf("get: %w", getErr)
	}
	unknown := errors.Is(err, store.ErrOutcomeUnknown)
	switch {
	case err == nil && !stored:
		return errors.New("no error, but the plant is not stored")
	case err == nil && !outcomes[0].Created():
		return errors.New("no error, but the new plant was not created")
	case err != nil && outcomes != nil:
		return fmt.Errorf("%w, but Insert returned %d outcomes", err, len(outcomes))
	case err != nil && before(short): // the timer of short may be late
		return fmt.Errorf("%w before the deadline", err)
	case unknown && timeout == 0:
		return fmt.Errorf("%w, but the deadline was over before the call", err)
	case err != nil && !unknown && stored:
		return fmt.Errorf("%w, but the plant is stored", err)
	}
	switch again, err := e.Insert(ctx, batch); {
	case err != nil:
		return fmt.Errorf("the next Insert: %w", err)
	case again[0].Conflict != nil:
		return fmt.Errorf("the next Insert: %w", again[0].Conflict)
	case !unknown && again[0].Replayed != stored: // after an unknown outcome, the first Insert may end late
		return fmt.Errorf("the next Insert: replayed %t, but the plant was stored: %t", again[0].Replayed, stored)
	}
	return nil
}

// before reports whether the deadline of a context has not passed.
func before(ctx context.Context) bool {
	deadline, _ := ctx.Deadline()
	return time.Now().Before(deadline)
}

// testSeveralEngines has several engines of one store insert the same ids concurrently, as a server and commands do:
// each plant is created once.
func testSeveralEngines(t *testing.T, s Store) {
	const engines, batches, size = 3, 20, 25
	var wg sync.WaitGroup
	created := make([]int, engines)
	for i := range engines {
		e := open(t, s)
		wg.Go(func() {
			for b := range batches {
				batch := make([]store.Create, size)
				for j := range batch {
					batch[j] = create(int64(b*size+(j*7)%size), "Rosa", plant.Tag{})
				}
				ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
				outcomes, err := e.Insert(ctx, batch)
				cancel()
				if err != nil {
					t.Errorf("engine %d: %v", i, err)
					return
				}
				for _, o := range outcomes {
					if o.Created() {
						created[i]++
					}
				}
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range created {
		sum += n
	}
	equal(t, "total of created plants", sum, batches*size)
}

// testModel compares the engine with a map. The random batches have few ids and contents, so that every outcome occurs
// often.
func testModel(t *testing.T, s Store) {
	e := open(t, s)
	model := map[int64]plant.Plant{}
	contents := []plant.Plant{
		{Name: "Rosa"},
		{Name: "Rosa", Tag: plant.Tagged("")},
		{Name: "Rosa", Tag: plant.Tagged("shrub")},
		{Name: "", Tag: plant.Tagged("shrub")},
	}
	one := rapid.Custom(func(t *rapid.T) store.Create {
		c := store.Create{At: createdAt}
		c.Plant.ID = rapid.Int64Range(-20, 200).Draw(t, "id")
		c.Plant.Plant = rapid.SampledFrom(contents).Draw(t, "content")
		return c
	})
	rapid.Check(t, func(rt *rapid.T) {
		batch := rapid.SliceOfN(one, 1, 30).Draw(rt, "batch")
		want := make([]outcome, len(batch))
		for i, c := range batch {
			stored, ok := model[c.Plant.ID]
			switch {
			case !ok:
				model[c.Plant.ID] = c.Plant.Plant
			case stored.Name != c.Plant.Name:
				want[i] = outcome{Code: plant.CodeDifferentName}
			case stored.Tag != c.Plant.Tag:
				want[i] = outcome{Code: plant.CodeDifferentTag}
			default:
				want[i] = outcome{Replayed: true}
			}
		}
		for i, got := range outcomesOf(mustInsert(t, e, batch...)) {
			if got != want[i] {
				rt.Fatalf("plant %d of %+v: got %+v, want %+v", i, batch[i].Plant, got, want[i])
			}
		}
	})
	records := mustList(t, e, store.Query{From: math.MinInt64, Limit: 1000})
	equal(t, "plants", len(records), len(model))
	for _, r := range records {
		equal(t, fmt.Sprint("plant ", r.ID), r.Plant, model[r.ID])
	}
}
