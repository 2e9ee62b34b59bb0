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
			_, err = store.FanOutOld(s, now)
		}
		if err != nil {
			return err
		}
		expired.Dead, err = s.exec(`UPDATE plantstore_deliveries SET due_at = NULL, dead_at = $1,
			reason = pg_catalog.concat($2::text, CASE WHEN reason IS NOT NULL THEN $5::text END, reason)
			WHERE (webhook, plant) IN (SELECT webhook, plant FROM plantstore_deliveries
				WHERE due_at <= $1 AND $3 > since LIMIT $4 FOR UPDATE SKIP LOCKED)`,
			now, x.Reason, x.PendingBefore, store.ChangeMax, store.LastAttempt)
		if err != nil {
			return err
		}
		expired.Removed, err = s.exec(`DELETE FROM plantstore_deliveries
			WHERE (webhook, plant) IN (SELECT webhook, plant FROM plantstore_deliveries
				WHERE $1 > dead_at LIMIT $2 FOR UPDATE SKIP LOCKED)`, x.DeadBefore, store.ChangeMax)
		return err
	})
	if err != nil {
		return store.Expired{}, err
	}
	return expired, nil
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

// EndDeliveries implements store.Tx.
func (s statements) EndDeliveries(webhook int64, most int) (int64, error) {
	return s.exec(`UPDATE plantstore_deliveries SET due_at = NULL, dead_at = current_timestamp, reason = $3
		WHERE webhook = $1 AND plant IN (SELECT plant FROM plantstore_deliveries
			WHERE webhook = $1 AND due_at IS NOT NULL ORDER BY due_at LIMIT $2)`, webhook, most, store.ReasonRemoved)
}

// deadSQL selects dead letters of a webhook for one plant or, for NULL, for all plants.
const deadSQL = `webhook = $1 AND plant IN (SELECT plant FROM plantstore_deliveries
	WHERE webhook = $1 AND due_at IS NULL AND plant = coalesce($2, plant) ORDER BY due_at LIMIT $3)`

// RetryDead implements store.Tx.
func (s statements) RetryDead(webhook int64, plant *int64, most int) (int64, error) {
	return s.exec(`UPDATE plantstore_deliveries
		SET since = current_timestamp, due_at = current_timestamp, dead_at = NULL, attempts = 0, reason = NULL
		WHERE `+deadSQL, webhook, plant, most)
}

// DropDead implements store.Tx.
func (s statements) DropDead(webhook int64, plant *int64, most int) (int64, error) {
	return s.exec("DELETE FROM plantstore_deliveries WHERE "+deadSQL, webhook, plant, most)
}
