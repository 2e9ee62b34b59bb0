package store

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"plantstore/internal/auth"
)

// Movable is a store of which everything can be moved to another while it is
// served. All of it is for one mover; storetest holds the suite for it.
type Movable interface {
	Engine

	// Plants returns plants by ascending id, from one id to another: up to limit
	// of them, fewer if their texts take more than PlantsBytes, but at least one
	// if there is one.
	Plants(ctx context.Context, from, to int64, limit int) ([]Create, error)

	// PlantsOf returns those of the plants with these ids that are there, by
	// ascending id. The ids are ascending and distinct.
	PlantsOf(ctx context.Context, ids []int64) ([]Create, error)

	// PutTokens stores tokens with the ids that they have. Of one that is there
	// it takes over when it ends and when it was last used.
	PutTokens(ctx context.Context, tokens []auth.Token) error

	// Lock takes the store for one mover, until disengage is called or the
	// process ends. The error wraps ErrEngaged if another has it.
	Lock(ctx context.Context) (disengage func(), err error)

	// Interrupted reports whether the store is followed by a mover that is gone.
	Interrupted(ctx context.Context) (bool, error)

	// StartCapture has every plant noted that is created after the call has begun, by
	// whomever, until Unfollow or Release. What was noted before is forgotten.
	StartCapture(ctx context.Context) error

	// Captured returns up to limit ids of those that were noted and that it has
	// not returned yet; none if there are no more at the moment.
	Captured(ctx context.Context, limit int) ([]int64, error)

	// StopCapture ends what Follow began, if anything did.
	StopCapture(ctx context.Context) error

	// SetMoveState notes why the store takes nothing, for everybody who looks at State;
	// before is what is noted now, or it is an error. When it has returned, and
	// unless the store is Filling, nobody's plant or token is stored until Release:
	// they get ErrHeld. A store that is Filling takes what this engine itself
	// stores.
	SetMoveState(ctx context.Context, before, why MoveState) error

	// Reopen ends what Follow and Hold began, if anything did.
	Reopen(ctx context.Context) error

	// Totals returns what the store counts by itself, if it does.
	Totals(ctx context.Context) (t Totals, known bool, err error)
}

// ErrMoveRunning means that a move of the store runs.
var ErrMoveRunning = errors.New("a move of this store, or to it, runs already")

// Totals is what two stores that hold the same have in common.
type Totals struct {
	Plants  int64
	Digests int64 // the sum of Digester.Plant of them all
}

// MoveState says why a store takes nothing: a move of all that it has from one store
// to another. The zero value is a store that takes plants.
type MoveState struct {
	Phase MovePhase
	Other string // the store at the other end of the move, for a person
}

// MovePhase is how far a move has come, as engines keep it.
type MovePhase string

// The reasons of a Hold.
const (
	Filling MovePhase = "filling" // it is being filled from Other
	Moving  MovePhase = "moving"  // it is being moved to Other, and all but done
	Moved   MovePhase = "moved"   // it was moved to Other
)

// String says what a hold means, and what to do.
func (h MoveState) String() string {
	switch h.Phase {
	case "":
		return "it takes plants"
	case Filling:
		return fmt.Sprintf("it is being filled from %s: let plantstore move end, or run it again; if it is not wanted, remove it", h.Other)
	case Moving:
		return fmt.Sprintf("it is being moved to %s: let plantstore move end, or run it again", h.Other)
	case Moved:
		return fmt.Sprintf("it was moved to %s: use that one", h.Other)
	default:
		return fmt.Sprintf("it is held (%s %s) by a newer plantstore: use that one", h.Phase, h.Other)
	}
}

// Text returns a hold as engines keep it; empty for none.
func (h MoveState) Text() string {
	if h.Phase == "" {
		return ""
	}
	return string(h.Phase) + " " + h.Other
}

// ParseMoveState reads what Text returned.
func ParseMoveState(text string) MoveState {
	why, other, _ := strings.Cut(text, " ")
	return MoveState{MovePhase(why), other}
}

// Changed returns the error of a Hold that expected another.
func (h MoveState) Changed(expected MoveState) error {
	return fmt.Errorf("%w: somebody else has changed how, while it was expected that %s, and now %s", ErrReadOnly, expected, h)
}

// Err returns nil for a store that takes plants, else an error that wraps
// ErrHeld.
func (h MoveState) Err() error {
	if h.Phase == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrReadOnly, h)
}
