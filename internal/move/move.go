// Package move copies all plants and tokens of one store into another, of any
// engine, while servers serve the first one.
//
// It copies the plants in the order of their ids, chunk by chunk, and reads each
// chunk back. Then it copies the plants that were created during this pass, in
// rounds that become shorter. For the last round, the source is read-only. Plants
// that the destination already has are compared and left unchanged, so the same
// move can run again after an interruption.
package move

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/store"
)

// Config is the input of Run. All fields are required.
type Config struct {
	From             Source
	To               Destination  // no other process writes to it until Run has returned
	FromName, ToName string       // for messages and the audit log
	By               audit.Origin // of the entries in the audit logs of both stores

	// Progress is called after each chunk with the number of plants that both stores have, and the number of plants of
	// From at the start; -1 if it is unknown.
	Progress func(plants, all int64)

	// Announce is called before the source becomes read-only.
	Announce func()
}

// Result is the result of Run.
type Result struct {
	store.Totals               // of both stores
	Tokens       int           // of both stores
	Copied       int64         // plants that the destination did not have
	Captured     int64         // of these, plants that the capture recorded
	Pause        time.Duration // the write pause
	Unaudited    error         // of the entries about the end of the move
}

var (
	errMoved     = errors.New("cannot move the store again")
	errDifferent = errors.New("the new store has other data")

	// ErrNotReopened means that a move failed and that its source may be read-only.
	ErrNotReopened = errors.New("the old store may be read-only: run the same command again")
)

// Run moves a store. On return without an error, both stores hold the same plants
// and tokens, the source is read-only, and the destination may be served. After an
// error, and at the end of ctx, the source is as before the move; the exception is
// an error that wraps ErrNotReopened.
func Run(ctx context.Context, c Config) (Result, error) { return run(ctx, c, chunkPlants) }

func run(ctx context.Context, c Config, chunk int) (Result, error) {
	m := &mover{Config: c, chunk: chunk}
	unlock, err := m.lock(ctx)
	if err != nil {
		return m.result, err
	}
	defer unlock()
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
	if err != nil && !m.complete {
		err = errors.Join(err, reopen(ctx, m.From))
	}
	return m.result, err
}

// Abandon reopens the source of a move that was interrupted or is complete, and
// appends an entry to the audit log.
func Abandon(ctx context.Context, s Store, by audit.Origin) error {
	unlock, err := s.Lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	state, err := s.State(ctx)
	if err == nil && state.Move.Phase == store.Filling {
		err = state.Move.Err()
	}
	if err != nil {
		return err
	}
	if err := reopen(ctx, s); err != nil {
		return err
	}
	event := audit.Event{Time: time.Now(), Action: audit.MoveAbandon, Origin: by}
	if err := s.AppendAudit(ctx, event); err != nil {
		return fmt.Errorf("the store is open again, but its audit log has no entry about that: %w", err)
	}
	return nil
}

// reopen reopens a store, even after the end of ctx. It repeats failed attempts,
// because the store may be unreachable only for a moment.
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
	toState  store.MoveState // of To at the start
	complete bool            // To has everything, and From stays read-only
	all      int64           // plants of From at the start; -1: unknown
	digester store.Digester
}

// lock locks both stores. If they are the same store, the second lock fails.
func (m *mover) lock(ctx context.Context) (unlock func(), err error) {
	unlockFrom, err := m.From.Lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.FromName, err)
	}
	unlockTo, err := m.To.Lock(ctx)
	if err != nil {
		unlockFrom()
		return nil, fmt.Errorf("%s: %w; or it is the same store", m.ToName, err)
	}
	return func() { unlockTo(); unlockFrom() }, nil
}

func (m *mover) filling() store.MoveState {
	return store.MoveState{Phase: store.Filling, Other: m.FromName}
}

func (m *mover) moving() store.MoveState {
	return store.MoveState{Phase: store.Moving, Other: m.ToName}
}

func (m *mover) moved() store.MoveState { return store.MoveState{Phase: store.Moved, Other: m.ToName} }

// check refuses stores that cannot be the source or the destination, before it
// changes anything.
func (m *mover) check(ctx context.Context) error {
	from, errFrom := m.From.State(ctx)
	to, errTo := m.To.State(ctx)
	rows, errRows := m.To.Plants(ctx, idMin, idMax, 1)
	tokens, errTokens := m.To.Tokens(ctx)
	log, errLog := m.To.AuditEnds(ctx)
	_, errOutbox := m.outboxRows(ctx)
	if err := errors.Join(errFrom, errTo, errRows, errTokens, errLog, errOutbox); err != nil {
		return err
	}
	m.toState, m.all = to.Move, from.Plants
	resumed := to.Move == m.filling()
	switch {
	case from.Move.Phase == store.Moved && !resumed: // a resumed move was interrupted in its last step
		return fmt.Errorf("%s: %w: %s", m.FromName, errMoved, from.Move)
	case from.Move.Phase == store.Filling:
		return fmt.Errorf("%s: %w", m.FromName, from.Move.Err())
	case to.Move.Phase != "" && !resumed:
		return fmt.Errorf("%s: %w", m.ToName, to.Move.Err())
	case !resumed && len(rows) > 0:
		return fmt.Errorf("%w: %s has plants; move into an empty store", errDifferent, m.ToName)
	case !resumed && len(tokens) > 0:
		return fmt.Errorf("%w: %s has the token %q; move into a store that was never served",
			errDifferent, m.ToName, tokens[0].Name)
	case !resumed && log != audit.Ends{}:
		return fmt.Errorf("%w: %s has an audit log of its own; move into a store that was never used", errDifferent, m.ToName)
	}
	return nil
}

