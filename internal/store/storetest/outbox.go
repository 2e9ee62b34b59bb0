package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

const (
	urlA = "https://a.example/events?key=1"
	urlB = "https://b.example/events"
)

// lease is longer than a test.
const lease = time.Hour

func mustSetWebhooks(t testing.TB, e Engine, urls ...string) []store.Webhook {
	t.Helper()
	all, err := e.SetWebhooks(t.Context(), urls, operator)
	must(t, err)
	return all
}

// claims claims at most n deliveries for each of the first two webhooks.
func claims(n int) store.Claim { return store.Claim{Most: map[int64]int{1: n, 2: n}, Lease: lease} }

func mustTake(t testing.TB, e Engine, claim store.Claim, settled ...store.DeliveryResult) []store.Delivery {
	t.Helper()
	taken, err := e.TakeDeliveries(t.Context(), settled, claim)
	must(t, err)
	return taken
}

// names returns the webhooks and the plants of deliveries.
func names(deliveries []store.Delivery) (all []string) {
	for _, d := range deliveries {
		all = append(all, fmt.Sprintf("%d %s", d.Webhook, d.Plant.AppendJSON(nil)))
	}
	slices.Sort(all)
	return all
}

// settle returns the result of a delivery.
func settle(d store.Delivery, change func(*store.DeliveryResult)) store.DeliveryResult {
	s := store.DeliveryResult{Webhook: d.Webhook, Plant: d.Plant.ID, Since: d.Since, Lease: d.Lease, Attempts: d.Attempts}
	change(&s)
	return s
}

func done(s *store.DeliveryResult) { s.Done = true }
func dead(s *store.DeliveryResult) { s.Dead, s.Attempts, s.Reason = true, 3, "status 500" }
func later(s *store.DeliveryResult) {
	s.Wait, s.Attempts, s.Reason = time.Hour, s.Attempts+1, "status 503"
}
func released(_ *store.DeliveryResult) {}

func mustTotals(t testing.TB, e Engine) map[int64]store.OutboxTotals {
	t.Helper()
	totals, err := e.OutboxTotals(t.Context())
	must(t, err)
	return totals
}

// testEvents shows that exactly the created plants of a store with webhooks have events.
func testEvents(t *testing.T, s Store) {
	e, other := open(t, s), open(t, s)
	acer, oak := create(1, "Acer", plant.Tag{}), create(-2, `"Oak"`, plant.Tagged(""))
	mustInsert(t, e, acer)
	equal(t, "without webhooks", len(mustTake(t, e, claims(9))), 0)
	all := mustSetWebhooks(t, e, urlA, urlB)
	equal(t, "webhooks", all, []store.Webhook{{ID: 1, URL: urlA, Active: true}, {ID: 2, URL: urlB, Active: true}})
	mustInsert(t, e, acer, oak, oak, create(1, "conflict", plant.Tag{}))
	select {
	case <-e.EventsWritten():
	default:
		t.Error("no signal after a batch with events")
	}
	mustInsert(t, e, acer, oak)
	select {
	case <-e.EventsWritten():
		t.Error("a signal after a batch without events")
	default:
	}
	pending := store.OutboxTotals{Pending: 1, Oldest: createdAt}
	equal(t, "totals", mustTotals(t, e), map[int64]store.OutboxTotals{1: pending, 2: pending})

	taken := mustTake(t, other, claims(9))
	const oakJSON = `{"id":-2,"name":"\"Oak\"","tag":""}`
	equal(t, "deliveries", names(taken), []string{"1 " + oakJSON, "2 " + oakJSON})
	for _, d := range taken {
		if !d.CreatedAt.Equal(createdAt) || !d.Since.Equal(createdAt) || d.Attempts != 0 {
			t.Errorf("got %+v", d)
		}
	}
	equal(t, "claimed", len(mustTake(t, e, claims(9))), 0)
	equal(t, "totals with claims", mustTotals(t, e), map[int64]store.OutboxTotals{1: pending, 2: pending})
	mustTake(t, other, store.Claim{}, settle(taken[0], done), settle(taken[1], done))
	equal(t, "totals at the end", mustTotals(t, e), map[int64]store.OutboxTotals{1: {}, 2: {}})

	mustSetWebhooks(t, e)
	mustInsert(t, e, create(3, "Elm", plant.Tag{}))
	mustSetWebhooks(t, e, urlA)
	equal(t, "created without webhooks", len(mustTake(t, e, claims(9))), 0)
}

