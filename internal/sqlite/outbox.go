package sqlite

import (
	"context"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// This file implements webhook.Outbox, except for ExpireDeliveries.

// EventsWritten implements webhook.Outbox.
func (e *Engine) EventsWritten() <-chan struct{} { return e.events }

func (e *Engine) signalEvents() {
	select {
	case e.events <- struct{}{}:
	default: // the previous signal is still unread
	}
}

// Webhooks implements webhook.Outbox.
func (e *Engine) Webhooks(ctx context.Context) ([]store.Webhook, error) {
	return query(ctx, e, webhooks)
}

func webhooks(c *sqlite3.Conn) ([]store.Webhook, error) {
	rows := c.Rows("SELECT id, url, active FROM plantstore_webhooks ORDER BY id")
	return sqlite3.Collect(rows, func(s *sqlite3.Stmt) store.Webhook {
		return store.Webhook{ID: s.Int64(0), URL: s.Text(1), Active: s.Int64(2) != 0}
	})
}

// SetWebhooks implements webhook.Outbox.
func (e *Engine) SetWebhooks(ctx context.Context, urls []string, by audit.Origin) (all []store.Webhook, err error) {
	if all, err = e.Webhooks(ctx); err != nil {
		return nil, err
	}
	if added, removed := store.ChangeWebhooks(all, urls); len(added)+len(removed) == 0 {
		return all, nil // without a write, so that a server can start on a full disk
	}
	err = e.change(ctx, func() error {
		if all, err = webhooks(e.writer); err != nil {
			return err
		}
		added, removed := store.ChangeWebhooks(all, urls)
		if err := e.changeWebhooks(added, removed); err != nil {
			return err
		}
		all, err = webhooks(e.writer)
		if err != nil || len(added)+len(removed) == 0 {
			return err
		}
		return e.appendAudit(store.WebhooksChanged(added, removed, by))
	})
	return all, err
}

func (e *Engine) changeWebhooks(added, removed []string) error {
	for _, url := range added {
		if err := e.writer.Run("INSERT INTO plantstore_webhooks (url, active) VALUES (?, 1) "+
			"ON CONFLICT (url) DO UPDATE SET active = 1", url); err != nil {
			return err
		}
	}
	for _, url := range removed {
		if err := e.writer.Run("UPDATE plantstore_webhooks SET active = 0 WHERE url = ?", url); err != nil {
			return err
		}
		if err := e.writer.Run("UPDATE plantstore_deliveries SET due_at = NULL, dead_at = ?, reason = ? "+
			"WHERE due_at IS NOT NULL AND webhook = (SELECT id FROM plantstore_webhooks WHERE url = ?)",
			time.Now(), store.ReasonRemoved, url); err != nil {
			return err
		}
	}
	return e.writer.Run("UPDATE state SET webhooks = (SELECT max(active) FROM plantstore_webhooks)")
}

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
	err = e.change(ctx, func() error {
		taken = nil
		now := time.Now()
		if err := e.settle(settled, now); err != nil {
			return err
		}
		taken, err = e.claim(claim, now)
		return err
	})
	if err != nil {
		return nil, err
	}
	return taken, nil
}

// deliveriesDue reports whether a claim would return deliveries.
func (e *Engine) deliveriesDue(ctx context.Context, claim store.Claim) (bool, error) {
	return query(ctx, e, func(c *sqlite3.Conn) (bool, error) {
		const sql = "SELECT EXISTS (SELECT 1 FROM plantstore_outbox) OR " +
			"EXISTS (SELECT 1 FROM plantstore_deliveries WHERE webhook = ? AND due_at <= ?)"
		for webhook, most := range claim.Most {
			if most == 0 {
				continue
			}
			if n, err := c.QueryInt(sql, webhook, time.Now()); err != nil || n != 0 {
				return n != 0, err
			}
		}
		return false, nil
	})
}

