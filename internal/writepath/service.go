// Package writepath stores plants for a server. Many requests create plants one by one; a committer stores them in
// batches, with one fsync for each batch. An engine that can store several batches at the same time has several
// committers. The package also keeps in memory the tokens that authenticate requests.
package writepath

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
	"plantstore/internal/trace"
)

// Config configures a Service.
type Config struct {
	Engine  Engine // required; the caller closes it after the Service
	Commits int    // commits that may run at the same time; 0: 1
	Limits  Limits
	JWT     VerifyJWT // nil: JWTs are invalid

	// MayAccept returns why the server must not accept plants, an error that wraps store.ErrStandby or
	// store.ErrNotOwner; nil: it always may.
	MayAccept func() error

	Log     *slog.Logger          // nil: no log
	Metrics prometheus.Registerer // nil: no metrics
	Tracer  *trace.Tracer         // nil: no spans
}

// Service creates plants and authenticates requests, for the server. It is safe for concurrent use.
type Service struct {
	mayAccept   func() error
	writer      *writer
	credentials *credentials
}

// New starts a Service on an engine, and reads the tokens before it returns. The caller closes it.
func New(ctx context.Context, c Config) (*Service, error) {
	c.Commits, c.Limits = max(1, c.Commits), c.Limits.withDefaults()
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	o := &outage{log: c.Log}
	credentials, err := newCredentials(ctx, c.Engine, c.JWT, o)
	if err != nil {
		return nil, err
	}
	credentials.measure(c.Metrics)
	if c.MayAccept == nil {
		c.MayAccept = func() error { return nil }
	}
	s := &Service{mayAccept: c.MayAccept, writer: newWriter(c, o), credentials: credentials}
	credentials.start(ctx, s.writer.pollBroken)
	return s, nil
}

// Create stores a plant; span is the request's, or nil. When it returns a nil error, the plant is on stable storage;
// replayed reports that it was already stored. The error is a *plant.Error: a conflict, or the reason why the store
// could not store it. Create returns within Limits.AnswerTimeout. It has no context, because a plant in a batch is
// stored even if its client disconnects.
func (s *Service) Create(span *trace.Span, by auth.Principal, n plant.NewPlant) (replayed bool, err error) {
	if err := s.MayAccept(); err != nil {
		return false, err
	}
	outcome, err := s.writer.create(span, store.Create{Plant: n, By: by.TokenID, At: time.Now()})
	if err != nil {
		return false, err
	}
	return outcome.Replayed, outcome.Conflict
}

// MayAccept returns the error of Create, a *plant.Error, while another server accepts the plants. The tokens of this
// one may be older than those of the other one.
func (s *Service) MayAccept() error {
	if err := s.mayAccept(); err != nil {
		return clientError(err)
	}
	return nil
}

// Authenticate returns the principal of a credential. It looks for an unknown token in the engine, because the token
// may be new. The error is a *plant.Error.
func (s *Service) Authenticate(ctx context.Context, credential string) (auth.Principal, error) {
	return s.credentials.authenticate(ctx, credential)
}

// AuthenticateKnown is Authenticate without a look into the engine for an unknown token: one that is newer than the
// last poll is unknown. It polls if the last poll is too old, and stores the subject of a JWT that it sees first.
func (s *Service) AuthenticateKnown(ctx context.Context, credential string) (auth.Principal, error) {
	return s.credentials.authenticateKnown(ctx, credential, time.Now())
}

// AuthenticateClaims returns the principal of a person who signed in at the issuer; the caller has verified the claims.
// Its first call for a subject stores the subject. The error is an *auth.Invalid after a revocation of the subject, or
// a *plant.Error.
func (s *Service) AuthenticateClaims(ctx context.Context, claims *auth.Claims) (auth.Principal, error) {
	return s.credentials.authenticateClaims(ctx, claims, time.Now())
}

// AuthenticateStale is Authenticate for the tokens of the last successful poll, however old it is. It never waits for
// the engine. While the engine is unreachable, a token that was revoked since is still valid.
func (s *Service) AuthenticateStale(credential string) (auth.Principal, error) {
	return s.credentials.keyring.Authenticate(credential, time.Now())
}

// Reasons why the store accepts no plants.
var (
	ErrDiskFull    = errors.New("the disk of the store is full; free space on it")
	ErrUnreachable = errors.New("the store is unreachable; see the log")
)

// Ready returns nil if the store can store plants, else the reason why it cannot.
func (s *Service) Ready() error {
	if err := s.mayAccept(); err != nil {
		return err
	}
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	switch {
	case s.writer.broken:
		return errors.New("the store failed; see the log")
	case s.writer.closed, s.writer.lateAt.Load() != nil:
		return errors.New("the store is shutting down")
	case s.writer.longestCommit() >= commitLongMax:
		return errors.New("a commit has run for over 20 s")
	case s.writer.outage.unreachable():
		return ErrUnreachable
	}
	return s.writer.outage.unwritable()
}

// Writing reports whether plants wait for a commit, or are in one. Reads in the background pause then.
func (s *Service) Writing() bool {
	s.writer.mu.Lock()
	defer s.writer.mu.Unlock()
	return len(s.writer.pending.creates) > 0 || s.writer.inFlight > 0
}

// Durability returns the guarantee of an acknowledgement.
func (s *Service) Durability() store.Durability { return s.writer.engine.Durability() }

// commitLongMax is the longest run time of a commit while Ready returns nil.
const commitLongMax = 20 * time.Second

// Retire makes Ready report the shutdown, so that a load balancer uses other servers. Create still stores plants. After
// the given time, commits that wait for a lock fail, and a later one fails if it takes more than 400 ms.
func (s *Service) Retire(within time.Duration) { s.writer.retire(within) }

// Broken returns a channel that is closed after the engine has returned store.ErrBroken. The process should end then.
func (s *Service) Broken() <-chan struct{} { return s.writer.failed }

// Close refuses new plants, waits for the outcome of every accepted plant, and ends its goroutines.
func (s *Service) Close() {
	s.writer.close()
	s.credentials.close()
	s.writer.outage.end()
}
