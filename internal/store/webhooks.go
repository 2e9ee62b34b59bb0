package store

import (
	"context"
	"slices"

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
	return read(ctx, o, Reader.Webhooks)
}

// SetWebhooks implements webhook.Outbox.
func (o *Operations) SetWebhooks(ctx context.Context, urls []string, by audit.Origin) (all []Webhook, err error) {
	if all, err = o.Webhooks(ctx); err != nil {
		return nil, err
	}
	if added, removed := compareWebhooks(all, urls); len(added)+len(removed) == 0 {
		return all, nil // without a write, so that a server can start on a full disk
	}
	err = o.Write(ctx, func(tx Tx) error {
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

// EndDeliveries implements webhook.Outbox.
func (o *Operations) EndDeliveries(ctx context.Context) (ended int64, err error) {
	removed := func(w Webhook) bool { return !w.Active }
	all, err := o.Webhooks(ctx)
	if err != nil || !slices.ContainsFunc(all, removed) {
		return 0, err
	}
	err = o.Write(ctx, func(tx Tx) (err error) {
		ended, err = changeDeliveries(tx, removed, tx.EndDeliveries)
		return err
	})
	return ended, err
}

// RetryDead implements admin.Engine.
func (o *Operations) RetryDead(ctx context.Context, s DeadSelector, by audit.Origin) (int64, error) {
	return o.changeDead(ctx, s, by, audit.WebhookRetry, Tx.RetryDead)
}

// DropDead implements admin.Engine.
func (o *Operations) DropDead(ctx context.Context, s DeadSelector, by audit.Origin) (int64, error) {
	return o.changeDead(ctx, s, by, audit.WebhookDrop, Tx.DropDead)
}

func (o *Operations) changeDead(
	ctx context.Context, s DeadSelector, by audit.Origin, action audit.Action,
	do func(tx Tx, webhook int64, plant *int64, most int) (int64, error),
) (changed int64, err error) {
	selected := func(w Webhook) bool {
		return (s.Webhook == 0 || s.Webhook == w.ID) && (w.Active || action == audit.WebhookDrop)
	}
	err = o.Write(ctx, func(tx Tx) error {
		changed, err = changeDeliveries(tx, selected, func(webhook int64, most int) (int64, error) {
			return do(tx, webhook, s.Plant, most)
		})
		if err != nil || changed == 0 {
			return err
		}
		return AppendAudit(tx, DeadLettersChanged(action, s, changed, by))
	})
	return changed, err
}

// changeDeliveries calls do for the selected webhooks until it has changed ChangeMax deliveries, and returns their
// number.
func changeDeliveries(
	tx Tx, selected func(Webhook) bool, do func(webhook int64, most int) (int64, error),
) (changed int64, err error) {
	all, err := tx.Webhooks()
	for _, w := range all {
		if err != nil || changed == ChangeMax {
			break
		}
		if selected(w) {
			var n int64
			n, err = do(w.ID, ChangeMax-int(changed))
			changed += n
		}
	}
	return changed, err
}
