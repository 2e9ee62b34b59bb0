package sqlite

import (
	"context"
	"math"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// ExpireDeliveries implements webhook.Outbox.
func (e *Engine) ExpireDeliveries(ctx context.Context, x store.Expiry) (expired store.Expired, err error) {
	const (
		oldestSQL = "SELECT count(*) FROM plants WHERE created_at < ?1 " +
			"AND id = (SELECT plant FROM plantstore_outbox ORDER BY number LIMIT 1)"
		pendingSQL = "SELECT webhook, plant FROM plantstore_deliveries WHERE due_at <= ?2 AND since < ?1 LIMIT ?3"
		deadSQL    = "SELECT webhook, plant FROM plantstore_deliveries WHERE dead_at < ?1 LIMIT ?3"
	)
	var old bool
	var pending, dead []deliveryKey
	now := time.Now()
	err = e.readApart(ctx, func(c *sqlite3.Conn) (err error) {
		s, err := c.Prepare(oldestSQL)
		if err != nil {
			return err
		}
		defer s.Close()
		bind(s, 1, x.PendingBefore)
		if _, err := s.Step(); err != nil {
			return err
		}
		old = s.Int64(0) > 0
		if pending, err = deliveryKeys(c, pendingSQL, x.PendingBefore, now); err != nil {
			return err
		}
		dead, err = deliveryKeys(c, deadSQL, x.DeadBefore, now)
		return err
	})
	if err != nil || !old && len(pending)+len(dead) == 0 {
		return expired, err
	}
	err = e.write(ctx, func() error {
		expired = store.Expired{}
		if err := e.checkWritable(); err != nil {
			return err
		}
		if old {
			if _, err := e.fanOut(store.DeadBatch, now); err != nil {
				return err
			}
			if pending, err = deliveryKeys(e.writer, pendingSQL, x.PendingBefore, now); err != nil {
				return err
			}
		}
		// The claim of another delivery may have begun since the read.
		expired.Dead, err = e.changeDeliveries(pending, "UPDATE plantstore_deliveries SET due_at = NULL, dead_at = ?3, "+
			"reason = ?4 || coalesce(?5 || reason, '') WHERE webhook = ?1 AND plant = ?2 AND due_at <= ?3",
			now, x.Reason, store.LastAttempt)
		if err != nil {
			return err
		}
		expired.Removed, err = e.changeDeliveries(dead, "DELETE FROM plantstore_deliveries "+
			"WHERE webhook = ?1 AND plant = ?2 AND due_at IS NULL")
		return err
	})
	return expired, err
}

type deliveryKey struct{ webhook, plant int64 }

// deliveryKeys returns the keys of at most store.DeadBatch deliveries.
func deliveryKeys(c *sqlite3.Conn, sql string, before, now time.Time) (keys []deliveryKey, err error) {
	s, err := c.Prepare(sql)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	bind(s, 1, before)
	bind(s, 3, int64(store.DeadBatch)) // the largest parameter of every statement
	bind(s, 2, now)
	err = eachRow(s, func() { keys = append(keys, deliveryKey{s.Int64(0), s.Int64(1)}) })
	return keys, err
}

// eachRow calls a function for each row of a statement.
func eachRow(s *sqlite3.Stmt, row func()) error {
	for {
		ok, err := s.Step()
		if err != nil || !ok {
			return err
		}
		row()
	}
}

// changeDeliveries runs a statement for each key, and returns the number of changed rows.
func (e *Engine) changeDeliveries(keys []deliveryKey, sql string, args ...any) (changed int64, err error) {
	s, err := e.writer.Prepare(sql)
	if err != nil {
		return 0, err
	}
	defer s.Close()
	for _, key := range keys {
		bind(s, 1, key.webhook)
		bind(s, 2, key.plant)
		for i, arg := range args {
			bind(s, 3+i, arg)
		}
		if err := s.Run(); err != nil {
			return changed, err
		}
		changed += int64(e.writer.Changes())
	}
	return changed, nil
}

// DeadLetters implements admin.Engine.
func (e *Engine) DeadLetters(ctx context.Context, page store.DeadPage) (all []store.DeadLetter, err error) {
	err = e.read(ctx, func(c *sqlite3.Conn) error {
		hooks, err := webhooks(c)
		for _, w := range hooks {
			after := page.Plant
			switch {
			case err != nil || len(all) == page.Limit || w.ID < page.Webhook:
				continue
			case w.ID > page.Webhook:
				after = math.MinInt64
			}
			var some []store.DeadLetter
			some, err = deadLettersOf(c, w, after, w.ID == page.Webhook, page.Limit-len(all))
			all = append(all, some...)
		}
		return err
	})
	return all, err
}

// deadLettersOf returns dead letters of one webhook, by the index of deliveries that are due.
func deadLettersOf(
	c *sqlite3.Conn, w store.Webhook, after int64, without bool, limit int,
) (all []store.DeadLetter, err error) {
	s, err := c.Prepare("SELECT plant, since, dead_at, attempts, coalesce(reason, '') FROM plantstore_deliveries " +
		"WHERE webhook = ?1 AND due_at IS NULL AND plant >= ?2 AND (plant <> ?2 OR ?3 = 0) ORDER BY plant LIMIT ?4")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	excluded := int64(0)
	if without {
		excluded = 1
	}
	bind(s, 4, int64(limit)) // the largest parameter
	bind(s, 1, w.ID)
	bind(s, 2, after)
	bind(s, 3, excluded)
	err = eachRow(s, func() {
		all = append(all, store.DeadLetter{
			Webhook: w.ID, URL: w.URL, Plant: s.Int64(0), Since: timeColumn(s, 1), DeadAt: timeColumn(s, 2),
			Attempts: int(s.Int64(3)), Reason: s.Text(4),
		})
	})
	return all, err
}

// RetryDead implements admin.Engine.
func (e *Engine) RetryDead(ctx context.Context, selector store.DeadSelector, by audit.Origin) (int64, error) {
	return e.changeDead(ctx, selector, audit.WebhookRetry, by, onlyActive, "UPDATE plantstore_deliveries SET "+
		"since = ?3, due_at = ?3, dead_at = NULL, attempts = 0, reason = NULL WHERE webhook = ?1 AND plant = ?2", time.Now())
}

// DropDead implements admin.Engine.
func (e *Engine) DropDead(ctx context.Context, selector store.DeadSelector, by audit.Origin) (int64, error) {
	return e.changeDead(ctx, selector, audit.WebhookDrop, by, "",
		"DELETE FROM plantstore_deliveries WHERE webhook = ?1 AND plant = ?2")
}

// onlyActive selects the dead letters of active webhooks.
const onlyActive = "AND webhook IN (SELECT id FROM plantstore_webhooks WHERE active <> 0) "

// changeDead runs a statement for at most store.DeadBatch dead letters that match a condition,
// and appends an entry to the audit log.
func (e *Engine) changeDead(
	ctx context.Context, selector store.DeadSelector, action audit.Action, by audit.Origin,
	condition, sql string, args ...any,
) (changed int64, err error) {
	err = e.write(ctx, func() error {
		if err := e.checkWritable(); err != nil {
			return err
		}
		keys, err := e.deadKeys(selector, condition)
		if err != nil || len(keys) == 0 {
			return err
		}
		if changed, err = e.changeDeliveries(keys, sql, args...); err != nil {
			return err
		}
		return e.appendAudit(store.DeadLettersChanged(action, selector, changed, by))
	})
	return changed, err
}

func (e *Engine) deadKeys(selector store.DeadSelector, condition string) (keys []deliveryKey, err error) {
	s, err := e.writer.Prepare("SELECT webhook, plant FROM plantstore_deliveries WHERE due_at IS NULL " +
		"AND (?1 = 0 OR webhook = ?1) AND (?2 IS NULL OR plant = ?2) " + condition + "LIMIT ?3")
	if err != nil {
		return nil, err
	}
	defer s.Close()
	bind(s, 1, selector.Webhook)
	if s.BindNull(2); selector.Plant != nil {
		bind(s, 2, *selector.Plant)
	}
	bind(s, 3, int64(store.DeadBatch))
	err = eachRow(s, func() { keys = append(keys, deliveryKey{s.Int64(0), s.Int64(1)}) })
	return keys, err
}
