package writepath

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// A revocation takes effect within a second. The watcher polls the engine four times a second. A request waits for a
// new poll if the last one is older than staleAfter (the machine slept, the engine hangs), or if its token is invalid,
// because the token may be new. Expired and revoked tokens wait like unknown ones, so the response time does not tell
// them apart. Waiting requests share a poll, and the rate of polls is bounded, so neither a slow engine nor guessed
// tokens cost much.
const (
	pollEvery    = 250 * time.Millisecond
	staleAfter   = 900 * time.Millisecond
	pollAgain    = 10 * time.Millisecond
	pollTimeMax  = 5 * time.Second // the next poll may work, with another connection
	useSaveEvery = time.Minute
	useLateMax   = 40 * time.Second // from the arrival of a request to the mark of the use: twice the longest waits
	usesMax      = 1000             // in one transaction, so that commits of plants wait only shortly
)

// credentials keeps a keyring up to date with the engine's tokens.
type credentials struct {
	engine   Engine
	log      *slog.Logger
	outage   *outage
	keyring  auth.Keyring
	plants   atomic.Int64 // as of the last poll
	polledAt atomic.Int64 // start of the last successful poll, in Unix nanoseconds

	verifyJWT      VerifyJWT     // nil: JWTs are unknown credentials
	registering    chan struct{} // semaphore of the request that stores a subject
	unregisteredAt time.Time     // the last warning about a subject; guarded by registering

	polling chan struct{} // semaphore of the goroutine that polls
	version int64         // version of the keyring's tokens; guarded by polling
	savedAt time.Time     // earlier uses are stored; only the watcher uses it
	triedAt time.Time     // last attempt to store uses; only the watcher uses it

	stop    context.CancelFunc
	watcher sync.WaitGroup
}

func newCredentials(ctx context.Context, engine Engine, verify VerifyJWT, o *outage) (*credentials, error) {
	now := time.Now()
	c := &credentials{
		engine: engine, verifyJWT: verify, log: o.log, outage: o, version: -1, savedAt: now, triedAt: now,
		polling: make(chan struct{}, 1), registering: make(chan struct{}, 1),
	}
	if err := c.poll(ctx, now); err != nil {
		return nil, err
	}
	return c, nil
}

// start starts the watcher. If a poll returns store.ErrRemoved, the watcher calls broken and ends.
func (c *credentials) start(ctx context.Context, broken func(error)) {
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.watcher.Go(func() { c.watch(ctx, broken) }) // ends when close is called, which waits for it
}

func (c *credentials) watch(ctx context.Context, broken func(error)) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := c.poll(ctx, time.Now().Add(-pollEvery/2))
		if errors.Is(err, store.ErrRemoved) {
			broken(err)
			return
		}
		if err == nil && time.Since(c.triedAt) >= useSaveEvery {
			c.saveUses(ctx)
		}
	}
}

// poll reads the tokens if they have changed, unless a poll has started after since.
func (c *credentials) poll(caller context.Context, since time.Time) error {
	ctx, cancel := context.WithTimeout(caller, pollTimeMax)
	defer cancel()
	select {
	case c.polling <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-c.polling }()
	now := time.Now()
	age := c.age(now)
	if 0 <= age && age <= now.Sub(since) {
		return nil // another goroutine has polled
	}
	if 0 <= age && age < pollAgain {
		select {
		case <-time.After(pollAgain - age):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		now = time.Now()
	}
	if c.version < 0 { // New returns the error of the first poll
		return c.read(ctx, now)
	}
	return c.outage.observe(caller, time.Unix(0, c.polledAt.Load()), func() error { return c.read(ctx, now) })
}

// read reads the engine's state, and the tokens if they have changed. The caller holds polling.
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
	c.polledAt.Store(now.UnixNano())
	return nil
}

// saveUses stores the times of last use. After a failure it stores them with the next call.
func (c *credentials) saveUses(ctx context.Context) {
	now := time.Now()
	c.triedAt = now
	ctx, cancel := context.WithTimeout(ctx, pollTimeMax)
	defer cancel()
	for uses := range slices.Chunk(c.keyring.UsedSince(c.savedAt), usesMax) {
		if err := c.engine.MarkUsed(ctx, uses); err != nil {
			level := slog.LevelWarn
			if c.outage.unreachable() {
				level = slog.LevelDebug // the outage is logged
			}
			c.log.Log(ctx, level, "could not store the times of last use of tokens", "error", err)
			return
		}
	}
	c.savedAt = now.Add(-useLateMax) // a use is dated by the arrival of its request, which may have waited until now
}

// authenticateKnown does not poll for an unknown token.
func (c *credentials) authenticateKnown(ctx context.Context, credential string, now time.Time) (auth.Principal, error) {
	if err := c.refresh(ctx, now); err != nil {
		return auth.Principal{}, err
	}
	if c.verifies(credential) {
		return c.authenticateJWT(ctx, credential, now, false)
	}
	return c.keyring.Authenticate(credential, now)
}

// refresh polls if the last poll is too old at that time.
func (c *credentials) refresh(ctx context.Context, now time.Time) error {
	// After the clock was set back, the last poll is in the future, and its age is unknown. The monotonic clock is no
	// alternative: it stops while the machine sleeps.
	if age := c.age(now); age < 0 || age > staleAfter {
		if err := c.poll(ctx, now); err != nil {
			return c.unreadable(err)
		}
	}
	return nil
}

// verifies reports whether a credential is a JWT for the issuer's verifier.
func (c *credentials) verifies(credential string) bool {
	return c.verifyJWT != nil && auth.LooksLikeJWT(credential)
}

func (c *credentials) authenticate(ctx context.Context, credential string) (auth.Principal, error) {
	now := time.Now()
	if c.verifies(credential) {
		return c.authenticateJWT(ctx, credential, now, true)
	}
	principal, err := c.authenticateKnown(ctx, credential, now)
	// A credential without a valid checksum is no token, and its sender can compute that.
	if invalid := (*auth.Invalid)(nil); !errors.As(err, &invalid) || !auth.WellFormed(credential) {
		return principal, err
	}
	if err := c.poll(ctx, now); err != nil {
		return auth.Principal{}, c.unreadable(err)
	}
	return c.keyring.Authenticate(credential, now)
}

// age returns the time since the last successful poll.
func (c *credentials) age(now time.Time) time.Duration {
	return time.Duration(now.UnixNano() - c.polledAt.Load())
}

// unreadable returns the error of a client whose credential cannot be checked. outage logs one line for all of them.
func (c *credentials) unreadable(err error) error {
	c.log.Debug("could not read the tokens", "error", err)
	return plant.Errorf(plant.CodeStoreUnavailable,
		"nothing was stored because the store cannot check credentials now; send the request again")
}

// close stops the watcher and stores the last uses.
func (c *credentials) close() {
	c.stop()
	c.watcher.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	c.saveUses(ctx)
}
