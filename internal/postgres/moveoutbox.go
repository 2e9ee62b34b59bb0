package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"plantstore/internal/store"
)

// OutboxRows implements move.Source.
func (e *Engine) OutboxRows(ctx context.Context, most int) ([]store.OutboxRow, error) {
	deliveries, err := collect(ctx, e.pool, func(r pgx.CollectableRow) (o store.OutboxRow, err error) {
		err = r.Scan(&o.Webhook, &o.Plant, &o.Since, (*nullTime)(&o.DueAt), (*nullTime)(&o.DeadAt), &o.Attempts,
			(*nullText)(&o.Reason))
		return o, err
	}, "SELECT webhook, plant, since, due_at, dead_at, attempts, reason FROM plantstore_deliveries LIMIT $1", most)
	if err != nil {
		return nil, classify(err)
	}
	events, err := collect(ctx, e.pool, func(r pgx.CollectableRow) (o store.OutboxRow, err error) {
		err = r.Scan(&o.Since, &o.Plant)
		return o, err
	}, "SELECT created_at, plant FROM plantstore_outbox ORDER BY created_at, plant LIMIT $1", most-len(deliveries))
	return append(deliveries, events...), classify(err)
}

// insertOutboxSQL writes events.
const insertOutboxSQL = `INSERT INTO plantstore_outbox (created_at, plant)
	SELECT created_at, plant FROM unnest($1::timestamptz[], $2::bigint[]) AS new (created_at, plant)`

// PutOutbox implements move.Destination.
func (e *Engine) PutOutbox(ctx context.Context, webhooks []store.Webhook, rows []store.OutboxRow) error {
	var events, d deliveryColumns
	for _, r := range rows {
		if r.Webhook == 0 {
			events.add(r)
		} else {
			d.add(r)
		}
	}
	return e.transact(ctx, func(tx pgx.Tx) error {
		if err := e.checkWritable(ctx, tx); err != nil {
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
		if _, err := tx.Exec(ctx, insertOutboxSQL, events.since, events.plants); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `INSERT INTO plantstore_deliveries
			(webhook, plant, since, due_at, dead_at, attempts, reason)
			SELECT webhook, plant, since, due_at, dead_at, attempts, reason
			FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::bigint[],
				$7::text[]) AS new (webhook, plant, since, due_at, dead_at, attempts, reason)`,
			d.webhooks, d.plants, d.since, d.due, d.dead, d.attempts, d.reasons); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, setWebhooksSQL)
		return err
	})
}
