// Package move takes everything that one store has to another, of whatever
// engine, while the one that it comes from is served: plants with their times and
// creators, and tokens.
//
// It compares and copies the plants in the order of their ids, chunk by chunk,
// reads each chunk back, and then goes after the plants that were created
// meanwhile, in rounds that become shorter. For the last round it holds the old
// store. What is there already is compared and left, so that a move that was
// interrupted can simply be run again.
package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/store"
)

// Config tells what to move where.
type Config struct {
	From, To         store.Movable // nobody else writes to To until Run has returned
	FromName, ToName string        // for a person

	// Progress is called from time to time: of all plants of From, of which -1
	// says that the number is not known, so many have been compared.
	Progress func(plants, all int64)

	// Announce is called when the old store is about to be held.
	Announce func(followed int64)
}

// Result is what was moved.
type Result struct {
	store.Totals               // which both stores have
	Tokens       int           // that both stores have
	Copied       int64         // plants that were not there before
	Followed     int64         // of these, plants that were created while it ran
	Pause        time.Duration // from when the old store took nothing more until the new one could
}

// Errors of Run and Abandon beside those of the stores.
var (
	// ErrMoved means that the old store was moved already.
	ErrMoved = errors.New("it was moved already")
	// ErrDifferent means that the new store has something that the old one has not.
	ErrDifferent = errors.New("the new store has something of its own")
)

var errSame = errors.New("both names are of the same store")

