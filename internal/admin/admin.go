// Package admin has the operations of the operator on a store and its server. The commands, the console and the admin
// API (package adminapi) call them; it knows neither HTTP nor a terminal.
//
// The errors of the operations wrap a *plant.Error, which is for the client of a server. The text of an error of the
// engine is its cause, for a command in the process of the engine.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/backup"
	"plantstore/internal/plant"
	"plantstore/internal/store"
	"plantstore/internal/webhook"
	"plantstore/internal/writepath"
)

// Config configures a Service.
type Config struct {
	Engine    Engine             // required; the caller closes it after the Service
	WritePath *writepath.Service // required by Import; scans pause while it creates plants, State has its readiness
	Log       *slog.Logger       // nil: no log
	Audit     *audit.Recorder    // receives imports; nil: none
	TempDir   string             // directory of temporary files of imports; empty: the system's

	Deliveries func() map[int64]webhook.Status // see webhook.Sender.Status; nil: none

	Backups  *backup.Service         // nil: the server makes no backups
	Numbers  func() Numbers          // required by Start
	Open     func() map[string]int64 // open connections by listener, for State; nil: unknown
	Settings func() []Setting        // the settings in force; required by Settings
	Issuer   string                  // whose JWTs the server accepts; empty: none
	DB       string                  // address of the store, without its password
	Version  string                  // the program's

	Unrecorded func(*store.Unrecorded) // reports revocations that the audit log did not accept; nil: no report
}

// Service runs the operations of the operator. It is safe for concurrent use.
type Service struct {
	config  Config
	log     *slog.Logger
	engine  Engine
	started time.Time

	verifying chan struct{} // full during a verification of the audit log
	downloads chan struct{} // semaphore of the downloads of backups
	scans     chan struct{} // semaphore of the scans of clients
	newest    newestBackup
	counting  counting
	imports   imports
	totals    outboxTotals
	watched   watched

	rejectsMax  int   // rejects of an import, without the conflicts of importer.Skip
	keptFreeMin int64 // bytes

	ctx     context.Context // for every operation; after its end no more start
	cancel  context.CancelFunc
	mu      sync.Mutex     // held by the start of an operation, and by Close when it calls cancel
	running sync.WaitGroup // the operations that use the engine
}

// New returns the operations on an engine. The caller closes the Service.
func New(c Config) (*Service, error) {
	if c.Engine == nil {
		return nil, errors.New("admin.Config has no Engine")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{
		config: c, log: c.Log, engine: c.Engine, started: time.Now().UTC().Truncate(time.Second),
		verifying: make(chan struct{}, 1), downloads: make(chan struct{}, downloadsMax),
		scans: make(chan struct{}, scansMax), newest: newestBackup{timeMax: listTimeMax},
		totals: outboxTotals{slot: make(chan struct{}, 1)}, rejectsMax: importRejectsMax,
		keptFreeMin: keptFreeMin, imports: imports{rejectsMax: rejectsKeptMax},
		watched: watched{risen: map[counter]map[string]rises{}},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Close ends the imports, cancels the running operations, waits for their end, and refuses further ones.
func (s *Service) Close() {
	s.Retire()
	s.mu.Lock()
	s.cancel()
	s.mu.Unlock()
	s.running.Wait()
}

// begin starts an operation that uses the engine. Its context ends when ctx does, and with Close. The operation calls
// end when it no longer uses the engine.
func (s *Service) begin(ctx context.Context) (_ context.Context, end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return nil, nil, fmt.Errorf("%w: %w", errShutdown, context.Canceled)
	}
	s.running.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() {
		stop()
		cancel()
		s.running.Done()
	}, nil
}

// run runs an operation that uses the engine. Its context ends when ctx does, and with Close. explain returns the error
// for a client after any error but a *plant.Error.
func run[T any](
	ctx context.Context, s *Service, explain func(error) error, do func(context.Context) (T, error),
) (none T, err error) {
	ctx, end, err := s.begin(ctx)
	if err != nil {
		return none, err
	}
	defer end()
	result, err := do(ctx)
	answer, ok := errors.AsType[*plant.Error](err)
	switch {
	case err == nil:
		return result, nil
	case ok:
		return none, answer
	}
	return none, explain(err)
}

// failure is an error of the engine. Its text is the cause; clients receive the answer instead.
type failure struct {
	answer *plant.Error
	cause  error
}

// Error implements error.
func (f *failure) Error() string { return f.cause.Error() }

// Unwrap returns the answer and the cause.
func (f *failure) Unwrap() []error { return []error{f.answer, f.cause} }

// unreadable returns the error of an operation after a read of the engine failed. It logs the cause, unless the client
// or the server ended the operation.
func (s *Service) unreadable(err error) error {
	if !errors.Is(err, context.Canceled) {
		s.log.Warn("read for the operator failed", "error", err)
	}
	return &failure{errUnreadable, err}
}

var (
	errUnreadable = plant.Errorf(plant.CodeStoreUnavailable, "the server could not read the store; send the request again")
	errShutdown   = plant.Errorf(plant.CodeShuttingDown, "the server is shutting down; send the request again")
)