// testEventsOfOthers shows that an engine learns of webhooks that another one has set.
func testEventsOfOthers(t *testing.T, s Store) {
	e, other := open(t, s), open(t, s)
	mustInsert(t, other, create(0, "", plant.Tag{}))
	mustSetWebhooks(t, e, urlA)
	deadline := time.Now().Add(time.Minute)
	for id := int64(1); ; id++ {
		mustInsert(t, other, create(id, "", plant.Tag{}))
		if taken := mustTake(t, e, claims(1)); len(taken) == 1 {
			equal(t, "the event", taken[0].Plant.ID, id)
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no event")
		}
	}
	mustSetWebhooks(t, e)
	_, err := other.State(t.Context()) // as the polls of a server
	must(t, err)
	mustInsert(t, other, create(-1, "", plant.Tag{}))
	mustSetWebhooks(t, e, urlA)
	equal(t, "deliveries", len(mustTake(t, e, claims(1))), 0)
}

// testManyEvents stores a batch that is large enough for every way of an engine.
func testManyEvents(t *testing.T, s Store) {
	const plants = 2500
	e := open(t, s)
	mustSetWebhooks(t, e, urlA)
	batch := make([]store.Create, plants)
	for i := range batch {
		batch[i] = create(int64(i), "", plant.Tag{})
	}
	for range 2 { // the second one creates none
		mustInsert(t, e, batch...)
	}
	mustInsert(t, e, slices.Concat(batch, []store.Create{create(plants, "", plant.Tag{})})...)
	seen := map[int64]bool{}
	for {
		taken := mustTake(t, e, claims(1000))
		if len(taken) == 0 {
			break
		}
		for _, d := range taken {
			if seen[d.Plant.ID] {
				t.Fatalf("plant %d twice", d.Plant.ID)
			}
			seen[d.Plant.ID] = true
		}
	}
	equal(t, "deliveries", len(seen), plants+1)
}

// testLargeEvents shows that one call returns a bounded number of bytes, and the next ones the other deliveries.
func testLargeEvents(t *testing.T, s Store) {
	e := open(t, s)
	mustSetWebhooks(t, e, urlA)
	for id := range int64(4) {
		mustInsert(t, e, create(id, strings.Repeat("x", store.PlantsBytes/2+1), plant.Tag{}))
	}
	for range 2 {
		equal(t, "deliveries", len(mustTake(t, e, claims(9))), 2)
	}
	equal(t, "deliveries", len(mustTake(t, e, claims(9))), 0)
}

// testDeliveryResults shows the effect of each result.
func testDeliveryResults(t *testing.T, s Store) {
	e := open(t, s)
	mustSetWebhooks(t, e, urlA)
	mustInsert(t, e, create(1, "done", plant.Tag{}), create(2, "dead", plant.Tag{}), create(3, "later", plant.Tag{}),
		create(4, "released", plant.Tag{}))
	taken := mustTake(t, e, claims(9))
	slices.SortFunc(taken, func(a, b store.Delivery) int { return cmp.Compare(a.Plant.ID, b.Plant.ID) })
	if len(taken) != 4 {
		t.Fatal(taken)
	}
	again := mustTake(t, e, claims(9),
		settle(taken[0], done), settle(taken[1], dead), settle(taken[2], later), settle(taken[3], released))
	equal(t, "released", names(again), []string{`1 {"id":4,"name":"released"}`})
	totals := store.OutboxTotals{Pending: 2, Oldest: createdAt, Dead: 1}
	equal(t, "totals", mustTotals(t, e)[1], totals)
	mustTake(t, e, store.Claim{}, settle(taken[2], later)) // its claim has ended
	equal(t, "totals", mustTotals(t, e)[1], totals)
	mustTake(t, e, store.Claim{}, settle(taken[2], done)) // a success counts always
	totals.Pending--
	equal(t, "totals after a late success", mustTotals(t, e)[1], totals)
}

