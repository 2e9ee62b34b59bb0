package move

import (
	"context"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/store"
)

// Store is the part of an engine that a move uses at both ends. Only a process that has locked the store with Lock may
// change the move state.
type Store interface {
	store.AuditReader

	// State is as in writepath.Engine.
	State(ctx context.Context) (store.State, error)

	// Tokens is as in writepath.Engine.
	Tokens(ctx context.Context) ([]auth.Token, error)

	// AppendAudit appends entries in one transaction. It works even while a move
	// makes the store read-only, unless the move fills the store.
	AppendAudit(ctx context.Context, events ...audit.Event) error

	// Plants returns plants with ids between from and to, both included, by
	// ascending id. It returns at most limit plants, and fewer if their texts
	// exceed store.PlantsBytes, but at least one if there is one. It returns
	// store.Damaged if one of them is damaged.
	Plants(ctx context.Context, from, to int64, limit int) ([]store.Row, error)

	// PlantsByID returns the stored plants with these ids, by ascending id. It
	// omits damaged plants. The ids are ascending and distinct.
	PlantsByID(ctx context.Context, ids []int64) ([]store.Row, error)

	// Totals returns the totals that the store maintains; known is false if it
	// maintains none.
	Totals(ctx context.Context) (t store.Totals, known bool, err error)

	// Lock locks the store for one move, until unlock is called or the process
	// ends. The error wraps store.ErrMoveRunning if another process has the lock.
	Lock(ctx context.Context) (unlock func(), err error)

	// SetMoveState replaces the move state before by after. It returns an error
	// that wraps store.ErrReadOnly if the state is not before. When it has returned
	// a nil error, no plant and no token is stored until Reopen: every attempt
	// returns store.ErrReadOnly. The exception is a store that is Filling: it
	// stores the plants and tokens of the engine that set this state.
	SetMoveState(ctx context.Context, before, after store.MoveState) error

	// Reopen stops a capture and clears the move state. The store stores plants
	// again.
	Reopen(ctx context.Context) error
}

// Source is a store that a move copies from.
type Source interface {
	Store

	// StartCapture discards the captured ids. From now on it captures the id of
	// every plant that any process creates, until Reopen.
	StartCapture(ctx context.Context) error

	// Captured returns at most limit captured ids, each of them once. It returns
	// none if there are no more at this moment.
	Captured(ctx context.Context, limit int) ([]int64, error)

	// Webhooks is as in webhook.Outbox.
	Webhooks(ctx context.Context) ([]store.Webhook, error)

	// OutboxRows returns at most that many events and deliveries of the outbox.
	OutboxRows(ctx context.Context, most int) ([]store.OutboxRow, error)
}

// Destination is a store that a move copies to.
type Destination interface {
	Store

	// Insert is as in writepath.Engine.
	Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error)

	// PutTokens stores tokens with their ids. Of a token that is already stored,
	// it updates the times of expiry, revocation and last use.
	PutTokens(ctx context.Context, tokens []auth.Token) error

	// PutAudit stores rows of another store's audit log. They follow the newest row;
	// in an empty log, they follow anchor, the newest entry that was pruned there. The
	// error wraps store.ErrAuditFault if they do not.
	PutAudit(ctx context.Context, anchor audit.Link, rows []audit.Row) error

	// PutOutbox stores the webhooks of another store, and replaces the outbox.
	PutOutbox(ctx context.Context, webhooks []store.Webhook, rows []store.OutboxRow) error
}
