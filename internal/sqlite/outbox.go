package sqlite

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// This file implements webhook.Outbox, except for ExpireDeliveries.

// Webhooks implements store.Reader.
func (s statements) Webhooks() ([]store.Webhook, error) {
	rows := s.conn.Rows("SELECT id, url, active FROM plantstore_webhooks ORDER BY id")
	return sqlite3.Collect(rows, func(s *sqlite3.Stmt) store.Webhook {
		return store.Webhook{ID: s.Int64(0), URL: s.Text(1), Active: s.Int64(2) != 0}
	})
}

// ChangeWebhooks implements store.Tx.
func (s statements) ChangeWebhooks(added, removed []string) error {
	for _, url := range added {
		if err := s.conn.Run("INSERT INTO plantstore_webhooks (url, active) VALUES (?, 1) "+
			"ON CONFLICT (url) DO UPDATE SET active = 1", url); err != nil {
			return err
		}
	}
	for _, url := range removed {
		if err := s.conn.Run("UPDATE plantstore_webhooks SET active = 0 WHERE url = ?", url); err != nil {
			return err
		}
	}
	return s.conn.Run(setWebhooksSQL)
}

// setWebhooksSQL sets the column that reports whether the store has an active webhook.
const setWebhooksSQL = "UPDATE state SET webhooks = (SELECT max(active) FROM plantstore_webhooks)"

// TakeDeliveries implements webhook.Outbox.
func (e *Engine) TakeDeliveries(
	ctx context.Context, settled []store.DeliveryResult, claim store.Claim,
) (taken []store.Delivery, err error) {
	if len(settled) == 0 {
		if due, err := e.deliveriesDue(ctx, claim); err != nil || !due {
			return nil, err // without a write
		}
	}
	const framesEach = 4 // the pages of a row in the outbox, the table of deliveries and its index
	frames := framesEach * len(settled)
	for _, most := range claim.Most {
		frames += framesEach * most
	}
	if err := e.checkpointIfDue(ctx, frames); err != nil {
		return nil, err
	}
	err = e.write(ctx, func() error {
		taken, err = store.TakeDeliveries(e.tx(), settled, claim, time.Now())
		return err
	})
	return taken, err
}

// deliveriesDue reports whether a claim would return deliveries.
func (e *Engine) deliveriesDue(ctx context.Context, claim store.Claim) (bool, error) {
	return query(ctx, e, func(c *sqlite3.Conn) (bool, error) {
		const sql = "SELECT EXISTS (SELECT 1 FROM plantstore_outbox) OR EXISTS (SELECT 1" + dueSQL + ")"
		for webhook := range claim.Most {
			if n, err := c.QueryInt(sql, webhook, time.Now()); err != nil || n != 0 {
				return n != 0, err
			}
		}
		return false, nil
	})
}

