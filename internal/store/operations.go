package store

import (
	"context"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
)

// Reader has the statements that read the tokens, the audit log and the webhooks of a store, and single plants.
type Reader interface {
	// Tokens returns all tokens by ascending id, whatever their Kind, including expired and revoked ones.
	Tokens() ([]auth.Token, error)

	// TokensOfHash returns the token with a hash, whatever its Kind, or none.
	TokensOfHash(hash auth.Hash) ([]auth.Token, error)

	// Count returns the number of tokens of the kind of t. It may return any smaller number than most, because counting
	// is slow.
	Count(t auth.Token, most int) (int64, error)

	// AuditEnds is as in AuditReader.
	AuditEnds() (audit.Ends, error)

	// AuditRows is as in AuditReader.
	AuditRows(after int64, limit int) ([]audit.Row, error)

	// Webhooks returns all webhooks by ascending id.
	Webhooks() ([]Webhook, error)

	// PlantsByID returns the plants with these ids by ascending id, until their texts exceed a number of bytes. It omits
	// damaged plants.
	PlantsByID(ids []int64, bytesMax int) ([]Row, error)
}

// Tx has the statements of Operations in a transaction that other writers of these tables wait for.
type Tx interface {
	Reader

	// TokensBy returns the selected tokens by ascending id; no subjects and no JWTs.
	TokensBy(s Selector) ([]auth.Token, error)

	// NextTokenID returns the id for a new token. No id is used twice.
	NextTokenID() (int64, error)

	// PutToken stores a token with its id. Of a stored token it updates the times of expiry, revocation and last use.
	PutToken(t auth.Token) error

	// DeleteExpired removes at most ChangeMax revoked JWTs that have expired at t.CreatedAt, except t, if the database
	// allows that.
	DeleteExpired(t auth.Token) error

	// DeleteSubjects removes the selected subjects and returns them by ascending id.
	DeleteSubjects(p SubjectPrune) ([]auth.Token, error)

	// TokensChanged changes State.TokenChanges.
	TokensChanged() error

	// InsertAudit stores rows that follow the head of the audit log, and the new head.
	InsertAudit(rows []audit.Row) error

	// SetAuditEnds stores the ends of the audit log.
	SetAuditEnds(ends audit.Ends) error

	// DeleteAudit removes the rows up to a sequence number, and returns how many there were.
	DeleteAudit(to int64) (removed int64, err error)

	// ChangeWebhooks changes the active webhooks.
	ChangeWebhooks(added, removed []string) error

	// EndDeliveries makes at most that many pending deliveries to a webhook dead letters, and returns their number.
	EndDeliveries(webhook int64, most int) (int64, error)

	// RetryDead makes at most that many dead letters of a webhook due at once, as new deliveries, and returns their
	// number. If plant is not nil, it retries only that plant's.
	RetryDead(webhook int64, plant *int64, most int) (int64, error)

	// DropDead is RetryDead for the removal of dead letters.
	DropDead(webhook int64, plant *int64, most int) (int64, error)
}

// Operations reads and changes the tokens, the audit log and the webhooks of a store. An engine embeds it, and supplies
// the fields. The interfaces of the packages that call an engine have the contracts of the methods.
type Operations struct {
	// Read calls do with statements outside of a transaction.
	Read func(ctx context.Context, do func(Reader) error) error

	// Write calls change in a transaction. An error means that it changed nothing, unless the error wraps
	// ErrOutcomeUnknown.
	Write func(ctx context.Context, change func(Tx) error) error

	Events chan struct{} // capacity 1; holds a value after this engine has written events
}

func read[T any](ctx context.Context, o *Operations, do func(Reader) (T, error)) (result T, err error) {
	err = o.Read(ctx, func(r Reader) (err error) {
		result, err = do(r)
		return err
	})
	return result, err
}
