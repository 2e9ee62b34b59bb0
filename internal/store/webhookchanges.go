package store

import (
	"context"

	"plantstore/internal/audit"
)

// EventsWritten implements webhook.Outbox.
func (c *Changes) EventsWritten() <-chan struct{} { return c.Events }

// SignalEvents sends a value to EventsWritten. The engine calls it after it has written events.
func (c *Changes) SignalEvents() {
	select {
	case c.Events <- struct{}{}:
	default: // the receiver has not received the last signal yet
	}
}

// Webhooks implements webhook.Outbox.
func (c *Changes) Webhooks(ctx context.Context) ([]Webhook, error) {
	return read(ctx, c, Reader.Webhooks)
}

// SetWebhooks implements webhook.Outbox.
func (c *Changes) SetWebhooks(ctx context.Context, urls []string, by audit.Origin) (all []Webhook, err error) {
	if all, err = c.Webhooks(ctx); err != nil {
		return nil, err
	}
	if added, removed := compareWebhooks(all, urls); len(added)+len(removed) == 0 {
		return all, nil // without a write, so that a server can start on a full disk
	}
	err = c.change(ctx, func(tx Tx) error {
		if all, err = tx.Webhooks(); err != nil {
			return err
		}
		added, removed := compareWebhooks(all, urls)
		if err := tx.ChangeWebhooks(added, removed); err != nil {
			return err
		}
		if all, err = tx.Webhooks(); err != nil || len(added)+len(removed) == 0 {
			return err
		}
		return AppendAudit(tx, WebhooksChanged(added, removed, by))
	})
	return all, err
}

// RetryDead implements admin.Engine.
func (c *Changes) RetryDead(ctx context.Context, s DeadSelector, by audit.Origin) (int64, error) {
	return c.changeDead(ctx, s, by, audit.WebhookRetry, Tx.RetryDead)
}

// DropDead implements admin.Engine.
func (c *Changes) DropDead(ctx context.Context, s DeadSelector, by audit.Origin) (int64, error) {
	return c.changeDead(ctx, s, by, audit.WebhookDrop, Tx.DropDead)
}

func (c *Changes) changeDead(
	ctx context.Context, s DeadSelector, by audit.Origin, action audit.Action, do func(Tx, DeadSelector) (int64, error),
) (changed int64, err error) {
	err = c.change(ctx, func(tx Tx) (err error) {
		if changed, err = do(tx, s); err != nil || changed == 0 {
			return err
		}
		return AppendAudit(tx, DeadLettersChanged(action, s, changed, by))
	})
	return changed, err
}
