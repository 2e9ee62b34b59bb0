package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/store"
)

// OutboxRows implements move.Source.
func (e *Engine) OutboxRows(ctx context.Context, most int) ([]store.OutboxRow, error) {
	rows, err := collect(ctx, e.db, func(r pgx.CollectableRow) (o store.OutboxRow, err error) {
		err = r.Scan(&o.Webhook, &o.Plant, &o.Since, (*nullTime)(&o.DueAt), (*nullTime)(&o.DeadAt), &o.Attempts,
			(*nullText)(&o.Reason))
		return o, err
	}, `SELECT webhook, plant, since, due_at, dead_at, attempts, reason FROM plantstore_deliveries
		UNION ALL SELECT 0, plant, created_at, NULL, NULL, 0, NULL FROM plantstore_outbox
		ORDER BY since, plant LIMIT $1`, most)
	return rows, classify(err)
}

// PutOutbox implements move.Destination.
func (e *Engine) PutOutbox(ctx context.Context, webhooks []store.Webhook, rows []store.OutboxRow) error {
	var events, deliveries [][]any
	for _, r := range rows {
		if r.Webhook == 0 {
			events = append(events, []any{r.Since, r.Plant})
			continue
		}
		deliveries = append(deliveries, []any{
			r.Webhook, r.Plant, r.Since, nullTime(r.DueAt), nullTime(r.DeadAt), r.Attempts, nullText(r.Reason),
		})
	}
	return e.transact(ctx, func(tx pgx.Tx) error {
		if err := (statements{e, ctx, tx}).CheckWritable(); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "DELETE FROM plantstore_outbox; DELETE FROM plantstore_deliveries"); err != nil {
			return err
		}
		for _, w := range webhooks {
			if _, err := tx.Exec(ctx, "INSERT INTO plantstore_webhooks (id, url, active) VALUES ($1, $2, $3) "+
				"ON CONFLICT (id) DO UPDATE SET url = excluded.url, active = excluded.active", w.ID, w.URL, w.Active); err != nil {
				return err
			}
		}
		if err := copyEvents(ctx, tx, events); err != nil {
			return err
		}
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"plantstore_deliveries"},
			[]string{"webhook", "plant", "since", "due_at", "dead_at", "attempts", "reason"},
			pgx.CopyFromRows(deliveries)); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, setWebhooksSQL)
		return err
	})
}
