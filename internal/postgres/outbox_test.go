package postgres_test

import (
	"errors"
	"testing"

	"plantstore/internal/audit"
	"plantstore/internal/plant"
	"plantstore/internal/postgres"
	"plantstore/internal/store"
)

// TestWebhooksOfOtherServer shows that plants have events after SetWebhooks, also if another server has made the same
// change just before, so that this one changes nothing.
func TestWebhooksOfOtherServer(t *testing.T) {
	t.Parallel()
	url := database(t)
	var engines [2]*postgres.Engine
	for i := range engines {
		e, err := postgres.Open(t.Context(), postgres.Config{URL: url})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		engines[i] = e
	}
	here, other := engines[0], engines[1]
	create := func(id int64) error {
		return insertBatch(t.Context(), here, []store.Create{{Plant: plant.NewPlant{ID: id}}})
	}
	err := create(1) // reads that there are no webhooks, for about a second
	for _, e := range []*postgres.Engine{other, here} {
		if _, errSet := e.SetWebhooks(t.Context(), []string{"https://a.example/"}, audit.Origin{}); errSet != nil {
			err = errors.Join(err, errSet)
		}
	}
	if err := errors.Join(err, create(2)); err != nil {
		t.Fatal(err)
	}
	if n := count(t, url, "SELECT count(*) FROM plantstore_outbox WHERE plant = 2"); n != 1 {
		t.Errorf("%d events of the plant, want 1", n)
	}
}
