// Package store is the write path: plants come in one by one from many
// requests and are committed in batches, one fsync a batch, by one committer, or
// by a few for an engine that takes several batches at the same time. It also
// keeps the tokens that requests are checked against fresh.
//
// What stores the plants is an Engine.
package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// Engine stores plants and tokens durably. Every method may be called from
// several goroutines at once. storetest holds the suite that every engine
// passes.
//
// Errors that mean the same for every engine are the sentinels of this
// package, wrapped; any other error means that the call did nothing.
type Engine interface {
	// Insert stores a batch in one transaction and returns the outcome of each
	// plant, in the order of the batch. Two plants of one batch may have the
	// same id: the first one counts. On return without an error, every plant
	// that was created or replayed is on stable storage.
	//
	// An error is about the batch as a whole, and there are no outcomes. If it
	// wraps ErrOutcomeUnknown, the batch may be stored; otherwise none of it is.
	// If it wraps ErrBroken, the engine must not be used any more.
	Insert(ctx context.Context, batch []Create) ([]Outcome, error)

	// Get returns the plant with that id, or ErrNotFound.
	Get(ctx context.Context, id int64) (plant.Record, error)

	// List returns plants by ascending id: up to q.Limit of them, fewer if their
	// texts take more than PlantsBytes, but at least one if there is one.
	List(ctx context.Context, q Query) ([]plant.Record, error)

	// CreateToken stores a token and returns its id; t.ID is ignored. It
	// returns ErrNameTaken if a token of that name is valid at t.CreatedAt.
	CreateToken(ctx context.Context, t auth.Token) (id int64, err error)

	// CreateFirstToken is CreateToken for a store that never had a token. It
	// returns false, and stores nothing, for any other.
	CreateFirstToken(ctx context.Context, t auth.Token) (created bool, err error)

	// RotateToken stores t beside the token that is valid under its name,
	// which ends after the overlap, or earlier if it would have by itself. The
	// new token has the scopes of the old one and, unless t.ExpiresAt is set,
	// is valid for as long as the old one was to be. It returns the new token as
	// it was stored and the old one as it was before, or ErrNotFound if no token
	// of that name is valid at t.CreatedAt.
	RotateToken(ctx context.Context, t auth.Token, overlap time.Duration) (fresh, old auth.Token, err error)

	// RevokeTokens revokes every token that which selects and that is not
	// revoked yet, and returns them; ErrNotFound if it selects none. A
	// revoked token is invalid from then on, even if at is a time to come.
	RevokeTokens(ctx context.Context, which Selector, at time.Time) ([]auth.Token, error)

	// Tokens returns every token there ever was, by ascending id.
	Tokens(ctx context.Context) ([]auth.Token, error)

	// State returns what a server has to see soon. It is cheap.
	State(ctx context.Context) (State, error)

	// MarkUsed notes when tokens were last used.
	MarkUsed(ctx context.Context, uses []auth.Use) error

	// Durability tells what an acknowledgement is worth, as far as is known. It
	// is cheap.
	Durability() Durability

	// Close makes everything durable and lets go of the store. No other call
	// may run or follow.
	Close() error
}

// Create is one plant to store.
type Create struct {
	Plant plant.NewPlant
	By    int64     // id of the token that creates it; 0 for the operator's own commands
	At    time.Time // time of creation; kept to the microsecond
}

// OrderByID appends to order the indexes of the batch by ascending id of the plants.
// Equal ids stay in the order of the batch.
func OrderByID(order []int32, batch []Create) []int32 {
	for i := range batch {
		order = append(order, int32(i))
	}
	slices.SortFunc(order, func(i, j int32) int {
		return cmp.Or(plant.CompareID(batch[i].Plant, batch[j].Plant), cmp.Compare(i, j))
	})
	return order
}

// Outcome is the result for one plant of a batch. The zero value means that the
// plant was created.
type Outcome struct {
	Replayed bool  // the plant was already stored with the same content
	Conflict error // the *plant.Error of plant.Differences: another plant has the id
}

// Created reports whether the plant was created.
func (o Outcome) Created() bool { return !o.Replayed && o.Conflict == nil }

// State is what is looked at again and again while a store is served.
type State struct {
	TokenChanges int64     // changes with every change of a token other than its last use
	Move         MoveState // why the store takes nothing; the zero value: it takes plants
	Plants       int64     // how many are stored, for the metrics: an estimate where counting is slow, -1 if unknown
}

// Durability is what an acknowledgement of an engine is worth, in words for the
// operator.
type Durability struct {
	Guarantee string   // where a plant is that was acknowledged: "on stable storage of …"
	Standby   bool     // on more than one machine
	Warnings  []string // why that may not hold, each with what to do
}

// Query selects plants for Engine.List.
type Query struct {
	From  int64     // the smallest id to return; math.MinInt64 for all
	Tag   plant.Tag // only plants with exactly this tag; the zero value selects every plant
	Limit int       // at least 1
}

// PlantsBytes bounds the texts of what Engine.List and move.Store.Plants return
// at once, but for the last plant.
const PlantsBytes = 8 << 20

// Selector selects tokens for Engine.RevokeTokens: by id, by name, or by hash.
type Selector struct {
	ID   int64     // used if it is not 0
	Name string    // used if there is no id and it is not empty
	Hash auth.Hash // used otherwise
}

// What engines and the store return beside *plant.Error. Compare with errors.Is.
var (
	// ErrNotFound means that there is no such plant or token.
	ErrNotFound = errors.New("not found")
	// ErrNoStore means that nothing is at the place of a store that must exist.
	ErrNoStore = errors.New("there is no store")
	// ErrNameTaken means that a valid token has this name.
	ErrNameTaken = errors.New("name taken")
	// ErrBusy means that the store was held by another process all the time
	// that there was. Nothing was done.
	ErrBusy = errors.New("the store is held by another process")
	// ErrFull means that the disk has no room. Nothing was done.
	ErrFull = errors.New("no space left for the store")
	// ErrReadOnly means that a move holds the store: it takes no plant and no change
	// of a token. Nothing was done.
	ErrReadOnly = errors.New("the store is held by plantstore move")
	// ErrOutcomeUnknown means that the batch may be stored and may not be.
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrBroken means that the engine met an error after which it must not go
	// on: the process has to end, and a new one looks at what is there.
	ErrBroken = errors.New("the store cannot go on")
)