// testLease shows that a claim ends, and that the result of an earlier claim then has no effect on the next one.
func testLease(t *testing.T, s Store) {
	e, other := open(t, s), open(t, s)
	mustSetWebhooks(t, e, urlA)
	mustInsert(t, e, create(1, "", plant.Tag{}))
	first := mustTake(t, e, store.Claim{Most: map[int64]int{1: 1}, Lease: 50 * time.Millisecond})
	var second []store.Delivery
	for deadline := time.Now().Add(time.Minute); len(second) == 0 && time.Now().Before(deadline); {
		second = mustTake(t, other, claims(1))
	}
	if len(first) != 1 || len(second) != 1 || !second[0].Lease.After(first[0].Lease) {
		t.Fatalf("got %v and %v", first, second)
	}
	equal(t, "after a late release", len(mustTake(t, e, claims(1), settle(first[0], released))), 0)
	equal(t, "after a release", len(mustTake(t, e, claims(1), settle(second[0], released))), 1)
}

// testRemovedPlants shows that deliveries without a plant do not keep the others from their claims.
func testRemovedPlants(t *testing.T, s Store) {
	e := open(t, s)
	mustSetWebhooks(t, e, urlA)
	mustInsert(t, e, create(1, "", plant.Tag{}), create(2, "", plant.Tag{}), create(3, "", plant.Tag{}))
	all := mustTake(t, e, claims(3))
	slices.SortFunc(all, func(a, b store.Delivery) int { return cmp.Compare(a.Plant.ID, b.Plant.ID) })
	for _, d := range all { // the last one is due last
		mustTake(t, e, store.Claim{}, settle(d, released))
	}
	s.Tamper(t, "DELETE FROM plants WHERE id < 3")
	var taken []store.Delivery
	for range 2 {
		taken = append(taken, mustTake(t, e, claims(2))...)
	}
	equal(t, "deliveries", names(taken), []string{`1 {"id":3,"name":""}`})
}

