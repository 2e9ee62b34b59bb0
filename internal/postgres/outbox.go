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

// This file implements webhook.Outbox, except for ExpireDeliveries.

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

// Webhooks implements store.Reader.
func (s statements) Webhooks() ([]store.Webhook, error) {
	return collect(s.ctx, s.q, pgx.RowToStructByPos[store.Webhook],
		"SELECT id, url, active FROM plantstore_webhooks ORDER BY id")
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

// setWebhooksSQL sets the column that reports whether the store has an active webhook.
const setWebhooksSQL = `UPDATE plantstore
	SET webhooks = (SELECT coalesce(bool_or(active), FALSE) FROM plantstore_webhooks)`

// ChangeWebhooks implements store.Tx.
func (s statements) ChangeWebhooks(added, removed []string) error {
	for _, url := range added {
		if _, err := s.exec("INSERT INTO plantstore_webhooks (id, url, active) "+
			"SELECT coalesce(max(id), 0) + 1, $1, TRUE FROM plantstore_webhooks "+
			"ON CONFLICT (url) DO UPDATE SET active = TRUE", url); err != nil {
			return err
		}
	}
	for _, url := range removed {
		if _, err := s.exec("UPDATE plantstore_webhooks SET active = FALSE WHERE url = $1", url); err != nil {
			return err
		}
	}
	_, err := s.exec(setWebhooksSQL)
	return err
}

// TakeDeliveries implements webhook.Outbox.
func (e *Engine) TakeDeliveries(
	ctx context.Context, settled []store.DeliveryResult, claim store.Claim,
) (taken []store.Delivery, err error) {
	err = e.changeOutbox(ctx, func(s statements, now time.Time) error {
		taken, err = store.TakeDeliveries(s, settled, claim, now)
		return err
	})
	return taken, err
}

// changeOutbox runs a change in a transaction. Such transactions do not wait for each other, but for a move, because
// they read plantstore. now is the time of the database, which all servers share.
func (e *Engine) changeOutbox(ctx context.Context, change func(s statements, now time.Time) error) error {
	return classify(e.inTransaction(ctx, e.pool, func(tx pgx.Tx) error {
		var now time.Time
		if err := tx.QueryRow(ctx, "SELECT current_timestamp FROM plantstore").Scan(&now); err != nil {
			return err
		}
		return change(statements{e, ctx, tx}, now)
	}))
}

// Settle implements store.Deliveries. It sends all statements at once.
func (s statements) Settle(results []store.DeliveryResult, now time.Time) error {
	var batch pgx.Batch
	for _, r := range results {
		if r.Done {
			batch.Queue("DELETE FROM plantstore_deliveries WHERE webhook = $1 AND plant = $2", r.Webhook, r.Plant)
			continue
		}
		due, dead := r.Times(now)
		batch.Queue("UPDATE plantstore_deliveries SET due_at = $1, dead_at = $2, attempts = $3, "+
			"reason = coalesce($4, reason) WHERE webhook = $5 AND plant = $6 AND due_at = $7",
			nullTime(due), nullTime(dead), r.Attempts, nullText(r.Reason), r.Webhook, r.Plant, r.Lease)
	}
	return s.q.SendBatch(s.ctx, &batch).Close()
}

// Due implements store.Deliveries.
func (s statements) Due(webhook int64, now time.Time, most int) ([]store.Delivery, error) {
	return collect(s.ctx, s.q, func(r pgx.CollectableRow) (d store.Delivery, err error) {
		err = r.Scan(&d.Plant.ID, &d.Since, &d.Attempts)
		return d, err
	}, "SELECT plant, since, attempts FROM plantstore_deliveries "+
		"WHERE webhook = $1 AND due_at <= $2 AND EXISTS (SELECT 1 FROM plantstore_webhooks WHERE id = $1 AND active) "+
		"ORDER BY due_at LIMIT $3 FOR UPDATE SKIP LOCKED", webhook, now, most)
}

// PlantsByID implements store.Reader.
func (s statements) PlantsByID(ids []int64, bytesMax int) ([]store.Row, error) {
	return plantRows(s.ctx, s.q, bytesMax, "WHERE id = ANY($1) ORDER BY id", ids)
}

// SetDue implements store.Deliveries.
func (s statements) SetDue(webhook int64, plants []int64, at time.Time) error {
	_, err := s.exec("UPDATE plantstore_deliveries SET due_at = $1 WHERE webhook = $2 AND plant = ANY($3)",
		at, webhook, plants)
	return err
}

// FanOut implements store.Deliveries.
func (s statements) FanOut(events int, now time.Time) (int64, error) {
	return s.exec(`WITH events AS (
		DELETE FROM plantstore_outbox WHERE (created_at, plant) IN (
			SELECT created_at, plant FROM plantstore_outbox WHERE EXISTS (SELECT 1 FROM plantstore_webhooks WHERE active)
			ORDER BY created_at, plant LIMIT $1 FOR UPDATE SKIP LOCKED)
		RETURNING created_at, plant)
		INSERT INTO plantstore_deliveries (webhook, plant, since, due_at, attempts)
		SELECT id, plant, created_at, $2, 0 FROM events CROSS JOIN plantstore_webhooks WHERE active
		ON CONFLICT (webhook, plant) DO NOTHING`, events, now)
}

// OutboxTotals implements webhook.Outbox.
func (e *Engine) OutboxTotals(ctx context.Context) (map[int64]store.OutboxTotals, error) {
	rows, _ := e.db.Query(ctx, `SELECT id, active,
		(SELECT pg_catalog.count(plant) FROM plantstore_outbox),
		(SELECT created_at FROM plantstore_outbox ORDER BY created_at LIMIT 1),
		pg_catalog.count(due_at), min(CASE WHEN due_at IS NOT NULL THEN since END), pg_catalog.count(dead_at)
		FROM plantstore_webhooks LEFT JOIN plantstore_deliveries ON webhook = id GROUP BY id`) // ForEachRow returns the error
	totals := map[int64]store.OutboxTotals{}
	var id, events int64
	var active bool
	var oldestEvent time.Time
	var t store.OutboxTotals
	row := []any{
		&id, &active, &events, (*nullTime)(&oldestEvent), &t.Pending, (*nullTime)(&t.Oldest), &t.Dead,
	}
	_, err := pgx.ForEachRow(rows, row, func() error {
		totals[id] = t
		if active {
			totals[id] = t.WithOutbox(events, oldestEvent)
		}
		return nil
	})
	return totals, classify(err)
}