// begin makes the destination read-only for others, reopens the source, which an
// earlier move may have left read-only, copies the tokens and the audit log, and starts
// the capture. finish copies them again; begin copies them too, to detect errors early.
func (m *mover) begin(ctx context.Context) error {
	if err := m.To.SetMoveState(ctx, m.toState, m.filling()); err != nil {
		return fmt.Errorf("%s: %w", m.ToName, err)
	}
	if err := m.From.Reopen(ctx); err != nil {
		return fmt.Errorf("%s: %w", m.FromName, err)
	}
	if err := m.From.AppendAudit(ctx, m.event(audit.MoveBegin)); err != nil {
		return fmt.Errorf("%s: %w", m.FromName, err)
	}
	if err := errors.Join(m.putTokens(ctx), m.putAudit(ctx)); err != nil {
		return err
	}
	if err := m.From.StartCapture(ctx); err != nil {
		return fmt.Errorf("%s: %w", m.FromName, err)
	}
	return nil
}

// putTokens copies the tokens that the destination does not have, or has with other times. A store can have 100,000
// subjects of an issuer, and the write pause is too short to copy all of them again.
func (m *mover) putTokens(ctx context.Context) error {
	tokens, errFrom := m.From.Tokens(ctx)
	copied, errTo := m.To.Tokens(ctx)
	if err := errors.Join(errFrom, errTo); err != nil {
		return err
	}
	same := make(map[auth.Token]bool, len(copied))
	for _, t := range copied {
		same[t] = true
	}
	tokens = slices.DeleteFunc(tokens, func(t auth.Token) bool { return same[t] })
	for some := range slices.Chunk(tokens, store.ChangeMax) {
		if err := m.To.PutTokens(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// finish copies captured plants until a round has less than a chunk. Then it makes
// the source read-only and completes the copy.
func (m *mover) finish(ctx context.Context) error {
	if err := m.copyCaptured(ctx, m.chunk); err != nil {
		return err
	}
	m.Announce()
	if err := m.From.SetMoveState(ctx, store.MoveState{}, m.moving()); err != nil {
		return fmt.Errorf("%s: %w", m.FromName, err)
	}
	paused := time.Now()
	if err := m.copyLast(ctx); err != nil {
		return err
	}
	// From here on the source stays read-only, or both stores could store plants.
	m.complete = true
	ctx = context.WithoutCancel(ctx)
	err := m.From.SetMoveState(ctx, m.moving(), m.moved())
	if err == nil {
		err = m.To.Reopen(ctx)
	}
	if err != nil {
		return fmt.Errorf("could not set the move states of both stores, which hold the same data; %w: %w",
			ErrNotReopened, err)
	}
	m.result.Pause = time.Since(paused)
	m.result.Unaudited = errors.Join(m.From.AppendAudit(ctx, m.event(audit.MoveEnd)),
		m.To.AppendAudit(ctx, m.event(audit.MoveEnd)))
	return nil
}

// pauseMax bounds the write pause of a move that is not complete.
const pauseMax = 10 * time.Second

// copyLast copies the last captured plants and the tokens, and compares both stores.
// The source is read-only.
func (m *mover) copyLast(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, pauseMax,
		fmt.Errorf("could not move the last plants within %s, so the old store is served as before", pauseMax))
	defer cancel()
	err := m.copyCaptured(ctx, 1)
	if err == nil {
		err = errors.Join(m.putTokens(ctx), m.putAudit(ctx))
	}
	if err == nil {
		err = errors.Join(m.putOutbox(ctx), m.compareTokens(ctx), m.compareTotals(ctx))
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return err
}

// compareTokens compares the tokens of both stores, except for the times of last
// use, which even a read-only store updates. The source may have removed revoked JWTs
// that have expired, and subjects.
func (m *mover) compareTokens(ctx context.Context) error {
	from, errFrom := m.From.Tokens(ctx)
	to, errTo := m.To.Tokens(ctx)
	if err := errors.Join(errFrom, errTo); err != nil {
		return err
	}
	now := time.Now()
	expired := func(t auth.Token) bool { return t.Kind == auth.KindJWT && now.After(t.ExpiresAt) }
	kept := map[int64]bool{}
	for _, t := range from {
		kept[t.ID] = true
	}
	removed := func(t auth.Token) bool { return expired(t) || t.Kind == auth.KindSubject && !kept[t.ID] }
	from, to = slices.DeleteFunc(from, expired), slices.DeleteFunc(to, removed)
	m.result.Tokens = len(from)
	if !slices.EqualFunc(from, to, func(a, b auth.Token) bool {
		a.LastUsedAt, b.LastUsedAt = time.Time{}, time.Time{}
		return a == b
	}) {
		return fmt.Errorf("%w: the tokens of the stores differ", errDifferent)
	}
	return nil
}

// compareTotals compares the totals of the moved plants with the totals that the stores maintain.
func (m *mover) compareTotals(ctx context.Context) error {
	for _, s := range []struct {
		Store
		name string
	}{{m.From, m.FromName}, {m.To, m.ToName}} {
		t, known, err := s.Totals(ctx)
		if err != nil {
			return err
		}
		if known && t != m.result.Totals {
			return fmt.Errorf("the stores differ: %s counts %d plants with digest %x, and %d with %x were moved",
				s.name, t.Plants, t.Digests, m.result.Plants, m.result.Digests)
		}
	}
	return nil
}
