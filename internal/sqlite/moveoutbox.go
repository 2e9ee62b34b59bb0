package sqlite

import (
	"context"

	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// OutboxRows implements move.Source.
func (e *Engine) OutboxRows(ctx context.Context, most int) ([]store.OutboxRow, error) {
	const sql = "SELECT 0, plant, created_at, NULL, NULL, 0, '' " +
		"FROM plantstore_outbox INNER JOIN plants ON plants.id = plant " +
		"UNION ALL SELECT webhook, plant, since, due_at, dead_at, attempts, reason FROM plantstore_deliveries LIMIT ?"
	return query(ctx, e, func(c *sqlite3.Conn) ([]store.OutboxRow, error) {
		return sqlite3.Collect(c.Rows(sql, most), func(s *sqlite3.Stmt) store.OutboxRow {
			return store.OutboxRow{
				Webhook: s.Int64(0), Plant: s.Int64(1), Since: s.Time(2), DueAt: s.Time(3),
				DeadAt: s.Time(4), Attempts: int(s.Int64(5)), Reason: s.Text(6),
			}
		})
	})
}

// PutOutbox implements move.Destination.
func (e *Engine) PutOutbox(ctx context.Context, webhooks []store.Webhook, rows []store.OutboxRow) error {
	return e.change(ctx, func() error {
		if err := e.writer.Exec("DELETE FROM plantstore_outbox; DELETE FROM plantstore_deliveries;"); err != nil {
			return err
		}
		for _, w := range webhooks {
			if err := e.writer.Run("INSERT INTO plantstore_webhooks (id, url, active) VALUES (?, ?, ?) "+
				"ON CONFLICT (id) DO UPDATE SET url = excluded.url, active = excluded.active", w.ID, w.URL, w.Active); err != nil {
				return err
			}
		}
		for _, r := range rows {
			var err error
			if r.Webhook == 0 {
				err = e.writer.Run("INSERT INTO plantstore_outbox (plant) VALUES (?)", r.Plant)
			} else {
				err = e.writer.Run("INSERT INTO plantstore_deliveries "+
					"(webhook, plant, since, due_at, dead_at, attempts, reason) VALUES (?, ?, ?, ?, ?, ?, nullif(?, ''))",
					r.Webhook, r.Plant, r.Since, r.DueAt, r.DeadAt, r.Attempts, r.Reason)
			}
			if err != nil {
				return err
			}
		}
		return e.writer.Run(setWebhooksSQL)
	})
}
