package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/sqlitetest"
	"plantstore/internal/store"
)

// TestExpireClaimed shows that a delivery stays pending if a server claims it after ExpireDeliveries has read it.
func TestExpireClaimed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	e := sqlitetest.Open(t, sqlite.Config{Path: filepath.Join(t.TempDir(), "plantstore.db")})
	_, err := e.SetWebhooks(ctx, []string{"https://a.example"}, audit.Origin{})
	must(t, errors.Join(err, sqlitetest.Insert(ctx, e, sqlitetest.Batch(1, 1))))
	claim := store.Claim{Most: map[int64]int{1: 1}, Lease: time.Hour}
	taken, err := e.TakeDeliveries(ctx, nil, claim)
	must(t, err)
	d := taken[0]
	released := []store.DeliveryResult{{Webhook: 1, Plant: d.Plant.ID, Since: d.Since, Lease: d.Lease}}
	must(t, second(e.TakeDeliveries(ctx, released, store.Claim{})))

	read := e.ReadLong
	e.ReadLong = func(ctx context.Context, do func(store.Tables) error) error {
		err := read(ctx, do)
		some, errTake := e.TakeDeliveries(ctx, nil, claim)
		if len(some) != 1 {
			t.Errorf("claimed %d deliveries, want 1", len(some))
		}
		return errors.Join(err, errTake)
	}
	expired, err := e.ExpireDeliveries(ctx, store.Expiry{PendingBefore: time.Now().Add(time.Hour)})
	if err != nil || expired != (store.Expired{}) {
		t.Errorf("got %+v, %v; want no dead letter", expired, err)
	}
}

// TestNoRow shows that a store without the row of plantstore has no empty audit log.
func TestNoRow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "plantstore.db")
	e := sqlitetest.Open(t, sqlite.Config{Path: path})
	sqlitetest.Exec(t, path, "DELETE FROM plantstore")
	if ends, err := e.AuditEnds(t.Context()); !errors.Is(err, store.ErrNoRow) {
		t.Errorf("got %+v, %v; want %v", ends, err, store.ErrNoRow)
	}
}
