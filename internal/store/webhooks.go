package store

import (
	"context"

	"plantstore/internal/audit"
)

// EventsWritten implements webhook.Outbox.
func (o *Operations) EventsWritten() <-chan struct{} { return o.Events }

// SignalEvents sends a value to EventsWritten. The engine calls it after it has written events.
func (o *Operations) SignalEvents() {
	select {
	case o.Events <- struct{}{}:
	default: // the receiver has not received the last signal yet
	}
}

// Webhooks implements webhook.Outbox.
func (o *Operations) Webhooks(ctx context.Context) ([]Webhook, error) {
	return read(ctx, o, Tables.webhooks)
}

// webhooks returns all webhooks by ascending id.
func (t Tables) webhooks() ([]Webhook, error) {
	return collect(t, func(scan Scan) (w Webhook, err error) {
		err = scan(&w.ID, &w.URL, &w.Active)
		return w, err
	}, "SELECT id, url, active FROM plantstore_webhooks ORDER BY id")
}

// SetWebhooks implements webhook.Outbox.
func (o *Operations) SetWebhooks(ctx context.Context, urls []string, by audit.Origin) (all []Webhook, err error) {
	if all, err = o.Webhooks(ctx); err != nil {
		return nil, err
	}
	if added, removed := compareWebhooks(all, urls); len(added)+len(removed) == 0 {
		return all, nil // without a write, so that a server can start on a full disk
	}
	err = o.Write(ctx, func(tx Tables) error {
		if all, err = tx.webhooks(); err != nil {
			return err
		}
		added, removed := compareWebhooks(all, urls)
		if err := tx.changeWebhooks(added, removed); err != nil {
			return err
		}
		if all, err = tx.webhooks(); err != nil || len(added)+len(removed) == 0 {
			return err
		}
		return tx.AppendAudit(WebhooksChanged(added, removed, by))
	})
	return all, err
}

// changeWebhooks changes the active webhooks. No row is deleted, so no id is used twice.
func (t Tables) changeWebhooks(added, removed []string) error {
	for _, url := range added {
		if _, err := t.Exec("INSERT INTO plantstore_webhooks (id, url, active) "+
			"SELECT coalesce(max(id), 0) + 1, $1, TRUE FROM plantstore_webhooks WHERE TRUE "+
			"ON CONFLICT (url) DO UPDATE SET active = TRUE", url); err != nil {
			return err
		}
	}
	for _, url := range removed {
		if _, err := t.Exec("UPDATE plantstore_webhooks SET active = FALSE WHERE url = $1", url); err != nil {
			return err
		}
	}
	return t.setEvents()
}

// setEvents stores whether new plants get events: the store has an active webhook.
func (t Tables) setEvents() error {
	_, err := t.Exec("UPDATE plantstore SET webhooks = EXISTS (SELECT 1 FROM plantstore_webhooks WHERE active)")
	return err
}

// PutWebhooks implements move.Destination.
func (o *Operations) PutWebhooks(ctx context.Context, webhooks []Webhook) error {
	args := make([][]any, len(webhooks))
	for i, w := range webhooks {
		args[i] = []any{w.ID, w.URL, w.Active}
	}
	return o.Write(ctx, func(tx Tables) error {
		if _, err := tx.ExecEach("INSERT INTO plantstore_webhooks (id, url, active) VALUES ($1, $2, $3)", args); err != nil {
			return err
		}
		return tx.setEvents()
	})
}

// OutboxTotals implements webhook.Outbox.
func (o *Operations) OutboxTotals(ctx context.Context) (map[int64]OutboxTotals, error) {
	totals := map[int64]OutboxTotals{}
	err := o.ReadLong(ctx, func(t Tables) error {
		oldest, err := t.OldestEvent()
		if err != nil {
			return err
		}
		return t.Query(func(scan Scan) error {
			var id, events int64
			var active bool
			var one OutboxTotals
			err := scan(&id, &active, &events, &one.Pending, &one.Oldest, &one.Dead)
			if active {
				one = one.withOutbox(events, oldest)
			}
			totals[id] = one
			return err
		}, `SELECT id, active, (SELECT count(*) FROM plantstore_outbox),
			sum(CASE WHEN due_at IS NOT NULL THEN 1 ELSE 0 END), min(CASE WHEN due_at IS NOT NULL THEN since END),
			sum(CASE WHEN dead_at IS NOT NULL THEN 1 ELSE 0 END)
			FROM plantstore_webhooks LEFT JOIN plantstore_deliveries ON webhook = id GROUP BY id`)
	})
	return totals, err
}
