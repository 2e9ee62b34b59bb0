package sqlite

import (
	"context"
	"math"
	"slices"
	"time"

	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// ExpireDeliveries implements webhook.Outbox.
func (e *Engine) ExpireDeliveries(ctx context.Context, x store.Expiry) (expired store.Expired, err error) {
	const (
		pendingSQL = "SELECT webhook, plant FROM plantstore_deliveries WHERE due_at <= ?2 AND since < ?1 LIMIT ?3"
		deadSQL    = "SELECT webhook, plant FROM plantstore_deliveries WHERE dead_at < ?1 LIMIT ?2"
	)
	const changes = 10 // at most, of each kind: the reads below scan all deliveries
	now := time.Now()
	for range changes {
		fanned, err := e.fanOutOld(ctx, x.PendingBefore, now)
		if err != nil {
			return expired, err
		}
		if fanned == 0 {
			break
		}
	}
	var pending, dead []deliveryKey
	err = e.readApart(ctx, func(c *sqlite3.Conn) (err error) {
		if pending, err = deliveryKeys(c, pendingSQL, x.PendingBefore, now, changes*store.ChangeMax); err != nil {
			return err
		}
		dead, err = deliveryKeys(c, deadSQL, x.DeadBefore, changes*store.ChangeMax)
		return err
	})
	if err != nil {
		return expired, err
	}
	// Since the read, another server may have claimed a delivery.
	expired.Dead, err = e.changeDeliveries(ctx, pending, "UPDATE plantstore_deliveries SET due_at = NULL, dead_at = ?3, "+
		"reason = ?4 || coalesce(?5 || reason, '') WHERE webhook = ?1 AND plant = ?2 AND due_at <= ?3",
		now, x.Reason, store.LastAttempt)
	if err != nil {
		return expired, err
	}
	expired.Removed, err = e.changeDeliveries(ctx, dead, "DELETE FROM plantstore_deliveries "+
		"WHERE webhook = ?1 AND plant = ?2 AND due_at IS NULL")
	return expired, err
}

type deliveryKey struct{ webhook, plant int64 }

// deliveryKeys returns the keys that a query selects.
func deliveryKeys(c *sqlite3.Conn, sql string, values ...any) ([]deliveryKey, error) {
	return sqlite3.Collect(c.Rows(sql, values...), func(s *sqlite3.Stmt) deliveryKey {
		return deliveryKey{s.Int64(0), s.Int64(1)}
	})
}

// fanOutOld fans out some events if the oldest one is from before a time, and returns the number of events.
func (e *Engine) fanOutOld(ctx context.Context, before, now time.Time) (events int64, err error) {
	const oldestSQL = "SELECT count(*) FROM plants WHERE created_at < ?1 " +
		"AND id = (SELECT plant FROM plantstore_outbox ORDER BY number LIMIT 1)"
	old, err := query(ctx, e, func(c *sqlite3.Conn) (int64, error) { return c.QueryInt(oldestSQL, before) })
	if err != nil || old == 0 {
		return 0, err
	}
	err = e.write(ctx, func() error {
		events, err = store.FanOutOld(e.tx(), now)
		return err
	})
	return events, err
}

// changeDeliveries runs a statement for each key, in transactions of at most store.ChangeMax keys, and returns the
// number of changed rows.
func (e *Engine) changeDeliveries(
	ctx context.Context, keys []deliveryKey, sql string, args ...any,
) (changed int64, err error) {
	for some := range slices.Chunk(keys, store.ChangeMax) {
		var n int64
		err := e.write(ctx, func() error {
			for _, key := range some {
				if err := e.writer.Run(sql, append([]any{key.webhook, key.plant}, args...)...); err != nil {
					return err
				}
				n += int64(e.writer.Changes())
			}
			return nil
		})
		if err != nil {
			return changed, err
		}
		changed += n
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

// EndDeliveries implements store.Tx.
func (s statements) EndDeliveries(webhook int64, most int) (int64, error) {
	err := s.conn.Run("UPDATE plantstore_deliveries SET due_at = NULL, dead_at = ?3, reason = ?4 "+
		"WHERE webhook = ?1 AND plant IN (SELECT plant FROM plantstore_deliveries INDEXED BY plantstore_deliveries_due "+
		"WHERE webhook = ?1 AND due_at >= ?5 LIMIT ?2)",
		webhook, most, time.Now(), store.ReasonRemoved, int64(math.MinInt64))
	return int64(s.conn.Changes()), err
}

// RetryDead implements store.Tx.
func (s statements) RetryDead(webhook int64, plant *int64, most int) (int64, error) {
	err := s.changeDead("UPDATE plantstore_deliveries SET "+
		"since = ?5, due_at = ?5, dead_at = NULL, attempts = 0, reason = NULL", webhook, plant, most, time.Now())
	return int64(s.conn.Changes()), err
}

// DropDead implements store.Tx.
func (s statements) DropDead(webhook int64, plant *int64, most int) (int64, error) {
	err := s.changeDead("DELETE FROM plantstore_deliveries", webhook, plant, most)
	return int64(s.conn.Changes()), err
}

// changeDead runs an UPDATE or a DELETE for dead letters. The values are for ?5 and the following parameters.
func (s statements) changeDead(sql string, webhook int64, plant *int64, most int, values ...any) error {
	first, last := int64(math.MinInt64), int64(math.MaxInt64)
	if plant != nil {
		first, last = *plant, *plant
	}
	sql += " WHERE webhook = ?1 AND plant IN (SELECT plant FROM plantstore_deliveries " +
		"INDEXED BY plantstore_deliveries_due WHERE webhook = ?1 AND due_at IS NULL AND plant BETWEEN ?3 AND ?4 LIMIT ?2)"
	return s.conn.Run(sql, append([]any{webhook, most, first, last}, values...)...)
}
