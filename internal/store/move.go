package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ErrMoveRunning means that a move of this store, or to it, runs.
var ErrMoveRunning = errors.New("a move of this store, or to it, runs already")

// NoMoveRuns reports whether lock, which locks a store for a move, succeeds. It unlocks the store again.
func NoMoveRuns(ctx context.Context, lock func(context.Context) (unlock func(), err error)) (bool, error) {
	unlock, err := lock(ctx)
	if errors.Is(err, ErrMoveRunning) {
		return false, nil
	}
	if err == nil {
		unlock()
	}
	return err == nil, err
}

// Totals are the number and the digest of all plants. They are equal for two
// stores that hold the same plants.
type Totals struct {
	Plants  int64
	Digests int64 // the sum of Digester.Plant over all plants
}

// MoveState is the progress of a move, as stored at one of its ends. With the zero value, no
// move makes the store read-only.
type MoveState struct {
	Phase MovePhase
	Other string // the store at the other end of the move, for messages
}

// MovePhase is the phase of a move, as engines store it.
type MovePhase string

// The phases of a move.
const (
	Filling MovePhase = "filling" // a move from Other fills the store
	Moving  MovePhase = "moving"  // the move to Other copies the last plants
	Moved   MovePhase = "moved"   // the move to Other is complete
)

// String describes a move state, and how to end it.
func (s MoveState) String() string {
	switch s.Phase {
	case "":
		return "it stores plants"
	case Filling:
		return fmt.Sprintf("a move from %s fills it: wait for the end of plantstore move, or run it again; "+
			"if you do not need the store, remove it", s.Other)
	case Moving:
		return fmt.Sprintf("a move to %s copies its last plants: wait for the end of plantstore move, or run it again",
			s.Other)
	case Moved:
		return fmt.Sprintf("it was moved to %s: use that one", s.Other)
	default:
		return fmt.Sprintf("a newer plantstore has set its move state %q: use that plantstore", s.Text())
	}
}

// Text returns a move state as engines store it; the empty text for none.
func (s MoveState) Text() string {
	if s.Phase == "" {
		return ""
	}
	return string(s.Phase) + " " + s.Other
}

// ParseMoveState parses the result of Text.
func ParseMoveState(text string) MoveState {
	phase, other, _ := strings.Cut(text, " ")
	return MoveState{MovePhase(phase), other}
}

// Changed returns the error for a store whose move state s is not the expected one.
func (s MoveState) Changed(expected MoveState) error {
	return fmt.Errorf("%w: another process has changed the move state of the store to %q; expected %q",
		ErrReadOnly, s.Text(), expected.Text())
}

// Err returns nil for a store that is not read-only, else an error that wraps
// ErrReadOnly.
func (s MoveState) Err() error {
	if s.Phase == "" {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrReadOnly, s)
}
