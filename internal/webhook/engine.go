package webhook

import (
	"context"

	"plantstore/internal/audit"
	"plantstore/internal/store"
)

// Outbox is the part of an engine that stores events and their deliveries.
type Outbox interface {
	// Webhooks returns all webhooks of the store, by ascending id.
	Webhooks(ctx context.Context) ([]store.Webhook, error)

	// SetWebhooks makes the webhooks with these distinct URLs the active ones, and returns all. It appends an entry to the
	// audit log if it changes a webhook.
	//
	// If there is a URL, every transaction of any engine that creates a plant after the return writes an event; on Citus,
	// other engines do so within a second. Without a URL, this engine writes none on return, and others none after a
	// second.
	SetWebhooks(ctx context.Context, urls []string, by audit.Origin) ([]store.Webhook, error)

	// EventsWritten returns a channel that holds a value after this engine has written events.
	EventsWritten() <-chan struct{}

	// TakeDeliveries stores the results of claimed deliveries, and claims others that are due, in one transaction. No
	// other call, of any engine, returns a claimed delivery until its claim ends or a result releases it, and none returns
	// a delivery to a webhook that is not active. A failure whose claim has ended has no effect. Without results and due
	// deliveries, it writes nothing.
	TakeDeliveries(ctx context.Context, settled []store.DeliveryResult, claim store.Claim) ([]store.Delivery, error)

	// EndDeliveries makes pending deliveries to webhooks that are not active dead letters: at most store.ChangeMax. It
	// returns their number.
	EndDeliveries(ctx context.Context) (int64, error)

	// ExpireDeliveries makes some of the deliveries dead letters that are due and too old, and removes some of the dead
	// letters that are too old, in transactions of at most store.ChangeMax rows. After an error it returns the number of
	// those that it has changed.
	ExpireDeliveries(ctx context.Context, x store.Expiry) (store.Expired, error)

	// OutboxTotals returns the totals of every webhook, by id. It reads all deliveries.
	OutboxTotals(ctx context.Context) (map[int64]store.OutboxTotals, error)
}
