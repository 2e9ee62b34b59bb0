package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/audit"
	"plantstore/internal/store"
)

// ExpireDeliveries implements webhook.Outbox.
func (e *Engine) ExpireDeliveries(ctx context.Context, x store.Expiry) (expired store.Expired, err error) {
	err = e.changeOutbox(ctx, func(tx pgx.Tx, now time.Time) error {
		expired = store.Expired{}
		old := false
		err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM plantstore_outbox WHERE $1 > created_at)", x.PendingBefore).
			Scan(&old)
		if err == nil && old {
			_, err = fanOut(ctx, tx, store.DeadBatch, now)
		}
		if err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE plantstore_deliveries SET due_at = NULL, dead_at = $1,
			reason = pg_catalog.concat($2::text, CASE WHEN reason IS NOT NULL THEN $5::text END, reason)
			WHERE (webhook, plant) IN (SELECT webhook, plant FROM plantstore_deliveries
				WHERE due_at <= $1 AND $3 > since LIMIT $4 FOR UPDATE SKIP LOCKED)`,
			now, x.Reason, x.PendingBefore, store.DeadBatch, store.LastAttempt)
		if err != nil {
			return err
		}
		expired.Dead = tag.RowsAffected()
		tag, err = tx.Exec(ctx, `DELETE FROM plantstore_deliveries
			WHERE (webhook, plant) IN (SELECT webhook, plant FROM plantstore_deliveries
				WHERE $1 > dead_at LIMIT $2 FOR UPDATE SKIP LOCKED)`, x.DeadBefore, store.DeadBatch)
		expired.Removed = tag.RowsAffected()
		return err
	})
	return expired, err
}

// DeadLetters implements admin.Engine.
func (e *Engine) DeadLetters(ctx context.Context, page store.DeadPage) ([]store.DeadLetter, error) {
	rows, _ := e.pool.Query(ctx, `SELECT webhook, url, plant, since, dead_at, attempts, coalesce(reason, '')
		FROM plantstore_deliveries INNER JOIN plantstore_webhooks ON id = webhook
		WHERE due_at IS NULL AND (webhook, plant) > ($1, $2) ORDER BY webhook, plant LIMIT $3`,
		page.Webhook, page.Plant, page.Limit) // CollectRows returns the error
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (d store.DeadLetter, err error) {
		err = r.Scan(&d.Webhook, &d.URL, &d.Plant, &d.Since, &d.DeadAt, &d.Attempts, &d.Reason)
		return d, err
	})
	return all, classify(err)
}

// deadSQL selects the dead letters of a webhook, 0 for every one, and of a plant, NULL for
// every one. A condition and the limit follow.
const deadSQL = `(webhook, plant) IN (SELECT webhook, plant FROM plantstore_deliveries
	WHERE due_at IS NULL AND $1::bigint IN (0, webhook) AND plant = coalesce($2, plant)`

// RetryDead implements admin.Engine.
func (e *Engine) RetryDead(ctx context.Context, s store.DeadSelector, by audit.Origin) (int64, error) {
	return e.changeDead(ctx, s, audit.WebhookRetry, by, `UPDATE plantstore_deliveries
		SET since = current_timestamp, due_at = current_timestamp, dead_at = NULL, attempts = 0, reason = NULL
		WHERE `+deadSQL+
		" AND webhook IN (SELECT id FROM plantstore_webhooks WHERE active) LIMIT $3)")
}

// DropDead implements admin.Engine.
func (e *Engine) DropDead(ctx context.Context, s store.DeadSelector, by audit.Origin) (int64, error) {
	return e.changeDead(ctx, s, audit.WebhookDrop, by, "DELETE FROM plantstore_deliveries WHERE "+deadSQL+" LIMIT $3)")
}

// changeDead runs a statement for at most store.DeadBatch dead letters, and appends an
// entry to the audit log.
func (e *Engine) changeDead(
	ctx context.Context, s store.DeadSelector, action audit.Action, by audit.Origin, sql string,
) (changed int64, err error) {
	err = e.transact(ctx, func(tx pgx.Tx) error {
		if err := e.checkWritable(ctx, tx); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, sql, s.Webhook, s.Plant, store.DeadBatch)
		if changed = tag.RowsAffected(); err != nil || changed == 0 {
			return err
		}
		return appendAudit(ctx, tx, store.DeadLettersChanged(action, s, changed, by))
	})
	return changed, err
}
