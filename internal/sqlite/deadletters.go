package sqlite

import (
	"context"
	"math"
	"time"

	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// ExpireDeliveries implements webhook.Outbox.
func (e *Engine) ExpireDeliveries(ctx context.Context, x store.Expiry) (expired store.Expired, err error) {
	const (
		oldestSQL = "SELECT count(*) FROM plants WHERE created_at < ?1 " +
			"AND id = (SELECT plant FROM plantstore_outbox ORDER BY number LIMIT 1)"
		pendingSQL = "SELECT webhook, plant FROM plantstore_deliveries WHERE due_at <= ?2 AND since < ?1 LIMIT ?3"
		deadSQL    = "SELECT webhook, plant FROM plantstore_deliveries WHERE dead_at < ?1 LIMIT ?2"
	)
	now := time.Now()
	var old int64
	err = e.readApart(ctx, func(c *sqlite3.Conn) (err error) {
		old, err = c.QueryInt(oldestSQL, x.PendingBefore)
		return err
	})
	if err == nil && old > 0 {
		err = e.change(ctx, func() error {
			_, err := e.tx().FanOut(store.DeadBatch, now)
			return err
		})
	}
	if err != nil {
		return expired, err
	}
	var pending, dead []deliveryKey
	err = e.readApart(ctx, func(c *sqlite3.Conn) (err error) {
		if pending, err = deliveryKeys(c, pendingSQL, x.PendingBefore, now, store.DeadBatch); err != nil {
			return err
		}
		dead, err = deliveryKeys(c, deadSQL, x.DeadBefore, store.DeadBatch)
		return err
	})
	if err != nil || len(pending)+len(dead) == 0 {
		return expired, err
	}
	err = e.change(ctx, func() error {
		// Since the read, another server may have claimed a delivery.
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

// deliveryKeys returns the keys that a query selects.
func deliveryKeys(c *sqlite3.Conn, sql string, values ...any) ([]deliveryKey, error) {
	return sqlite3.Collect(c.Rows(sql, values...), func(s *sqlite3.Stmt) deliveryKey {
		return deliveryKey{s.Int64(0), s.Int64(1)}
	})
}

// changeDeliveries runs a statement for each key, and returns the number of changed rows.
func (e *Engine) changeDeliveries(keys []deliveryKey, sql string, args ...any) (changed int64, err error) {
	for _, key := range keys {
		if err := e.writer.Run(sql, append([]any{key.webhook, key.plant}, args...)...); err != nil {
			return changed, err
		}
		changed += int64(e.writer.Changes())
	}
	return changed, nil
}

// DeadLetters implements admin.Engine. It reads the index for each webhook, because the primary key also has the
// pending deliveries.
func (e *Engine) DeadLetters(ctx context.Context, page store.DeadPage) ([]store.DeadLetter, error) {
	const sql = "SELECT w.id, w.url, d.plant, d.since, d.dead_at, d.attempts, d.reason " +
		"FROM plantstore_webhooks AS w CROSS JOIN plantstore_deliveries AS d INDEXED BY plantstore_deliveries_due " +
		"ON d.webhook = w.id AND d.due_at IS NULL AND d.plant >= iif(w.id = ?1, ?2 + 1, ?3) " +
		"WHERE w.id >= ?1 ORDER BY w.id, d.plant LIMIT ?4"
	return query(ctx, e, func(c *sqlite3.Conn) ([]store.DeadLetter, error) {
		rows := c.Rows(sql, page.Webhook, page.Plant, int64(math.MinInt64), page.Limit)
		return sqlite3.Collect(rows, func(s *sqlite3.Stmt) store.DeadLetter {
			return store.DeadLetter{
				Webhook: s.Int64(0), URL: s.Text(1), Plant: s.Int64(2), Since: s.Time(3), DeadAt: s.Time(4),
				Attempts: int(s.Int64(5)), Reason: s.Text(6),
			}
		})
	})
}

// RetryDead implements store.Tx.
func (s statements) RetryDead(selector store.DeadSelector) (int64, error) {
	const active = " AND webhook IN (SELECT id FROM plantstore_webhooks WHERE active <> 0)"
	return s.changeDead(selector, "UPDATE plantstore_deliveries SET "+
		"since = ?4, due_at = ?4, dead_at = NULL, attempts = 0, reason = NULL", active, time.Now())
}

// DropDead implements store.Tx.
func (s statements) DropDead(selector store.DeadSelector) (int64, error) {
	return s.changeDead(selector, "DELETE FROM plantstore_deliveries", "")
}

// changeDead runs an UPDATE or a DELETE for at most store.DeadBatch dead letters that match a condition. The values are
// for ?4 and the following parameters.
func (s statements) changeDead(selector store.DeadSelector, sql, condition string, values ...any) (int64, error) {
	var plant any // NULL: every plant
	if selector.Plant != nil {
		plant = *selector.Plant
	}
	sql += " WHERE (webhook, plant) IN (SELECT webhook, plant FROM plantstore_deliveries WHERE due_at IS NULL " +
		"AND (?1 = 0 OR webhook = ?1) AND (?2 IS NULL OR plant = ?2)" + condition + " LIMIT ?3)"
	err := s.conn.Run(sql, append([]any{selector.Webhook, plant, store.DeadBatch}, values...)...)
	return int64(s.conn.Changes()), err
}