// testClaimRace claims with several engines at the same time.
func testClaimRace(t *testing.T, s Store) {
	const engines, plants = 4, 60
	all := make([]Engine, engines)
	for i := range all {
		all[i] = open(t, s)
	}
	mustSetWebhooks(t, all[0], urlA, urlB)
	for id := range int64(plants) {
		mustInsert(t, all[0], create(id, "", plant.Tag{}))
	}
	var mu sync.Mutex
	var taken []store.Delivery // guarded by mu
	var wg sync.WaitGroup
	for _, e := range all {
		wg.Go(func() {
			for range plants {
				d, err := e.TakeDeliveries(t.Context(), nil, claims(3))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				taken = append(taken, d...)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for { // an engine takes none that another engine takes at the time
		rest := mustTake(t, all[0], claims(plants))
		if len(rest) == 0 {
			break
		}
		taken = append(taken, rest...)
	}
	got := names(taken)
	equal(t, "deliveries", len(got), 2*plants)
	equal(t, "each once", len(slices.Compact(got)), 2*plants)
}

// mustEnd ends deliveries to removed webhooks.
func mustEnd(t testing.TB, e Engine) int64 {
	t.Helper()
	n, err := e.EndDeliveries(t.Context())
	must(t, err)
	return n
}

// testSetWebhooks changes the webhooks: deliveries to a removed one become dead letters.
func testSetWebhooks(t *testing.T, s Store) {
	e := open(t, s)
	mustSetWebhooks(t, e, urlA, urlB)
	mustInsert(t, e, create(1, "", plant.Tag{}), create(2, "", plant.Tag{}))
	first := mustTake(t, e, store.Claim{Most: map[int64]int{1: 1}, Lease: lease})
	equal(t, "ended without a removed webhook", mustEnd(t, e), 0)
	mustSetWebhooks(t, e, urlB)
	all := mustSetWebhooks(t, e, urlB)
	equal(t, "ended", mustEnd(t, e), 1)
	equal(t, "webhooks", all, []store.Webhook{{ID: 1, URL: urlA}, {ID: 2, URL: urlB, Active: true}})
	letters, err := e.DeadLetters(t.Context(), store.DeadPage{Limit: 10})
	must(t, err)
	equal(t, "dead letters", len(letters), 1)
	equal(t, "reason", letters[0].Reason, store.ReasonRemoved)
	equal(t, "to the active webhook", len(mustTake(t, e, claims(9), settle(first[0], later))), 2)
	retried, err := e.RetryDead(t.Context(), store.DeadSelector{}, operator)
	equal(t, "retried dead letters of an inactive webhook", retried, 0)
	must(t, err)

	mustSetWebhooks(t, e, urlA)
	var entries []string
	for _, row := range auditRows(t, e) {
		entries = append(entries, fmt.Sprint(auditEntry(t, row).Action, auditEntry(t, row).Details))
	}
	equal(t, "audit log", entries, []string{
		"webhook.change[{added https://a.example/events https://b.example/events} {removed }]",
		"webhook.change[{added } {removed https://a.example/events}]",
		"webhook.change[{added https://a.example/events} {removed https://b.example/events}]",
	})
}

// testManyDeliveries shows that a change of the webhooks leaves their deliveries as they are, and that the changes of
// deliveries and dead letters are bounded. No call returns a delivery to a removed webhook, and a webhook that returns
// gets those that have not ended.
func testManyDeliveries(t *testing.T, s Store) {
	const plants = 2*store.ChangeMax + 500
	e, other := open(t, s), open(t, s)
	mustSetWebhooks(t, e, urlA, urlB)
	batch := make([]store.Create, plants)
	for i := range batch {
		batch[i] = create(int64(i), "", plant.Tag{})
	}
	mustInsert(t, e, batch...)
	taken := mustTake(t, e, store.Claim{Most: map[int64]int{1: plants}, Lease: lease})
	results := make([]store.DeliveryResult, len(taken))
	for i, d := range taken {
		results[i] = settle(d, released)
	}
	mustTake(t, e, store.Claim{}, results...)
	to := func(webhook int64) store.OutboxTotals {
		t.Helper()
		totals := mustTotals(t, other)[webhook]
		totals.Oldest = time.Time{}
		return totals
	}

	mustSetWebhooks(t, e, urlB)
	equal(t, "to the removed webhook", to(1), store.OutboxTotals{Pending: plants})
	due := func(webhook int64) int {
		t.Helper()
		return len(mustTake(t, other, store.Claim{Most: map[int64]int{webhook: 1}, Lease: lease}))
	}
	equal(t, "due to the removed webhook", due(1), 0)
	equal(t, "due to the other one", due(2), 1)
	equal(t, "ended at first", mustEnd(t, other), store.ChangeMax)
	mustSetWebhooks(t, e, urlA, urlB)
	equal(t, "ended after its return", mustEnd(t, e), 0)
	equal(t, "after its return", to(1), store.OutboxTotals{Pending: plants - store.ChangeMax, Dead: store.ChangeMax})
	equal(t, "due after its return", due(1), 1)
	mustSetWebhooks(t, e)
	var ended []int64
	for n := int64(1); n > 0; ended = append(ended, n) {
		n = mustEnd(t, e)
	}
	equal(t, "ended", ended, []int64{store.ChangeMax, store.ChangeMax, store.ChangeMax, store.ChangeMax, 0})
	equal(t, "at the end", to(1), store.OutboxTotals{Dead: plants})

	mustSetWebhooks(t, e, urlA)
	retried, errRetry := e.RetryDead(t.Context(), store.DeadSelector{}, operator)
	dropped, errDrop := e.DropDead(t.Context(), store.DeadSelector{}, operator)
	must(t, errors.Join(errRetry, errDrop))
	equal(t, "retried and dropped dead letters", []int64{retried, dropped}, []int64{store.ChangeMax, store.ChangeMax})
}

// testDeadLetters lists, retries and drops dead letters.
func testDeadLetters(t *testing.T, s Store) {
	e := open(t, s)
	mustSetWebhooks(t, e, urlA, urlB)
	mustInsert(t, e, create(-5, "", plant.Tag{}), create(7, "", plant.Tag{}), create(8, "", plant.Tag{}))
	var settled []store.DeliveryResult
	for _, d := range mustTake(t, e, claims(9)) {
		if d.Plant.ID != 8 {
			settled = append(settled, settle(d, dead))
		}
	}
	mustTake(t, e, store.Claim{}, settled...)
	var all []store.DeadLetter
	for page := (store.DeadPage{Limit: 3}); ; {
		letters, err := e.DeadLetters(t.Context(), page)
		must(t, err)
		if len(letters) == 0 {
			break
		}
		all = append(all, letters...)
		page.Webhook, page.Plant = letters[len(letters)-1].Webhook, letters[len(letters)-1].Plant
	}
	for i := range all {
		if time.Since(all[i].DeadAt).Abs() > time.Hour {
			t.Errorf("dead at %s", all[i].DeadAt)
		}
		all[i].DeadAt = time.Time{}
	}
	letter := func(webhook int64, url string, id int64) store.DeadLetter {
		return store.DeadLetter{
			Webhook: webhook, URL: url, Plant: id, Since: createdAt, Attempts: 3, Reason: "status 500",
		}
	}
	equal(t, "dead letters", all, []store.DeadLetter{
		letter(1, urlA, -5), letter(1, urlA, 7), letter(2, urlB, -5), letter(2, urlB, 7),
	})
	seven := int64(7)
	changed := func(n int64, err error) int64 {
		t.Helper()
		must(t, err)
		return n
	}
	equal(t, "retried", changed(e.RetryDead(t.Context(), store.DeadSelector{Webhook: 2, Plant: &seven}, operator)), 1)
	taken := mustTake(t, e, claims(9))
	equal(t, "after a retry", names(taken), []string{`2 {"id":7,"name":""}`})
	if d := taken[0]; d.Attempts != 0 || time.Since(d.Since).Abs() > time.Hour || !d.CreatedAt.Equal(createdAt) {
		t.Errorf("after a retry: %+v", d)
	}
	equal(t, "dropped", changed(e.DropDead(t.Context(), store.DeadSelector{Webhook: 1}, operator)), 2)
	equal(t, "retried", changed(e.RetryDead(t.Context(), store.DeadSelector{}, operator)), 1)
	equal(t, "dropped", changed(e.DropDead(t.Context(), store.DeadSelector{Plant: &seven}, operator)), 0)
	rows := auditRows(t, e)
	equal(t, "entries", len(rows), 4)
	equal(t, "entry", auditEntry(t, rows[1]).Details, []audit.Detail{
		{Key: "dead_letters", Value: "1"}, {Key: "plant_id", Value: "7"}, {Key: "webhook_id", Value: "2"},
	})
	equal(t, "actions", auditEntry(t, rows[2]).Action+auditEntry(t, rows[3]).Action,
		audit.WebhookDrop+audit.WebhookRetry)
}

// testExpire shows that old deliveries become dead letters, and that old dead letters are removed.
func testExpire(t *testing.T, s Store) {
	e := open(t, s)
	mustSetWebhooks(t, e, urlA)
	expire := func(pendingBefore, deadBefore time.Time) store.Expired {
		t.Helper()
		expired, err := e.ExpireDeliveries(t.Context(), store.Expiry{
			PendingBefore: pendingBefore, DeadBefore: deadBefore, Reason: "too old",
		})
		must(t, err)
		return expired
	}
	young := create(2, "young", plant.Tag{})
	young.At = createdAt.Add(time.Hour)
	mustInsert(t, e, create(1, "claimed", plant.Tag{}))
	mustTake(t, e, claims(1))
	mustInsert(t, e, create(3, "old", plant.Tag{}), young)
	equal(t, "nothing is too old", expire(createdAt, createdAt), store.Expired{})
	equal(t, "too old in the outbox", expire(createdAt.Add(time.Minute), createdAt), store.Expired{Dead: 1})
	letters, err := e.DeadLetters(t.Context(), store.DeadPage{Limit: 10})
	must(t, err)
	if len(letters) != 1 || letters[0].Plant != 3 || letters[0].Reason != "too old" {
		t.Errorf("dead letters: %+v", letters)
	}
	others := mustTake(t, e, claims(9))
	equal(t, "the others", names(others), []string{`1 {"id":2,"name":"young"}`})

	refused := settle(others[0], func(s *store.DeliveryResult) { s.Attempts, s.Reason = 1, "connection refused" })
	again := mustTake(t, e, claims(9), refused)
	mustTake(t, e, store.Claim{}, settle(again[0], released))
	reason := func() string {
		t.Helper()
		equal(t, "too old", expire(time.Now().Add(time.Hour), createdAt), store.Expired{Dead: 1})
		letters, err := e.DeadLetters(t.Context(), store.DeadPage{Webhook: 1, Plant: 1, Limit: 1})
		must(t, err)
		return letters[0].Reason
	}
	equal(t, "reason after an attempt", reason(), "too old; last attempt: connection refused")
	_, err = e.RetryDead(t.Context(), store.DeadSelector{Plant: &young.Plant.ID}, operator)
	must(t, err)
	equal(t, "reason without an attempt", reason(), "too old")
	equal(t, "old dead letters", expire(createdAt, time.Now().Add(time.Hour)), store.Expired{Removed: 2})
}