// Run moves everything. On return without an error both stores hold the same, the
// old one takes nothing any more, and the new one may be served. After an error,
// or the end of ctx, the old store takes plants as before, unless the error says
// otherwise.
func Run(ctx context.Context, c Config) (Result, error) {
	m := &mover{Config: c, all: -1}
	if err := m.begin(ctx); err != nil {
		return m.result, err
	}
	err := m.copy(ctx)
	if err == nil {
		err = m.finish(ctx)
	}
	if err == nil || m.done {
		return m.result, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	if errRelease := m.From.Release(ctx); errRelease != nil {
		return m.result, errors.Join(err, fmt.Errorf("the old store may be held, and take no plants: run the move again, or take it back with --abandon: %w", errRelease))
	}
	return m.result, err
}

const releaseTime = 10 * time.Second

// Abandon makes a store that a move holds, or has moved, take plants again.
func Abandon(ctx context.Context, s store.Movable) error {
	state, err := s.State(ctx)
	if err == nil && state.Held.Why == store.Filling {
		err = state.Held.Err()
	}
	if err != nil {
		return err
	}
	return s.Release(ctx)
}

// mover is one run.
type mover struct {
	Config
	result   Result
	empty    bool // To had no plants when it began
	done     bool // To has everything, and From is to stay held
	from, to tally
	all      int64 // plants of From when it began; -1 if that is not known
}

// tally is what was seen of one of the stores.
type tally struct {
	store.Totals
	digester store.Digester
}

func (t *tally) add(rows []store.Create) {
	for i := range rows {
		t.Plants++
		t.Digests += t.digester.Plant(&rows[i])
	}
}

// begin notes in both stores that a move runs, and takes the tokens along, so
// that what goes wrong with them goes wrong now.
func (m *mover) begin(ctx context.Context) error {
	from, errFrom := m.From.State(ctx)
	to, errTo := m.To.State(ctx)
	if err := errors.Join(errFrom, errTo); err != nil {
		return err
	}
	filling := store.Hold{Why: store.Filling, Other: m.FromName}
	switch {
	case from.Held.Why == store.Moved && to.Held != filling: // else it was interrupted at the very end
		return fmt.Errorf("%s: %w", m.FromName, ErrMoved)
	case from.Held.Why == store.Filling:
		return fmt.Errorf("%s: %w", m.FromName, from.Held.Err())
	case to.Held.Why != "" && to.Held != filling:
		return fmt.Errorf("%s: %w", m.ToName, to.Held.Err())
	}
	rows, err := m.To.Plants(ctx, idMin, idMax, 1)
	if err != nil {
		return err
	}
	m.empty = len(rows) == 0
	if t, known, err := m.From.Totals(ctx); err == nil && known {
		m.all = t.Plants
	}
	if err := m.checkTokens(ctx); err != nil {
		return err
	}
	if err := m.To.Hold(ctx, filling); err != nil {
		return err
	}
	switch from, err := m.From.State(ctx); {
	case err != nil:
		return err
	case from.Held == filling:
		return errors.Join(errSame, m.To.Release(ctx))
	}
	if err := m.putTokens(ctx); err != nil {
		return err
	}
	return m.From.Follow(ctx)
}

// checkTokens refuses a new store that has tokens which the old one has not.
func (m *mover) checkTokens(ctx context.Context) error {
	old, errFrom := m.From.Tokens(ctx)
	there, errTo := m.To.Tokens(ctx)
	if err := errors.Join(errFrom, errTo); err != nil {
		return err
	}
	known := map[int64]auth.Hash{}
	for _, t := range old {
		known[t.ID] = t.Hash
	}
	for _, t := range there {
		if known[t.ID] != t.Hash {
			return fmt.Errorf("%w: the token %q, which the old store has not; move into a store that was never served", ErrDifferent, t.Name)
		}
	}
	return nil
}

func (m *mover) putTokens(ctx context.Context) error {
	tokens, err := m.From.Tokens(ctx)
	if err != nil {
		return err
	}
	return m.To.PutTokens(ctx, tokens)
}

// roundsMax bounds the rounds after plants that come faster than they are copied.
const roundsMax = 20

// finish goes after what was created meanwhile, holds the old store for the last
// of it, compares all, and opens the new one.
func (m *mover) finish(ctx context.Context) error {
	for range roundsMax {
		n, err := m.follow(ctx)
		if err != nil {
			return err
		}
		if n < chunkPlants {
			break
		}
	}
	m.Announce(m.result.Followed)
	held := time.Now()
	if err := m.From.Hold(ctx, store.Hold{Why: store.Moving, Other: m.ToName}); err != nil {
		return err
	}
	for {
		n, err := m.follow(ctx)
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
	}
	if err := m.putTokens(ctx); err != nil {
		return err
	}
	if err := errors.Join(m.compareTokens(ctx), m.compareTotals(ctx)); err != nil {
		return err
	}
	// From here on the old store stays held, or plants might go into both.
	m.done = true
	ctx = context.WithoutCancel(ctx)
	if err := m.From.Hold(ctx, store.Hold{Why: store.Moved, Other: m.ToName}); err != nil {
		return m.unfinished(err)
	}
	if err := m.To.Release(ctx); err != nil {
		return m.unfinished(err)
	}
	m.result.Pause = time.Since(held)
	if err := m.From.Unfollow(ctx); err != nil {
		return fmt.Errorf("all is moved, and what the old store was followed by is left in it: %w", err)
	}
	return nil
}

func (m *mover) unfinished(err error) error {
	return fmt.Errorf("both stores hold the same, but it could not be noted in both: the old one may be held; take that back with --abandon and run the move again: %w", err)
}

// compareTokens compares all of the tokens but when they were last used, which
// even a store that is held notes.
func (m *mover) compareTokens(ctx context.Context) error {
	from, errFrom := m.From.Tokens(ctx)
	to, errTo := m.To.Tokens(ctx)
	if err := errors.Join(errFrom, errTo); err != nil {
		return err
	}
	m.result.Tokens = len(from)
	if !slices.EqualFunc(from, to, func(a, b auth.Token) bool {
		a.LastUsedAt, b.LastUsedAt = time.Time{}, time.Time{}
		return a == b
	}) {
		return errors.New("the stores differ in their tokens")
	}
	return nil
}

// compareTotals holds the sums of what was read of both stores against each other, and
// against what the stores count themselves.
func (m *mover) compareTotals(ctx context.Context) error {
	if m.from.Totals != m.to.Totals {
		return fmt.Errorf("the stores differ: %d plants with digest %x were read from %s, and %d with %x from %s",
			m.from.Plants, m.from.Digests, m.FromName, m.to.Plants, m.to.Digests, m.ToName)
	}
	for _, s := range []struct {
		store.Movable
		name string
	}{{m.From, m.FromName}, {m.To, m.ToName}} {
		t, known, err := s.Totals(ctx)
		if err != nil {
			return err
		}
		if known && t != m.from.Totals {
			return fmt.Errorf("the stores differ: %s counts %d plants with digest %x, and %d with %x were moved", s.name, t.Plants, t.Digests, m.from.Plants, m.from.Digests)
		}
	}
	m.result.Totals = m.from.Totals
	return nil
}
