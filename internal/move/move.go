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
	From             Source
	To               Destination // no other process writes to it until Run has returned
	FromName, ToName string      // for a person

	// Progress, if it is not nil, is called from time to time with the number of plants
	// that have been compared and of all plants of From; all is -1 if it is unknown.
	Progress func(plants, all int64)

	// Announce, if it is not nil, is called when the old store is about to be held.
	Announce func()
}

// Result is what was moved.
type Result struct {
	store.Totals               // which both stores have
	Tokens       int           // that both stores have
	Copied       int64         // plants that were not there before
	Captured     int64         // of these, plants that came after their turn
	Pause        time.Duration // from when the old store took nothing more until the new one could
	Leftover     error         // why something was left in the old store, which does no harm; nil if nothing was
}

// Errors of Run beside those of the stores.
var (
	// ErrMoved means that the old store was moved already.
	ErrMoved = errors.New("it was moved already")
	// ErrDifferent means that the new store has something that the old one has not.
	ErrDifferent = errors.New("the new store has something of its own")
	// ErrNotReopened means that a move failed and that the old store may be held.
	ErrNotReopened = errors.New("the old store may be held, and take no plants: run the same command again")
)

// Run moves everything. On return without an error both stores hold the same, the
// old one takes nothing any more, and the new one may be served. After an error,
// or the end of ctx, the old store takes plants as before, unless the error wraps
// ErrMoved or ErrNotReopened.
func Run(ctx context.Context, c Config) (Result, error) { return run(ctx, c, chunkPlants) }

func run(ctx context.Context, c Config, chunk int) (Result, error) {
	if c.Progress == nil {
		c.Progress = func(int64, int64) {}
	}
	if c.Announce == nil {
		c.Announce = func() {}
	}
	m := &mover{Config: c, chunk: chunk, all: -1}
	disengage, err := m.lock(ctx)
	if err != nil {
		return m.result, err
	}
	defer disengage()
	if err := m.check(ctx); err != nil {
		return m.result, err
	}
	err = m.begin(ctx)
	if err == nil {
		err = m.copy(ctx)
	}
	if err == nil {
		err = m.finish(ctx)
	}
	if err != nil && !m.done {
		err = errors.Join(err, reopen(ctx, m.From))
	}
	return m.result, err
}

// Abandon makes a store that a move holds, or has moved, take plants again.
func Abandon(ctx context.Context, s Store) error {
	disengage, err := s.Lock(ctx)
	if err != nil {
		return err
	}
	defer disengage()
	state, err := s.State(ctx)
	if err == nil && state.Move.Phase == store.Filling {
		err = state.Move.Err()
	}
	if err != nil {
		return err
	}
	return reopen(ctx, s)
}

// reopen lets a store take plants again, also after the end of ctx. It tries for
// a while, because a store that fails a move may come back.
func reopen(ctx context.Context, s Store) error {
	const within, pause = 10 * time.Second, 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	for {
		err := s.Reopen(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ErrNotReopened, err)
		}
	}
}

// mover is one run.
type mover struct {
	Config
	chunk    int // plants that are copied at a time
	result   Result
	empty    bool            // To had no plants when it began
	toState  store.MoveState // To's, when it began
	done     bool            // To has everything, and From is to stay held
	from, to tally
	all      int64 // plants of From when it began; -1 if that is not known
}

// tally is what was seen of one of the stores.
type tally struct {
	store.Totals
	digester store.Digester
}

func (t *tally) add(rows []store.Row) {
	for i := range rows {
		r := &rows[i]
		t.Plants++
		t.Digests += t.digester.Plant(&r.NewPlant, r.CreatedAt, r.CreatedBy)
	}
}

// lock keeps every other mover from both stores. If they are one store, the
// second time fails.
func (m *mover) lock(ctx context.Context) (disengage func(), err error) {
	from, err := m.From.Lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.FromName, err)
	}
	to, err := m.To.Lock(ctx)
	if err != nil {
		from()
		return nil, fmt.Errorf("%s: %w; or it is the same store", m.ToName, err)
	}
	return func() { to(); from() }, nil
}

func (m *mover) filling() store.MoveState {
	return store.MoveState{Phase: store.Filling, Other: m.FromName}
}

func (m *mover) moving() store.MoveState {
	return store.MoveState{Phase: store.Moving, Other: m.ToName}
}

