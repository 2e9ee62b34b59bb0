package store

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// A revocation holds within a second: the tokens are looked at four times a
// second, and a request that finds the last look older than that (a machine
// that stood still, an engine that hangs) waits for a look that begins after it
// came. So does a request whose token is unknown, because it may have just been
// made. All who wait share a look, and how often there is one is bounded, so that
// neither a slow engine nor guesses cost much.
const (
	lookEvery    = 250 * time.Millisecond
	staleAfter   = 900 * time.Millisecond
	lookAgain    = 10 * time.Millisecond
	lookTimeMax  = 5 * time.Second // for an engine that hangs: its next connection may not
	useSaveEvery = time.Minute
)

// credentials keeps a keyring as fresh as the engine's tokens.
type credentials struct {
	engine  Engine
	log     *slog.Logger
	outage  *outage
	keyring auth.Keyring
	move    atomic.Pointer[MoveState] // as last looked at
	plants  atomic.Int64              // as last looked at
	lookAt  atomic.Int64              // when the last look began that succeeded, Unix nanoseconds

	looking chan struct{} // holds a token while somebody looks
	version int64         // of the tokens in the keyring; of who looks
	savedAt time.Time     // uses up to here are stored; the watcher's
	triedAt time.Time     // when that was last tried; the watcher's

	stop context.CancelFunc
	done chan struct{} // closed when the watcher has ended
}

func watchCredentials(ctx context.Context, engine Engine, o *outage) (*credentials, error) {
	c := &credentials{engine: engine, log: o.log, outage: o, version: -1, savedAt: time.Now(), triedAt: time.Now(), looking: make(chan struct{}, 1), done: make(chan struct{})}
	if err := c.look(ctx, time.Now()); err != nil {
		return nil, err
	}
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	go c.watch(ctx) // ends when close is called, which waits for it
	return c, nil
}

func (c *credentials) watch(ctx context.Context) {
	defer close(c.done)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := c.look(ctx, time.Now().Add(-lookEvery/2))
		if err == nil && time.Since(c.triedAt) >= useSaveEvery {
			c.saveUses(ctx)
		}
	}
}

// look reads the tokens if they have changed, unless a look has begun since then.
func (c *credentials) look(caller context.Context, since time.Time) error {
	ctx, cancel := context.WithTimeout(caller, lookTimeMax)
	defer cancel()
	select {
	case c.looking <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.looking }()
	now := time.Now()
	age := c.age(now)
	if 0 <= age && age <= now.Sub(since) {
		return nil // another request has looked meanwhile
	}
	if 0 <= age && age < lookAgain {
		select {
		case <-time.After(lookAgain - age):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		now = time.Now()
	}
	if c.version < 0 { // of the first look, New returns the error
		return c.read(ctx, now)
	}
	return c.outage.ask(caller, time.Unix(0, c.lookAt.Load()), func() error { return c.read(ctx, now) })
}

// read reads the engine's state, and the tokens if they have changed. Its caller is
// the one that looks.
func (c *credentials) read(ctx context.Context, now time.Time) error {
	state, err := c.engine.State(ctx)
	if err != nil {
		return err
	}
	if state.TokenChanges != c.version {
		tokens, err := c.engine.Tokens(ctx)
		if err != nil {
			return err
		}
		c.keyring.Replace(tokens)
		c.version = state.TokenChanges
	}
	c.plants.Store(state.Plants)
	if before := c.move.Swap(&state.Move); before != nil && *before != state.Move {
		c.log.Warn("whether the store takes plants has changed", "now", state.Move.String())
	}
	c.lookAt.Store(now.UnixNano())
	return nil
}

// saveUses stores when tokens were last used. What cannot be stored now is
// tried again with the next.
func (c *credentials) saveUses(ctx context.Context) {
	now := time.Now()
	c.triedAt = now
	uses := c.keyring.UsedSince(c.savedAt)
	if len(uses) > 0 {
		ctx, cancel := context.WithTimeout(ctx, lookTimeMax)
		defer cancel()
		if err := c.engine.MarkUsed(ctx, uses); err != nil {
			level := slog.LevelWarn
			if c.outage.away() {
				level = slog.LevelDebug // the log has the outage
			}
			c.log.Log(ctx, level, "could not store when tokens were last used", "error", err)
			return
		}
	}
	c.savedAt = now
}

func (c *credentials) authenticate(ctx context.Context, credential string) (auth.Principal, error) {
	now := time.Now()
	// A clock that was set back makes the last look one of the future, of which
	// nothing can be told. The wall clock is used all the same, because the
	// other one stands still while a machine sleeps.
	if age := c.age(now); age < 0 || age > staleAfter {
		if err := c.look(ctx, now); err != nil {
			return auth.Principal{}, c.unreadable(err)
		}
	}
	who, err := c.keyring.Authenticate(credential, now)
	if err == nil {
		return who, nil
	}
	var refusal *plant.Error
	if errors.As(err, &refusal) && refusal.Code == plant.CodeCredentialUnknown && auth.WellFormed(credential) {
		if err := c.look(ctx, now); err != nil {
			return auth.Principal{}, c.unreadable(err)
		}
		return c.keyring.Authenticate(credential, now)
	}
	return auth.Principal{}, err
}

// age returns how long ago the tokens were last known to be fresh.
func (c *credentials) age(now time.Time) time.Duration {
	return time.Duration(now.UnixNano() - c.lookAt.Load())
}

// unreadable returns what a client is told whose credential cannot be checked. The
// log has one line for all of them: see outage.
func (c *credentials) unreadable(err error) error {
	c.log.Debug("could not read the tokens", "error", err)
	return &plant.Error{
		Code:    plant.CodeStoreUnavailable,
		Message: "the store cannot check credentials now; nothing was stored: send the request again",
	}
}

// close stops the watcher and stores what it saw.
func (c *credentials) close() {
	c.stop()
	<-c.done
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c.saveUses(ctx)
}
