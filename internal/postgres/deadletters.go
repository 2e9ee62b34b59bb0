package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/store"
)

// ExpireDeliveries implements webhook.Outbox.
func (e *Engine) ExpireDeliveries(ctx context.Context, x store.Expiry) (expired store.Expired, err error) {
	err = e.changeOutbox(ctx, func(s statements, now time.Time) error {
		expired = store.Expired{}
		old := false
		err := s.q.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM plantstore_outbox WHERE $1 > created_at)", x.PendingBefore).
			Scan(&old)
		if err == nil && old {
			_, err = s.FanOut(store.DeadBatch, now)
		}
		if err != nil {
			return err
		}
		expired.Dead, err = s.exec(`UPDATE plantstore_deliveries SET due_at = NULL, dead_at = $1,
			reason = pg_catalog.concat($2::text, CASE WHEN reason IS NOT NULL THEN $5::text END, reason)
			WHERE (webhook, plant) IN (SELECT webhook, plant FROM plantstore_deliveries
				WHERE due_at <= $1 AND $3 > since LIMIT $4 FOR UPDATE SKIP LOCKED)`,
			now, x.Reason, x.PendingBefore, store.DeadBatch, store.LastAttempt)
		if err != nil {
			return err
		}
		expired.Removed, err = s.exec(`DELETE FROM plantstore_deliveries
			WHERE (webhook, plant) IN (SELECT webhook, plant FROM plantstore_deliveries
				WHERE $1 > dead_at LIMIT $2 FOR UPDATE SKIP LOCKED)`, x.DeadBefore, store.DeadBatch)
		return err
	})
	return expired, err
}

// DeadLetters implements admin.Engine.
func (e *Engine) DeadLetters(ctx context.Context, page store.DeadPage) ([]store.DeadLetter, error) {
	all, err := collect(ctx, e.db, func(r pgx.CollectableRow) (d store.DeadLetter, err error) {
		err = r.Scan(&d.Webhook, &d.URL, &d.Plant, &d.Since, &d.DeadAt, &d.Attempts, &d.Reason)
		return d, err
	}, `SELECT webhook, url, plant, since, dead_at, attempts, coalesce(reason, '')
		FROM plantstore_deliveries INNER JOIN plantstore_webhooks ON id = webhook
		WHERE due_at IS NULL AND (webhook, plant) > ($1, $2) ORDER BY webhook, plant LIMIT $3`,
		page.Webhook, page.Plant, page.Limit)
	return all, classify(err)
}

// deadSQL selects the dead letters of a webhook, 0 for every one, and of a plant, NULL for
// every one. A condition and the limit follow.
const deadSQL = `(webhook, plant) IN (SELECT webhook, plant FROM plantstore_deliveries
	WHERE due_at IS NULL AND $1::bigint IN (0, webhook) AND plant = coalesce($2, plant)`

// RetryDead implements store.Tx.
func (s statements) RetryDead(selector store.DeadSelector) (int64, error) {
	return s.exec(`UPDATE plantstore_deliveries
		SET since = current_timestamp, due_at = current_timestamp, dead_at = NULL, attempts = 0, reason = NULL
		WHERE `+deadSQL+" AND webhook IN (SELECT id FROM plantstore_webhooks WHERE active) LIMIT $3)",
		selector.Webhook, selector.Plant, store.DeadBatch)
}

// DropDead implements store.Tx.
func (s statements) DropDead(selector store.DeadSelector) (int64, error) {
	return s.exec("DELETE FROM plantstore_deliveries WHERE "+deadSQL+" LIMIT $3)",
		selector.Webhook, selector.Plant, store.DeadBatch)
}