func (m *mover) moved() store.MoveState { return store.MoveState{Phase: store.Moved, Other: m.ToName} }

// check refuses stores that cannot be moved from or to, before anything is
// changed in them.
func (m *mover) check(ctx context.Context) error {
	from, errFrom := m.From.State(ctx)
	to, errTo := m.To.State(ctx)
	rows, errRows := m.To.Plants(ctx, idMin, idMax, 1)
	tokens, errTokens := m.To.Tokens(ctx)
	if err := errors.Join(errFrom, errTo, errRows, errTokens); err != nil {
		return err
	}
	m.toState, m.empty = to.Move, len(rows) == 0
	resumed := to.Move == m.filling()
	switch {
	case from.Move.Phase == store.Moved && !resumed: // else it was interrupted at the very end
		return fmt.Errorf("%s: %w: %s", m.FromName, ErrMoved, from.Move)
	case from.Move.Phase == store.Filling:
		return fmt.Errorf("%s: %w", m.FromName, from.Move.Err())
	case to.Move.Phase != "" && !resumed:
		return fmt.Errorf("%s: %w", m.ToName, to.Move.Err())
	case !resumed && !m.empty:
		return fmt.Errorf("%w: %s has plants; move into an empty store", ErrDifferent, m.ToName)
	case !resumed && len(tokens) > 0:
		return fmt.Errorf("%w: %s has the token %q; move into a store that was never served", ErrDifferent, m.ToName, tokens[0].Name)
	}
	return nil
}

// begin notes in both stores that a move runs, and takes the tokens along, so
// that what goes wrong with them goes wrong now. An old store that a move before
// left held takes plants meanwhile: the new one takes none.
func (m *mover) begin(ctx context.Context) error {
	if err := m.To.SetMoveState(ctx, m.toState, m.filling()); err != nil {
		return fmt.Errorf("%s: %w", m.ToName, err)
	}
	if err := m.From.Reopen(ctx); err != nil {
		return fmt.Errorf("%s: %w", m.FromName, err)
	}
	if t, known, err := m.From.Totals(ctx); err == nil && known {
		m.all = t.Plants
	}
	if err := m.putTokens(ctx); err != nil {
		return err
	}
	if err := m.From.StartCapture(ctx); err != nil {
		return fmt.Errorf("%s: %w", m.FromName, err)
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

// finish goes after what was created meanwhile, for as long as more of that comes
// than one round takes, and then holds the old store for the last of it.
func (m *mover) finish(ctx context.Context) error {
	for n := m.chunk; n == m.chunk; {
		var err error
		if n, err = m.copyCaptured(ctx); err != nil {
			return err
		}
		m.Progress(m.from.Plants, m.all)
	}
	m.Announce()
	if err := m.From.SetMoveState(ctx, store.MoveState{}, m.moving()); err != nil {
		return fmt.Errorf("%s: %w", m.FromName, err)
	}
	began := time.Now()
	if err := m.complete(ctx); err != nil {
		return err
	}
	// From here on the old store stays held, or plants might go into both.
	m.done = true
	ctx = context.WithoutCancel(ctx)
	if err := m.From.SetMoveState(ctx, m.moving(), m.moved()); err != nil {
		return unfinished(err)
	}
	if err := m.To.Reopen(ctx); err != nil {
		return unfinished(err)
	}
	m.result.Pause = time.Since(began)
	m.result.Leftover = m.From.StopCapture(ctx)
	return nil
}

// pauseMax bounds the time for which the old store is held by a move that is not
// done.
const pauseMax = 10 * time.Second

// complete copies the last plants and compares all, while the old store is held.
func (m *mover) complete(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pauseMax, fmt.Errorf("the last plants could not be moved within %s, and so the old store goes on", pauseMax))
	defer cancel()
	err := func() error {
		for n := 1; n > 0; {
			var err error
			if n, err = m.copyCaptured(ctx); err != nil {
				return err
			}
		}
		if err := m.putTokens(ctx); err != nil {
			return err
		}
		return errors.Join(m.compareTokens(ctx), m.compareTotals(ctx))
	}()
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

func unfinished(err error) error {
	return fmt.Errorf("both stores hold the same, but it could not be noted in both; %w, which ends the move or says that it is done: %w", ErrNotReopened, err)
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
		return fmt.Errorf("%w: the tokens of both are not the same", ErrDifferent)
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
		Store
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
