package sqlite

import (
	"context"

	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// OutboxRows implements move.Source.
func (e *Engine) OutboxRows(ctx context.Context, most int) (rows []store.OutboxRow, err error) {
	err = e.read(ctx, func(c *sqlite3.Conn) error {
		s, err := c.Prepare("SELECT 0, plant, created_at, NULL, NULL, 0, '' " +
			"FROM plantstore_outbox INNER JOIN plants ON plants.id = plant " +
			"UNION ALL SELECT webhook, plant, since, due_at, dead_at, attempts, coalesce(reason, '') " +
			"FROM plantstore_deliveries LIMIT ?")
		if err != nil {
			return err
		}
		defer s.Close()
		bind(s, 1, int64(most))
		return eachRow(s, func() {
			rows = append(rows, store.OutboxRow{
				Webhook: s.Int64(0), Plant: s.Int64(1), Since: timeColumn(s, 2), DueAt: timeColumn(s, 3),
				DeadAt: timeColumn(s, 4), Attempts: int(s.Int64(5)), Reason: s.Text(6),
			})
		})
	})
	return rows, err
}

// PutOutbox implements move.Destination.
func (e *Engine) PutOutbox(ctx context.Context, webhooks []store.Webhook, rows []store.OutboxRow) error {
	return e.write(ctx, func() error {
		if err := e.checkWritable(); err != nil {
			return err
		}
		if err := e.writer.Exec("DELETE FROM plantstore_outbox; DELETE FROM plantstore_deliveries;"); err != nil {
			return err
		}
		for _, w := range webhooks {
			active := int64(0)
			if w.Active {
				active = 1
			}
			if err := e.run("INSERT INTO plantstore_webhooks (id, url, active) VALUES (?, ?, ?) "+
				"ON CONFLICT (id) DO UPDATE SET url = excluded.url, active = excluded.active", w.ID, w.URL, active); err != nil {
				return err
			}
		}
		if err := e.putOutboxRows(rows); err != nil {
			return err
		}
		return e.run("UPDATE state SET webhooks = (SELECT max(active) FROM plantstore_webhooks)")
	})
}

func (e *Engine) putOutboxRows(rows []store.OutboxRow) error {
	event, err := e.writer.Prepare("INSERT INTO plantstore_outbox (plant) VALUES (?)")
	if err != nil {
		return err
	}
	defer event.Close()
	delivery, err := e.writer.Prepare("INSERT INTO plantstore_deliveries " +
		"(webhook, plant, since, due_at, dead_at, attempts, reason) VALUES (?, ?, ?, ?, ?, ?, nullif(?, ''))")
	if err != nil {
		return err
	}
	defer delivery.Close()
	for _, r := range rows {
		s := event
		if r.Webhook == 0 {
			bind(s, 1, r.Plant)
		} else {
			s = delivery
			for i, value := range []any{r.Webhook, r.Plant, r.Since, r.DueAt, r.DeadAt, int64(r.Attempts), r.Reason} {
				bind(s, i+1, value)
			}
		}
		if err := s.Run(); err != nil {
			return err
		}
	}
	return nil
}
