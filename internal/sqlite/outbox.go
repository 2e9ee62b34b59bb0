package sqlite

import (
	"context"
	"errors"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// This file implements webhook.Outbox, except for ExpireDeliveries.

// EventsWritten implements webhook.Outbox.
func (e *Engine) EventsWritten() <-chan struct{} { return e.events }

func (e *Engine) signalEvents() {
	select {
	case e.events <- struct{}{}:
	default: // the receiver has not received the last signal yet
	}
}

// checkBatch is checkWritable for a batch with new plants; events reports whether it writes
// events. A store that a move fills has the events of the other store.
func (e *Engine) checkBatch() (events bool, err error) {
	now, webhooks, err := e.currentState()
	if err == nil && now != e.ownMoveState {
		err = now.Err()
	}
	return webhooks && now.Phase == "", err
}

// writeEvents writes the events of the created plants of a batch.
func (e *Engine) writeEvents(batch []store.Create, outcomes []store.Outcome) (err error) {
	if e.stmts.event == nil {
		const sql = "INSERT INTO plantstore_outbox (plant) VALUES (?)"
		if e.stmts.event, err = e.writer.Prepare(sql); err != nil {
			return err
		}
	}
	for i := range batch {
		if !outcomes[i].Created() {
			continue
		}
		e.stmts.event.BindInt64(1, batch[i].Plant.ID)
		if err := e.stmts.event.Run(); err != nil {
			return err
		}
	}
	return nil
}

// Webhooks implements webhook.Outbox.
func (e *Engine) Webhooks(ctx context.Context) (all []store.Webhook, err error) {
	err = e.read(ctx, func(c *sqlite3.Conn) error {
		all, err = webhooks(c)
		return err
	})
	return all, err
}

func webhooks(c *sqlite3.Conn) (all []store.Webhook, err error) {
	s, err := c.Prepare("SELECT id, url, active FROM plantstore_webhooks ORDER BY id")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	err = eachRow(s, func() {
		all = append(all, store.Webhook{ID: s.Int64(0), URL: s.Text(1), Active: s.Int64(2) != 0})
	})
	return all, err
}

// SetWebhooks implements webhook.Outbox.
func (e *Engine) SetWebhooks(ctx context.Context, urls []string, by audit.Origin) (all []store.Webhook, err error) {
	if all, err = e.Webhooks(ctx); err != nil {
		return nil, err
	}
	if added, removed := store.ChangeWebhooks(all, urls); len(added)+len(removed) == 0 {
		return all, nil // without a write, so that a server can start on a full disk
	}
	err = e.write(ctx, func() error {
		if err := e.checkWritable(); err != nil {
			return err
		}
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
		if err := e.run("INSERT INTO plantstore_webhooks (url, active) VALUES (?, 1) "+
			"ON CONFLICT (url) DO UPDATE SET active = 1", url); err != nil {
			return err
		}
	}
	for _, url := range removed {
		if err := e.run("UPDATE plantstore_webhooks SET active = 0 WHERE url = ?", url); err != nil {
			return err
		}
		if err := e.run("UPDATE plantstore_deliveries SET due_at = NULL, dead_at = ?, reason = ? WHERE due_at IS NOT NULL "+
			"AND webhook = (SELECT id FROM plantstore_webhooks WHERE url = ?)",
			time.Now(), store.ReasonRemoved, url); err != nil {
			return err
		}
	}
	return e.run("UPDATE state SET webhooks = (SELECT max(active) FROM plantstore_webhooks)")
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
	err = e.write(ctx, func() error {
		taken = nil
		if err := e.checkWritable(); err != nil {
			return err
		}
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
func (e *Engine) deliveriesDue(ctx context.Context, claim store.Claim) (due bool, err error) {
	err = e.read(ctx, func(c *sqlite3.Conn) error {
		s, err := c.Prepare("SELECT EXISTS (SELECT 1 FROM plantstore_outbox) OR " +
			"EXISTS (SELECT 1 FROM plantstore_deliveries WHERE webhook = ? AND due_at <= ?)")
		if err != nil {
			return err
		}
		defer s.Close()
		for webhook, most := range claim.Most {
			if most == 0 {
				continue
			}
			s.BindInt64(1, webhook)
			s.BindInt64(2, time.Now().UnixMicro())
			if _, err := s.Step(); err != nil {
				return err
			}
			due = due || s.Int64(0) != 0
			s.Reset()
		}
		return nil
	})
	return due, err
}

// settle stores the results of deliveries. A failure counts only if the claim has not ended.
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
		s, at := done, 1
		if !r.Done {
			s, at = failed, 5
			due, dead := r.Times(now)
			bind(s, 1, due)
			bind(s, 2, dead)
			bind(s, 3, int64(r.Attempts))
			bind(s, 4, r.Reason)
			bind(s, 7, r.Lease)
		}
		bind(s, at, r.Webhook)
		bind(s, at+1, r.Plant)
		if err := s.Run(); err != nil {
			return err
		}
	}
	return nil
}

// claim claims deliveries that are due. If there are fewer than the claim allows, it takes
// events from the outbox.
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

// fanOut replaces the oldest events of the outbox by deliveries to every active webhook. It
// returns the number of the events.
func (e *Engine) fanOut(most int, now time.Time) (events int, err error) {
	const oldest = "(SELECT number, plant FROM plantstore_outbox ORDER BY number LIMIT ?1)"
	if err := e.run("INSERT INTO plantstore_deliveries (webhook, plant, since, due_at, attempts) "+
		"SELECT w.id, p.id, p.created_at, ?2, 0 FROM "+oldest+" AS o "+
		"INNER JOIN plants AS p ON p.id = o.plant CROSS JOIN plantstore_webhooks AS w WHERE w.active <> 0 "+
		"ON CONFLICT DO NOTHING", int64(most), now); err != nil {
		return 0, err
	}
	if err := e.run("DELETE FROM plantstore_outbox WHERE number IN (SELECT number FROM "+oldest+") "+
		"AND EXISTS (SELECT 1 FROM plantstore_webhooks WHERE active <> 0)", int64(most)); err != nil {
		return 0, err
	}
	return e.writer.Changes(), nil
}

// claimer claims deliveries in a transaction.
type claimer struct {
	engine     *Engine
	now, lease time.Time
	bytes      int // of the texts of taken
	taken      []store.Delivery
}

// claimFor claims deliveries to a webhook until the texts of all claims exceed
// store.PlantsBytes.
func (c *claimer) claimFor(webhook int64, most int) (claimed int, err error) {
	due, err := c.due(webhook, most)
	if err != nil {
		return 0, err
	}
	found, err := c.engine.writer.Prepare("SELECT " + rowColumns + " FROM plants WHERE id = ?")
	if err != nil {
		return 0, err
	}
	defer found.Close()
	update, err := c.engine.writer.Prepare("UPDATE plantstore_deliveries SET due_at = ? WHERE webhook = ? AND plant = ?")
	if err != nil {
		return 0, err
	}
	defer update.Close()
	for _, d := range due {
		if c.bytes > store.PlantsBytes {
			break
		}
		found.BindInt64(1, d.Plant.ID)
		ok, err := found.Step()
		if err != nil {
			return claimed, err
		}
		next := c.now.Add(store.AbsentPause)
		if ok {
			r := storedRow(found)
			d.Plant, d.CreatedAt, d.Lease = r.NewPlant, r.CreatedAt, c.lease
			c.taken, next = append(c.taken, d), c.lease
			c.bytes += d.Plant.Bytes()
			claimed++
		}
		found.Reset()
		bind(update, 1, next)
		bind(update, 2, webhook)
		bind(update, 3, d.Plant.ID)
		if err := update.Run(); err != nil {
			return claimed, err
		}
	}
	return claimed, nil
}

// due returns the deliveries to a webhook that are due, without their plants.
func (c *claimer) due(webhook int64, most int) (due []store.Delivery, err error) {
	s, err := c.engine.writer.Prepare("SELECT plant, since, attempts FROM plantstore_deliveries " +
		"WHERE webhook = ? AND due_at <= ? ORDER BY due_at LIMIT ?")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	bind(s, 1, webhook)
	bind(s, 2, c.now)
	bind(s, 3, int64(most))
	err = eachRow(s, func() {
		due = append(due, store.Delivery{
			Webhook: webhook, Plant: plant.NewPlant{ID: s.Int64(0)},
			Since: timeColumn(s, 1), Attempts: int(s.Int64(2)),
		})
	})
	return due, err
}

// OutboxTotals implements webhook.Outbox.
func (e *Engine) OutboxTotals(ctx context.Context) (totals map[int64]store.OutboxTotals, err error) {
	err = e.readApart(ctx, func(c *sqlite3.Conn) error {
		totals, err = outboxTotals(c)
		return err
	})
	return totals, err
}

// readApart is read on a connection of its own, for a read that may be long: the polls of a
// server use the reading connection.
func (e *Engine) readApart(ctx context.Context, fn func(c *sqlite3.Conn) error) error {
	c, err := openForReading(e.path)
	if err != nil {
		return err
	}
	err = during(ctx, c, func() error { return fn(c) })
	return classify(errors.Join(err, c.Close()))
}

func outboxTotals(c *sqlite3.Conn) (map[int64]store.OutboxTotals, error) {
	s, err := c.Prepare("SELECT id, active, (SELECT count(*) FROM plantstore_outbox), " +
		"(SELECT created_at FROM plants WHERE id = (SELECT plant FROM plantstore_outbox ORDER BY number LIMIT 1)), " +
		"count(due_at), min(CASE WHEN due_at IS NOT NULL THEN since END), count(dead_at) " +
		"FROM plantstore_webhooks LEFT JOIN plantstore_deliveries ON webhook = id GROUP BY id")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	totals := map[int64]store.OutboxTotals{}
	return totals, eachRow(s, func() {
		t := store.OutboxTotals{Pending: s.Int64(4), Oldest: timeColumn(s, 5), Dead: s.Int64(6)}
		if s.Int64(1) != 0 {
			t = t.WithOutbox(s.Int64(2), timeColumn(s, 3))
		}
		totals[s.Int64(0)] = t
	})
}
