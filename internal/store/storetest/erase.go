package storetest

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// versions returns the stored versions of plants.
func versions(t testing.TB, e Engine, ids ...int64) (all []store.Version) {
	t.Helper()
	rows, err := e.PlantsByID(t.Context(), ids, store.PlantsBytes)
	must(t, err)
	for _, r := range rows {
		all = append(all, store.VersionOf(r))
	}
	return all
}

func mustErase(t testing.TB, e Engine, plants ...store.Version) int64 {
	t.Helper()
	n, err := e.Erase(t.Context(), plants, "a reason", operator)
	must(t, err)
	return n
}

// lastAudit returns the action and the details of the newest entry.
func lastAudit(t testing.TB, e Engine) string {
	t.Helper()
	rows := auditRows(t, e)
	entry := auditEntry(t, rows[len(rows)-1])
	return fmt.Sprint(entry.Action, " ", entry.Details)
}

// testErase shows that an erased plant is gone, that its id is free, and that only the versions that were read go.
func testErase(t *testing.T, s Store) {
	e := open(t, s)
	acer, oak := create(-1, "Acer", plant.Tag{}), create(2, "Oak", plant.Tagged("tree"))
	elm := create(3, "Elm", plant.Tag{})
	mustInsert(t, e, acer, oak, elm)
	seen := versions(t, e, -1, 2, 3)
	equal(t, "erased", mustErase(t, e, seen[:2]...), 2)
	_, err := e.Get(t.Context(), -1)
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	equal(t, "the rest", len(mustList(t, e, store.Query{From: -5, Limit: 9})), 1)
	equal(t, "audit log", lastAudit(t, e), "plants.erase [{ids_1 -1 2} {plants 2} {reason a reason}]")

	other := create(2, "Ulmus", plant.Tag{})
	other.At = createdAt.Add(time.Second)
	equal(t, "outcomes", mustInsert(t, e, other, oak)[0], store.Outcome{})
	entries := len(auditRows(t, e))
	equal(t, "erased versions", mustErase(t, e, seen[:2]...), 0)
	equal(t, "entries without a change", len(auditRows(t, e)), entries)
	equal(t, "the new plant", mustGet(t, e, 2).Name, "Ulmus")
	equal(t, "no versions", mustErase(t, e), 0)
	equal(t, "counted", mustState(t, e).Plants, mustState(t, open(t, s)).Plants)
}

// testEraseMany shows that the audit log has each id of the largest erasure.
func testEraseMany(t *testing.T, s Store) {
	e := open(t, s)
	batch, ids := make([]store.Create, store.ChangeMax), make([]int64, store.ChangeMax)
	for i := range batch {
		ids[i] = int64(i-store.ChangeMax) << 52 // long as text
		batch[i] = create(ids[i], "", plant.Tag{})
	}
	mustInsert(t, e, batch...)
	equal(t, "erased", mustErase(t, e, versions(t, e, ids...)...), store.ChangeMax)
	rows := auditRows(t, e)
	named := []string{}
	for _, d := range auditEntry(t, rows[len(rows)-1]).Details {
		if strings.HasPrefix(d.Key, "ids_") {
			named = append(named, strings.Fields(d.Value)...)
		}
	}
	slices.Sort(named)
	if named = slices.Compact(named); len(named) != store.ChangeMax {
		t.Errorf("the audit log has %d ids", len(named))
	}
}

// testCorrect shows that a correction replaces a plant, and only the version that was read.
func testCorrect(t *testing.T, s Store) {
	e := open(t, s)
	wrong, right := create(7, "Acer plantanoides", plant.Tagged("")), create(7, "Acer platanoides", plant.Tag{})
	right.At, right.By = createdAt.Add(time.Second), mustCreateToken(t, e, token("anna", createdAt)).ID
	mustInsert(t, e, wrong)
	seen := versions(t, e, 7)[0]
	must(t, e.Correct(t.Context(), seen, right, "", operator))
	want := plant.Record{NewPlant: right.Plant, CreatedAt: right.At, CreatedBy: "anna"}
	equal(t, "corrected", mustGet(t, e, 7), want)
	equal(t, "audit log", lastAudit(t, e), "plants.correct [{ids_1 7} {plants 1}]")
	outcomes := mustInsert(t, e, right, wrong)
	if !outcomes[0].Replayed || outcomes[1].Conflict == nil {
		t.Errorf("got %+v", outcomes)
	}
	if err := e.Correct(t.Context(), seen, wrong, "", operator); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an old version: got %v", err)
	}
	equal(t, "unchanged", mustGet(t, e, 7), want)
}

