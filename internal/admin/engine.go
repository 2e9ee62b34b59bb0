package admin

import (
	"context"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// Engine is the part of an engine that the operations use. It returns the errors of package store. A change of the
// credentials appends an entry to the audit log, in the same transaction.
type Engine interface {
	store.AuditReader

	// State is as in writepath.Engine.
	State(ctx context.Context) (store.State, error)

	// Durability is as in writepath.Engine.
	Durability() store.Durability

	// Sizes returns the sizes of the files of the store; nil if they are not the engine's own.
	Sizes() *store.Sizes

	// Get returns the plant with that id, store.ErrNotFound or store.Damaged.
	Get(ctx context.Context, id int64) (plant.Record, error)

	// List returns plants by ascending id: at most q.Limit, and fewer if their texts exceed store.PlantsBytes, but at
	// least one if there is one. It marks a damaged plant, of which it returns only the id.
	List(ctx context.Context, q store.Query) ([]plant.Record, error)

	// Scan calls visit for plants by ascending id, starting with the first id that is at least from: for at most rows
	// plants, which is at least 1, and for fewer if their texts exceed store.PlantsBytes, but at least for one if there is
	// one. It returns the id at which the next call continues; more is false if no plant follows. visit must not use the
	// engine, and the Scanned is valid only until visit returns.
	Scan(ctx context.Context, from int64, rows int, visit func(*store.Scanned)) (next int64, more bool, err error)

	// LargestID returns the largest id of a plant; 0 if there is none, or it is smaller.
	LargestID(ctx context.Context) (int64, error)

	// PlantsByID is as in writepath.Engine.
	PlantsByID(ctx context.Context, ids []int64, bytesMax int) ([]store.Row, error)

	// Erase deletes the plants that are stored in these versions, which have ascending ids and are at most
	// store.ChangeMax, and returns their number. In the same transaction each active webhook gets a delivery about the
	// erasure, and the audit log an entry with the ids.
	Erase(ctx context.Context, plants []store.Version, reason string, by audit.Origin) (erased int64, err error)

	// Correct is Erase of one plant and the create of another with its id, in one transaction. It returns
	// store.ErrNotFound if the version is not stored any more.
	Correct(ctx context.Context, old store.Version, c store.Create, reason string, by audit.Origin) error

	// Tokens is as in writepath.Engine.
	Tokens(ctx context.Context) ([]auth.Token, error)

	// CreateToken stores a token and returns its id; t.ID is ignored. It returns store.ErrNameTaken if a token of that
	// name is valid at t.CreatedAt.
	CreateToken(ctx context.Context, t auth.Token, by audit.Origin) (id int64, err error)

	// RotateToken stores the auth.Rotation of the tokens named t.Name. It returns the new token, as stored, and the old
	// token, as it was before; store.ErrNotFound if no token of that name is valid at t.CreatedAt.
	RotateToken(
		ctx context.Context, t auth.Token, overlap time.Duration, by audit.Origin,
	) (fresh, old auth.Token, err error)

	// RevokeTokens revokes the selected tokens that are not revoked yet, and returns them; store.ErrNotFound if there is
	// no such token. A revoked token is invalid from now on, even if at is in the future. If the audit log did not accept
	// the entries, it returns the tokens and a *store.Unrecorded.
	RevokeTokens(ctx context.Context, selector store.Selector, at time.Time, by audit.Origin) ([]auth.Token, error)

	// RevokeIdentity stores the revocation t.RevokedAt of a subject or a JWT, known or not, and returns it as stored. The
	// later of two revocations of a subject counts. With a JWT it removes revoked JWTs that have expired at t.CreatedAt,
	// if the database allows that. It returns store.ErrTooManySubjects or store.ErrTooManyJWTs if the store has most of
	// that kind, and *store.Unrecorded as RevokeTokens does.
	RevokeIdentity(ctx context.Context, t auth.Token, most int, by audit.Origin) (stored auth.Token, err error)

	// PruneSubjects removes the selected subjects and returns them by ascending id; store.ErrNotFound if there is none.
	// The last use of a subject may be up to a minute older in the store than in a server: that server stores the subject
	// again. It keeps the row with the highest id, so that no id is used twice. It needs the right to delete tokens, which
	// a server does not need.
	PruneSubjects(ctx context.Context, p store.SubjectPrune, by audit.Origin) (removed []auth.Token, err error)

	// PruneAudit removes the entries up to an entry from the audit log and appends an entry about it, in one transaction:
	// the caller limits them to store.ChangeMax. It returns 0 if they are removed already. The error wraps
	// store.ErrAuditFault if the log has no such entry.
	PruneAudit(ctx context.Context, to audit.Link, by audit.Origin) (removed int64, err error)

	// Webhooks is as in webhook.Outbox.
	Webhooks(ctx context.Context) ([]store.Webhook, error)

	// OutboxTotals is as in webhook.Outbox.
	OutboxTotals(ctx context.Context) (map[int64]store.OutboxTotals, error)

	// DeadLetters returns a page of the dead letters, in the order of webhook and plant.
	DeadLetters(ctx context.Context, page store.DeadPage) ([]store.DeadLetter, error)

	// RetryDead makes selected dead letters of active webhooks due at once, as new deliveries: at most store.ChangeMax. It
	// returns their number, and appends an entry to the audit log unless that is 0.
	RetryDead(ctx context.Context, s store.DeadSelector, by audit.Origin) (int64, error)

	// DropDead removes selected dead letters of every webhook, with the limits and errors of RetryDead.
	DropDead(ctx context.Context, s store.DeadSelector, by audit.Origin) (int64, error)
}
