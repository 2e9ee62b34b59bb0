package postgres

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"plantstore/internal/audit"
	"plantstore/internal/store"
)

// webhookState is the column plantstore.webhooks as the engine has read it. Reading it for each batch would cost a
// round trip.
type webhookState struct{ last atomic.Pointer[webhooksRead] } // nil: unknown

// webhooksRead is a read of the column. The zero value is no read.
type webhooksRead struct {
	events bool
	at     time.Time // start of the read
}

// webhooksMaxAge is the age at which a batch reads plantstore.webhooks again. A server polls more often.
const webhooksMaxAge = time.Second

// known returns the column, unless it is unknown or older than webhooksMaxAge.
func (s *webhookState) known() (events, ok bool) {
	last := s.last.Load()
	if last == nil || time.Since(last.at) > webhooksMaxAge {
		return false, false
	}
	return last.events, true
}

// forget makes the next batch read the column. The engine calls it after each change.
func (s *webhookState) forget() { s.last.Store(&webhooksRead{}) }

// read returns the result of query, which reads the column, and stores it. If forget was called or another read has
// ended during the query, the result may be the older value and is not stored.
func (s *webhookState) read(query func() (events bool, err error)) (events bool, err error) {
	before, began := s.last.Load(), time.Now()
	if events, err = query(); err != nil {
		return false, err
	}
	s.last.CompareAndSwap(before, &webhooksRead{events, began})
	return events, nil
}

// writesEvents reports whether a batch writes events.
func (e *Engine) writesEvents(ctx context.Context, c *pgxpool.Conn) (bool, error) {
	if events, ok := e.webhooks.known(); ok {
		return events, nil
	}
	return e.webhooks.read(func() (now bool, err error) {
		err = single{e, c}.QueryRow(ctx, "SELECT coalesce(webhooks, FALSE) FROM plantstore").Scan(&now)
		return now, err
	})
}

// SetWebhooks implements webhook.Outbox.
func (e *Engine) SetWebhooks(ctx context.Context, urls []string, by audit.Origin) ([]store.Webhook, error) {
	all, err := e.Operations.SetWebhooks(ctx, urls, by)
	e.webhooks.forget() // even without a change: another server may have made it
	if err == nil && len(urls) > 0 {
		err = classify(e.waitForCreates(ctx))
	}
	return all, err
}

// createsSQL reads the transactions that have created plants or are about to. A statement locks its table before it
// reads the webhooks.
const createsSQL = `SELECT virtualtransaction FROM pg_locks WHERE relation = 'plants'::regclass::oid
	AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND mode = 'RowExclusiveLock'`

// waitForCreates waits for the transactions that may have found no webhooks, because they began before the commit of a
// change. After createsWaitMax it logs that they still run.
func (e *Engine) waitForCreates(ctx context.Context) error {
	const createsWaitMax, pause = 5 * time.Second, 10 * time.Millisecond
	var before []string // transactions of the first read that still run
	for started, first := time.Now(), true; ; first = false {
		now, err := collect(ctx, e.db, pgx.RowTo[string], createsSQL)
		if err != nil {
			return err
		}
		if first {
			before = now
		}
		before = slices.DeleteFunc(before, func(t string) bool { return !slices.Contains(now, t) })
		switch {
		case len(before) == 0:
			return nil
		case time.Since(started) > createsWaitMax:
			e.log.Warn("webhooks are on, but transactions that began before still create plants: these may have no event",
				"transactions", len(before))
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TakeDeliveries implements webhook.Outbox. Its transactions do not wait for each other, but for a move, because they
// read plantstore. Their time is that of the database, which all servers share.
func (e *Engine) TakeDeliveries(
	ctx context.Context, settled []store.DeliveryResult, claim store.Claim,
) (taken []store.Delivery, err error) {
	err = classify(e.inTransaction(ctx, e.pool, func(tx pgx.Tx) (err error) {
		t := store.Tables{Statements: statements{ctx, tx}}
		if err := tx.QueryRow(ctx, "SELECT current_timestamp FROM plantstore").Scan(&t.Now); err != nil {
			return err
		}
		taken, err = t.TakeDeliveries(settled, claim)
		return err
	}))
	return taken, err
}