// settle stores the results of deliveries. It ignores a failure whose claim has expired.
func (e *Engine) settle(settled []store.DeliveryResult, now time.Time) error {
	if len(settled) == 0 {
		return nil
	}
	done, err := e.writer.Prepare("DELETE FROM plantstore_deliveries WHERE webhook = ? AND plant = ?")
	if err != nil {
		return err
	}
	defer done.Close()
	failed, err := e.writer.Prepare("UPDATE plantstore_deliveries SET due_at = ?, dead_at = ?, attempts = ?, " +
		"reason = coalesce(nullif(?, ''), reason) WHERE webhook = ? AND plant = ? AND due_at = ?")
	if err != nil {
		return err
	}
	defer failed.Close()
	for _, r := range settled {
		if r.Done {
			err = done.Run(r.Webhook, r.Plant)
		} else {
			due, dead := r.Times(now)
			err = failed.Run(due, dead, r.Attempts, r.Reason, r.Webhook, r.Plant, r.Lease)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// claim claims deliveries that are due. If they are fewer than the claim allows, it first turns
// events of the outbox into deliveries.
func (e *Engine) claim(claim store.Claim, now time.Time) ([]store.Delivery, error) {
	c := claimer{engine: e, now: now, lease: now.Add(claim.Lease)}
	err := claim.Take(c.claimFor, func(events int) (bool, error) {
		if c.bytes > store.PlantsBytes {
			return false, nil
		}
		n, err := e.fanOut(events, now)
		return n > 0, err
	})
	return c.taken, err
}

// fanOut replaces the oldest events of the outbox by a delivery to each active webhook, and
// returns the number of events.
func (e *Engine) fanOut(most int, now time.Time) (events int, err error) {
	const oldest = "(SELECT number, plant FROM plantstore_outbox ORDER BY number LIMIT ?1)"
	if err := e.writer.Run("INSERT INTO plantstore_deliveries (webhook, plant, since, due_at, attempts) "+
		"SELECT w.id, p.id, p.created_at, ?2, 0 FROM "+oldest+" AS o "+
		"INNER JOIN plants AS p ON p.id = o.plant CROSS JOIN plantstore_webhooks AS w WHERE w.active <> 0 "+
		"ON CONFLICT DO NOTHING", most, now); err != nil {
		return 0, err
	}
	if err := e.writer.Run("DELETE FROM plantstore_outbox WHERE number IN (SELECT number FROM "+oldest+") "+
		"AND EXISTS (SELECT 1 FROM plantstore_webhooks WHERE active <> 0)", most); err != nil {
		return 0, err
	}
	return e.writer.Changes(), nil
}

// claimer claims deliveries in a transaction.
type claimer struct {
	engine     *Engine
	now, lease time.Time
	bytes      int // size of the texts in taken
	taken      []store.Delivery
}

// claimFor claims deliveries to a webhook until the texts of all claims exceed
// store.PlantsBytes.
func (c *claimer) claimFor(webhook int64, most int) (claimed int, err error) {
	const sql = "SELECT " + dbfile.PlantColumns + ", plant, since, attempts FROM plantstore_deliveries " +
		"LEFT JOIN plants ON id = plant WHERE webhook = ? AND due_at <= ? ORDER BY due_at LIMIT ?"
	type change struct {
		plant int64
		due   time.Time
	}
	var changes []change // after the loop, because they change the order of the rows
	for s, err := range c.engine.writer.Rows(sql, webhook, c.now, most) {
		if err != nil {
			return 0, err
		}
		if c.bytes > store.PlantsBytes {
			break
		}
		if absent := s.Null(0); absent {
			changes = append(changes, change{s.Int64(5), c.now.Add(store.AbsentPause)})
			continue
		}
		r := dbfile.PlantRow(s)
		c.taken = append(c.taken, store.Delivery{
			Webhook: webhook, Plant: r.NewPlant, CreatedAt: r.CreatedAt, Since: s.Time(6), Attempts: int(s.Int64(7)),
			Lease: c.lease,
		})
		c.bytes += r.Bytes()
		claimed++
		changes = append(changes, change{r.ID, c.lease})
	}
	update, err := c.engine.writer.Prepare("UPDATE plantstore_deliveries SET due_at = ? WHERE webhook = ? AND plant = ?")
	if err != nil {
		return 0, err
	}
	defer update.Close()
	for _, change := range changes {
		if err := update.Run(change.due, webhook, change.plant); err != nil {
			return 0, err
		}
	}
	return claimed, nil
}

// OutboxTotals implements webhook.Outbox.
func (e *Engine) OutboxTotals(ctx context.Context) (totals map[int64]store.OutboxTotals, err error) {
	err = e.readApart(ctx, func(c *sqlite3.Conn) error {
		totals, err = outboxTotals(c)
		return err
	})
	return totals, err
}

// readApart is read on a new connection, for a read that may take long: the server polls its
// state on the reading connection.
func (e *Engine) readApart(ctx context.Context, fn func(c *sqlite3.Conn) error) error {
	return dbfile.Read(ctx, e.path, func(c *sqlite3.Conn) error { return classify(fn(c)) })
}

func outboxTotals(c *sqlite3.Conn) (map[int64]store.OutboxTotals, error) {
	const sql = "SELECT id, active, (SELECT count(*) FROM plantstore_outbox), " +
		"(SELECT created_at FROM plants WHERE id = (SELECT plant FROM plantstore_outbox ORDER BY number LIMIT 1)), " +
		"count(due_at), min(CASE WHEN due_at IS NOT NULL THEN since END), count(dead_at) " +
		"FROM plantstore_webhooks LEFT JOIN plantstore_deliveries ON webhook = id GROUP BY id"
	totals := map[int64]store.OutboxTotals{}
	for s, err := range c.Rows(sql) {
		if err != nil {
			return nil, err
		}
		t := store.OutboxTotals{Pending: s.Int64(4), Oldest: s.Time(5), Dead: s.Int64(6)}
		if s.Int64(1) != 0 {
			t = t.WithOutbox(s.Int64(2), s.Time(3))
		}
		totals[s.Int64(0)] = t
	}
	return totals, nil
}
