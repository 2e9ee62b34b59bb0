package sqlite

import (
	"context"
	"time"

	"plantstore/internal/sqlite/sqlite3"
	"plantstore/internal/store"
)

// TakeDeliveries implements webhook.Outbox.
func (e *Engine) TakeDeliveries(
	ctx context.Context, settled []store.DeliveryResult, claim store.Claim,
) (taken []store.Delivery, err error) {
	if len(settled) == 0 {
		if due, err := e.deliveriesDue(ctx, claim); err != nil || !due {
			return nil, err // without a write
		}
	}
	const framesEach = 4 // the pages of a row in the outbox, the table of deliveries and its index
	frames := framesEach * len(settled)
	for _, most := range claim.Most {
		frames += framesEach * most
	}
	if err := e.checkpointIfDue(ctx, frames); err != nil {
		return nil, err
	}
	err = e.Write(ctx, func(t store.Tables) error {
		taken, err = t.TakeDeliveries(settled, claim)
		return err
	})
	return taken, err
}

// deliveriesDue reports whether a claim would return deliveries.
func (e *Engine) deliveriesDue(ctx context.Context, claim store.Claim) (bool, error) {
	return query(ctx, e, func(c *sqlite3.Conn) (bool, error) {
		events, err := c.QueryInt("SELECT EXISTS (SELECT 1 FROM plantstore_outbox)")
		for webhook := range claim.Most {
			if err != nil || events != 0 {
				return events != 0, err
			}
			some, err := e.tables(c).Due(webhook, time.Now(), 1)
			if err != nil || len(some) > 0 {
				return len(some) > 0, err
			}
		}
		return false, err
	})
}
