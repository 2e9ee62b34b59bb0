package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// Config configures a Store.
type Config struct {
	Engine  Engine // required; the caller closes it after the Store
	Commits int    // commits that may run at the same time; 0: 1
	Limits  Limits
	Log     *slog.Logger          // nil: no log
	Metrics prometheus.Registerer // nil: no metrics
}

// Store is what the doors of the server use: it takes plants and checks
// credentials. It is safe for concurrent use.
type Store struct {
	writer      *writer
	credentials *credentials
	retiring    atomic.Bool
	closing     sync.Once
}

// New starts a store on an engine. It has read the tokens when it returns. The
// caller closes it. The error wraps ErrHeld if a move holds the engine's store.
func New(ctx context.Context, c Config) (*Store, error) {
	if c.Engine == nil {
		return nil, errors.New("store.Config has no Engine")
	}
	c.Commits, c.Limits = max(1, c.Commits), c.Limits.withDefaults()
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry() // nothing reads it
	}
	o := &outage{log: c.Log}
	credentials, err := watchCredentials(ctx, c.Engine, o)
	if err != nil {
		return nil, err
	}
	if err := credentials.move.Load().Err(); err != nil {
		credentials.close()
		return nil, err
	}
	credentials.measure(c.Metrics)
	return &Store{
		writer:      newWriter(c, o),
		credentials: credentials,
	}, nil
}

// Create stores a plant. When it returns without an error, the plant is on
// stable storage; replayed says that the same plant was there before. The
// error is an *plant.Error: a refusal of this plant, or why the store could
// not take it. It returns within Limits.AnswerTimeout: nobody's leaving ends it
// sooner, because the plant is stored all the same.
func (s *Store) Create(by auth.Principal, n plant.NewPlant) (replayed bool, err error) {
	if err := s.credentials.move.Load().Err(); err != nil {
		return false, refusal(err)
	}
	outcome, err := s.writer.create(Create{Plant: n, By: by.TokenID, At: time.Now()})
	if err != nil {
		return false, err
	}
	return outcome.Replayed, outcome.Conflict
}

// Authenticate returns who a credential stands for. The error is an
// *plant.Error.
func (s *Store) Authenticate(ctx context.Context, credential string) (auth.Principal, error) {
	return s.credentials.authenticate(ctx, credential)
}

// Ready returns nil if the store can take plants, else why it cannot.
func (s *Store) Ready() error {
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	switch {
	case s.writer.broken:
		return errors.New("the store met an error after which it must not go on; see the log")
	case s.writer.closed, s.retiring.Load():
		return errors.New("the store is shutting down")
	case s.writer.longest() >= commitLongMax:
		return errors.New("the disk has not finished a commit for long")
	case s.credentials.age(time.Now()) >= awayAfter: // also while a look hangs
		return errors.New("the store is unreachable; see the log")
	}
	if s.credentials.move.Load().Phase != "" {
		return ErrReadOnly // where to is in the log: everybody may read this
	}
	return nil
}

// Durability tells what an acknowledgement of this store is worth.
func (s *Store) Durability() Durability { return s.writer.engine.Durability() }

// commitLongMax is how long a commit may take in a store that is ready. Nobody
// who sends a plant waits longer for one than for Limits.AnswerTimeout.
const commitLongMax = 20 * time.Second

// Retire makes Ready say that the store is shutting down, while it still takes
// plants: whoever spreads requests over several stores should look elsewhere.
// Commits that wait for another process are given up when the time is over.
func (s *Store) Retire(within time.Duration) {
	s.retiring.Store(true)
	time.AfterFunc(within, s.writer.cancel)
}

// Broken returns a channel that is closed when the engine cannot go on. The
// process should end then.
func (s *Store) Broken() <-chan struct{} { return s.writer.fail }

// Close takes no more plants, waits until every plant taken is answered, and
// stops what the store runs in the background.
func (s *Store) Close() {
	s.closing.Do(func() {
		s.writer.close()
		s.credentials.close()
		s.writer.outage.end()
	})
}