// testErasedEvents shows that an erasure replaces the events and deliveries of a plant, also those that are under way,
// and that the deliveries of a plant that is created again follow.
func testErasedEvents(t *testing.T, s Store) {
	e := open(t, s)
	mustSetWebhooks(t, e, urlA, urlB)
	mustInsert(t, e, create(1, "event", plant.Tag{}))
	equal(t, "erased", mustErase(t, e, versions(t, e, 1)...), 1) // before any delivery
	<-e.EventsWritten()
	taken := mustTake(t, e, claims(9))
	if len(taken) != 2 || !taken[0].Erased || taken[0].Plant.ID != 1 {
		t.Fatalf("got %+v", taken)
	}
	again := create(1, "again", plant.Tag{})
	again.At = time.Now()
	mustInsert(t, e, again)
	mustTake(t, e, claims(0), settle(taken[0], done), settle(taken[1], later))
	const againJSON = `{"id":1,"name":"again"}`
	fresh := mustTake(t, e, claims(9))
	equal(t, "created again", names(fresh), []string{"1 " + againJSON, "2 " + againJSON})
	if fresh[0].Erased || fresh[0].Attempts != 0 {
		t.Errorf("got %+v", fresh[0])
	}

	// While the deliveries of a plant are under way, it is corrected, and then erased.
	right := create(1, "right", plant.Tag{})
	right.At = time.Now().Add(time.Second)
	must(t, e.Correct(t.Context(), versions(t, e, 1)[0], right, "", operator))
	mustTake(t, e, claims(0), settle(fresh[0], done), settle(fresh[1], dead))
	corrected := mustTake(t, e, claims(9))
	equal(t, "corrected", names(corrected), []string{`1 {"id":1,"name":"right"}`, `2 {"id":1,"name":"right"}`})
	mustTake(t, e, claims(0), settle(corrected[0], dead), settle(corrected[1], done))
	mustErase(t, e, versions(t, e, 1)...)
	erased := mustTake(t, e, claims(9))
	if len(erased) != 2 || !erased[0].Erased || !erased[1].Erased {
		t.Fatalf("got %+v", erased)
	}
	mustTake(t, e, claims(0), settle(erased[0], done), settle(erased[1], done))
	equal(t, "totals", mustTotals(t, e), map[int64]store.OutboxTotals{1: {}, 2: {}})

	// An address that was removed gets no event, and keeps no dead letter about an erased plant.
	mustInsert(t, e, create(2, "", plant.Tag{}))
	mustTake(t, e, claims(9))
	mustSetWebhooks(t, e, urlB)
	mustEnd(t, e)
	mustErase(t, e, versions(t, e, 2)...)
	equal(t, "totals", mustTotals(t, e)[1], store.OutboxTotals{})
	equal(t, "pending", mustTotals(t, e)[2].Pending, 1)
}

// testErasedInFlight shows that attempts about one plant never run at the same time: a delivery that replaces a claimed
// one is due when that has a result, or when its claim ends.
func testErasedInFlight(t *testing.T, s Store) {
	e := open(t, s)
	mustSetWebhooks(t, e, urlA)
	claim := store.Claim{Most: map[int64]int{1: 9}, Lease: store.ClaimMax}
	mustInsert(t, e, create(1, "first", plant.Tag{}))
	erase := func() { equal(t, "erased", mustErase(t, e, versions(t, e, 1)...), 1) }
	again := func() { mustInsert(t, e, create(1, "again", plant.Tag{})) }
	for i, step := range []struct {
		change func()
		result func(*store.DeliveryResult)
	}{{erase, done}, {again, done}, {erase, later}, {again, dead}, {erase, released}} {
		taken := mustTake(t, e, claim)
		if len(taken) != 1 {
			t.Fatalf("step %d: got %+v", i, taken)
		}
		step.change()
		if early := mustTake(t, e, claim); len(early) > 0 {
			t.Errorf("step %d: at the same time %+v", i, early)
		}
		mustTake(t, e, store.Claim{}, settle(taken[0], step.result))
	}

	// A claim without a result ends by itself.
	claim.Lease = time.Millisecond
	again()
	equal(t, "claimed", len(mustTake(t, e, claim)), 1)
	erase()
	for len(mustTake(t, e, claim)) == 0 {
		runtime.Gosched()
	}
}

// testEraseRace erases plants while others create them: each outcome is as if one came wholly before the other.
func testEraseRace(t *testing.T, s Store) {
	const rounds, ids = 60, 3
	erasing, creating := open(t, s), open(t, s)
	mustSetWebhooks(t, creating, urlA)
	created, erased := int64(0), int64(0)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range rounds {
			var batch []store.Create
			for id := range int64(ids) {
				c := create(id, "", plant.Tag{})
				c.At = createdAt.Add(time.Duration(i) * time.Second)
				batch = append(batch, c)
			}
			outcomes, err := creating.Insert(t.Context(), batch)
			if err != nil {
				t.Error(err)
				return
			}
			for _, o := range outcomes {
				if o.Conflict != nil {
					t.Error(o.Conflict)
				}
				if o.Created() {
					created++
				}
			}
		}
	})
	wg.Go(func() {
		for range rounds {
			rows, err := erasing.PlantsByID(t.Context(), []int64{0, 1, 2}, store.PlantsBytes)
			var seen []store.Version
			for _, r := range rows {
				seen = append(seen, store.VersionOf(r))
			}
			n := int64(0)
			if err == nil {
				n, err = erasing.Erase(t.Context(), seen, "", operator)
			}
			if err != nil {
				t.Error(err)
				return
			}
			erased += n
		}
	})
	wg.Wait()
	left := int64(len(mustList(t, creating, store.Query{From: 0, Limit: 9})))
	if created != erased+left || erased == 0 {
		t.Errorf("created %d, erased %d, %d are stored", created, erased, left)
	}
	events := map[int64]bool{} // of each plant the last change
	for _, d := range mustTake(t, creating, claims(99)) {
		events[d.Plant.ID] = d.Erased
	}
	for id := range int64(ids) {
		_, err := creating.Get(t.Context(), id)
		if gone, ok := events[id]; !ok || gone != errors.Is(err, store.ErrNotFound) {
			t.Errorf("plant %d: %v, and the event %v, %v", id, err, gone, ok)
		}
	}
}