// Settle implements store.Deliveries.
func (s statements) Settle(results []store.DeliveryResult, now time.Time) error {
	for _, r := range results {
		var err error
		if r.Done {
			err = s.conn.Run("DELETE FROM plantstore_deliveries WHERE webhook = ? AND plant = ?", r.Webhook, r.Plant)
		} else {
			due, dead := r.Times(now)
			err = s.conn.Run("UPDATE plantstore_deliveries SET due_at = ?, dead_at = ?, attempts = ?, "+
				"reason = coalesce(nullif(?, ''), reason) WHERE webhook = ? AND plant = ? AND due_at = ?",
				due, dead, r.Attempts, r.Reason, r.Webhook, r.Plant, r.Lease)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// dueSQL selects the deliveries to a webhook that are due at a time, unless the webhook was removed.
const dueSQL = " FROM plantstore_deliveries WHERE webhook = ?1 AND due_at <= ?2 " +
	"AND EXISTS (SELECT 1 FROM plantstore_webhooks WHERE id = ?1 AND active <> 0)"

// Due implements store.Deliveries.
func (s statements) Due(webhook int64, now time.Time, most int) ([]store.Delivery, error) {
	const sql = "SELECT plant, since, attempts" + dueSQL + " ORDER BY due_at LIMIT ?3"
	return sqlite3.Collect(s.conn.Rows(sql, webhook, now, most), func(s *sqlite3.Stmt) store.Delivery {
		return store.Delivery{
			Plant: plant.NewPlant{ID: s.Int64(0)}, Since: s.Time(1), Attempts: int(s.Int64(2)),
		}
	})
}

// PlantsByID implements store.Reader.
func (s statements) PlantsByID(ids []int64, bytesMax int) ([]store.Row, error) {
	list, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	const where = " FROM plants WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id"
	var damaged []int64
	rows, err := collectWithin(s.conn.Rows("SELECT "+dbfile.PlantColumns+where, string(list)), bytesMax,
		func(d *store.Digester, stmt *sqlite3.Stmt) (store.Row, error) {
			r, ok := dbfile.PlantRow(d, stmt)
			if !ok {
				s.engine.logDamage(r.ID)
				damaged = append(damaged, r.ID)
			}
			return r, nil
		})
	return slices.DeleteFunc(rows, func(r store.Row) bool { return slices.Contains(damaged, r.ID) }), err
}

// SetDue implements store.Deliveries.
func (s statements) SetDue(webhook int64, plants []int64, at time.Time) error {
	for _, id := range plants {
		const sql = "UPDATE plantstore_deliveries SET due_at = ? WHERE webhook = ? AND plant = ?"
		if err := s.conn.Run(sql, at, webhook, id); err != nil {
			return err
		}
	}
	return nil
}

// FanOut implements store.Deliveries.
func (s statements) FanOut(events int, now time.Time) (int64, error) {
	const oldest = "(SELECT number, plant FROM plantstore_outbox ORDER BY number LIMIT ?1)"
	if err := s.conn.Run("INSERT INTO plantstore_deliveries (webhook, plant, since, due_at, attempts) "+
		"SELECT w.id, p.id, p.created_at, ?2, 0 FROM "+oldest+" AS o "+
		"INNER JOIN plants AS p ON p.id = o.plant CROSS JOIN plantstore_webhooks AS w WHERE w.active <> 0 "+
		"ON CONFLICT DO NOTHING", events, now); err != nil {
		return 0, err
	}
	err := s.conn.Run("DELETE FROM plantstore_outbox WHERE number IN (SELECT number FROM "+oldest+") "+
		"AND EXISTS (SELECT 1 FROM plantstore_webhooks WHERE active <> 0)", events)
	return int64(s.conn.Changes()), err
}

// OutboxTotals implements webhook.Outbox.
func (e *Engine) OutboxTotals(ctx context.Context) (map[int64]store.OutboxTotals, error) {
	const sql = "SELECT id, active, (SELECT count(*) FROM plantstore_outbox), " +
		"(SELECT created_at FROM plants WHERE id = (SELECT plant FROM plantstore_outbox ORDER BY number LIMIT 1)), " +
		"count(due_at), min(CASE WHEN due_at IS NOT NULL THEN since END), count(dead_at) " +
		"FROM plantstore_webhooks LEFT JOIN plantstore_deliveries ON webhook = id GROUP BY id"
	totals := map[int64]store.OutboxTotals{}
	err := e.readApart(ctx, func(c *sqlite3.Conn) error {
		for s, err := range c.Rows(sql) {
			if err != nil {
				return err
			}
			t := store.OutboxTotals{Pending: s.Int64(4), Oldest: s.Time(5), Dead: s.Int64(6)}
			if s.Int64(1) != 0 {
				t = t.WithOutbox(s.Int64(2), s.Time(3))
			}
			totals[s.Int64(0)] = t
		}
		return nil
	})
	return totals, err
}

// readApart is read on a new connection, for a read that may take long: the server polls its state on the reading
// connection.
func (e *Engine) readApart(ctx context.Context, fn func(c *sqlite3.Conn) error) error {
	return dbfile.Read(ctx, e.path, func(c *sqlite3.Conn) error { return classify(fn(c)) })
}
