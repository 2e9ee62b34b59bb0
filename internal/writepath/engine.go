package writepath

import (
	"context"

	"plantstore/internal/auth"
	"plantstore/internal/store"
)

// Engine is the part of an engine that a Service uses: it stores plants and reads credentials. Its methods may be
// called from several goroutines at the same time.
//
// The Err variables of package store, wrapped, mean the same for every method of every engine. Any other error means
// that the call changed nothing.
type Engine interface {
	// Insert stores a batch in one transaction and returns the outcome of each plant, in the order of the batch. Plants
	// of one batch may have the same id: their outcomes are as if each had been inserted by itself, in this order. On
	// return without an error, every created or replayed plant is on stable storage.
	//
	// An error applies to the whole batch, and Insert returns no outcomes. If it wraps store.ErrOutcomeUnknown, the
	// batch may be stored; otherwise none of it is. If it wraps store.ErrBroken, the engine must not be used any more.
	// A batch whose ids are all stored needs no space, so it succeeds even if the disk is full.
	Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error)

	// PlantsByID returns the stored plants with these ids, by ascending id, until their texts exceed a number of bytes. It
	// omits damaged plants. The ids are ascending and distinct.
	PlantsByID(ctx context.Context, ids []int64, bytesMax int) ([]store.Row, error)

	// Probe commits an invisible change, as Insert commits a small plant. It returns nil if the store can store plants,
	// and the same errors as Insert.
	Probe(ctx context.Context) error

	// Durability returns the guarantee of an acknowledgement. It is cheap.
	Durability() store.Durability

	// State returns the state that a server polls. It is cheap. Its error wraps store.ErrRemoved if commits are lost.
	State(ctx context.Context) (store.State, error)

	// Tokens returns all tokens by ascending id, whatever their Kind, including expired and revoked ones.
	Tokens(ctx context.Context) ([]auth.Token, error)

	// MarkUsed stores the times of last use of tokens that are later than the stored ones.
	MarkUsed(ctx context.Context, uses []auth.Use) error

	// PutSubject stores a token of auth.KindSubject and returns it as stored. If the store has the subject already, it
	// returns the stored one and changes nothing. It returns store.ErrTooManySubjects if the store has most subjects.
	// State.TokenChanges stays as it is, because every server looks up an unknown subject itself.
	PutSubject(ctx context.Context, t auth.Token, most int) (stored auth.Token, err error)
}
