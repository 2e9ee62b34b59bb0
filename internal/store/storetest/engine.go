package storetest

import (
	"context"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// Engine is a whole engine. The comments name the interfaces with the contracts of its parts.
type Engine interface {
	store.AuditReader

	// The write path (writepath.Engine).
	Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error)
	Probe(ctx context.Context) error
	Durability() store.Durability
	State(ctx context.Context) (store.State, error)
	Tokens(ctx context.Context) ([]auth.Token, error)
	MarkUsed(ctx context.Context, uses []auth.Use) error
	PutSubject(ctx context.Context, t auth.Token, most int) (stored auth.Token, err error)
	PlantsByID(ctx context.Context, ids []int64, bytesMax int) ([]store.Row, error)

	// The operations of the operator (admin.Engine).
	Sizes() *store.Sizes
	Get(ctx context.Context, id int64) (plant.Record, error)
	List(ctx context.Context, q store.Query) ([]plant.Record, error)
	LargestID(ctx context.Context) (int64, error)
	Scan(ctx context.Context, from int64, rows int, visit func(*store.Scanned)) (next int64, more bool, err error)
	Erase(ctx context.Context, plants []store.Version, reason string, by audit.Origin) (int64, error)
	Correct(ctx context.Context, old store.Version, c store.Create, reason string, by audit.Origin) error
	CreateToken(ctx context.Context, t auth.Token, by audit.Origin) (id int64, err error)
	RotateToken(
		ctx context.Context, t auth.Token, overlap time.Duration, by audit.Origin,
	) (fresh, old auth.Token, err error)
	RevokeTokens(ctx context.Context, selector store.Selector, at time.Time, by audit.Origin) ([]auth.Token, error)
	RevokeIdentity(ctx context.Context, t auth.Token, most int, by audit.Origin) (stored auth.Token, err error)
	DeadLetters(ctx context.Context, page store.DeadPage) ([]store.DeadLetter, error)
	RetryDead(ctx context.Context, s store.DeadSelector, by audit.Origin) (int64, error)
	DropDead(ctx context.Context, s store.DeadSelector, by audit.Origin) (int64, error)

	// The deliveries of events (webhook.Outbox).
	Webhooks(ctx context.Context) ([]store.Webhook, error)
	SetWebhooks(ctx context.Context, urls []string, by audit.Origin) ([]store.Webhook, error)
	EventsWritten() <-chan struct{}
	TakeDeliveries(ctx context.Context, settled []store.DeliveryResult, claim store.Claim) ([]store.Delivery, error)
	EndDeliveries(ctx context.Context) (int64, error)
	ExpireDeliveries(ctx context.Context, x store.Expiry) (store.Expired, error)
	OutboxTotals(ctx context.Context) (map[int64]store.OutboxTotals, error)

	// The parts of a move that store.Operations has (move.Destination).
	PutTokens(ctx context.Context, tokens []auth.Token) error
	PutAudit(ctx context.Context, anchor audit.Link, rows []audit.Row) error

	// Commands and the start of a server.
	AppendAudit(ctx context.Context, events ...audit.Event) error
	CreateFirstTokens(ctx context.Context, tokens []auth.Token, by audit.Origin) (created bool, err error)
	PruneSubjects(ctx context.Context, p store.SubjectPrune, by audit.Origin) (removed []auth.Token, err error)
	PruneAudit(ctx context.Context, to audit.Link, by audit.Origin) (removed int64, err error)
	Close() error
}
