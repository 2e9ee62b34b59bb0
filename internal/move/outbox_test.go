package move_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/move"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
)

// TestOutbox shows that a move copies the undelivered events, including events of plants that are created during the
// move, with the claims of the old servers, and that it writes no events for the plants that it copies.
func TestOutbox(t *testing.T) {
	t.Parallel()
	everyWay(t, func(t *testing.T, fromPlace, toPlace place) {
		from, to := fromPlace(t), toPlace(t)
		insert(t, from, plants(1, 20)...)
		webhooks, err := from.SetWebhooks(t.Context(), []string{"https://a.example"}, audit.Origin{})
		must(t, err)
		insert(t, from, plants(101, 4)...)
		claim := store.Claim{Most: map[int64]int{1: 3}, Lease: time.Hour}
		taken, err := from.TakeDeliveries(t.Context(), nil, claim)
		must(t, err)
		_, err = from.TakeDeliveries(t.Context(), []store.DeliveryResult{
			{Webhook: 1, Plant: taken[0].Plant.ID, Lease: taken[0].Lease, Done: true},
			{Webhook: 1, Plant: taken[1].Plant.ID, Lease: taken[1].Lease, Dead: true, Attempts: 1, Reason: "status 500"},
		}, store.Claim{})
		must(t, err)
		c := config(from, to)
		c.Announce = func() { insert(t, from, plants(201, 2)...) }
		_, err = move.Run(t.Context(), c)
		must(t, err)

		want := outboxOf(t, from)
		equal(t, "outbox of the new store", outboxOf(t, to), want)
		equal(t, "rows", len(want), 5)
		got, err := to.Webhooks(t.Context())
		must(t, err)
		equal(t, "webhooks", got, webhooks)
		taken, err = toPlace(t).TakeDeliveries(t.Context(), nil, store.Claim{Most: map[int64]int{1: 9}, Lease: time.Hour})
		must(t, err)
		equal(t, "deliveries that no old server has claimed", len(taken), 3)
	})
}

func outboxOf(t testing.TB, s storetest.Engine) []store.OutboxRow {
	t.Helper()
	rows, err := s.OutboxRows(t.Context(), 1000)
	must(t, err)
	slices.SortFunc(rows, func(a, b store.OutboxRow) int {
		return cmp.Or(cmp.Compare(a.Webhook, b.Webhook), cmp.Compare(a.Plant, b.Plant))
	})
	return rows
}

// crowded is a store with a large outbox.
type crowded struct{ storetest.Engine }

func (crowded) OutboxRows(_ context.Context, most int) ([]store.OutboxRow, error) {
	return make([]store.OutboxRow, most), nil
}

// TestLargeOutbox shows that a move refuses an outbox that it cannot copy in the write pause, before it changes
// anything.
func TestLargeOutbox(t *testing.T) {
	t.Parallel()
	from, to := inFile(t)(t), inFile(t)(t)
	_, err := move.Run(t.Context(), config(crowded{from}, to))
	const want = "the old one has more than 100000 undelivered webhook events and dead letters"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	equal(t, "the new store", contentOf(t, to), content{})
	equal(t, "the old store", contentOf(t, from), content{})
}
