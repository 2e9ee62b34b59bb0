// Package admin has the operations of the operator on a store, and the HTTP API over them on
// the admin listener of a server. A Service has the operations; Routes returns the routes of
// the API. openapi.yaml describes the API.
//
// The errors of the operations wrap a *plant.Error for the client of a server. Those of a failed
// engine have the text of the cause, for a command in the process of the engine.
package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/backup"
	"plantstore/internal/plant"
	"plantstore/internal/server"
	"plantstore/internal/store"
	"plantstore/internal/webhook"
	"plantstore/internal/writepath"
)

// Config configures a Service.
type Config struct {
	Engine Engine           // required; the caller closes it after the Service
	Store  *writepath.Store // on the engine: scans pause while it creates plants, State has its readiness; nil: neither
	Log    *slog.Logger     // nil: no log

	Deliveries func() map[int64]webhook.Status // of this server, see webhook.Sender.Status; nil: none

	Backups  *backup.Service     // nil: the server makes no backups
	Metrics  prometheus.Gatherer // of the server, for State; nil: none
	Settings func() []Setting    // the settings in force; nil: none
	Issuer   string              // whose JWTs the server accepts; empty: none
	DB       string              // address of the store, without its password
	Version  string              // of the program

	Unrecorded func(*store.Unrecorded) // reports revocations that the audit log did not accept; nil: no report
}

// Service has the operations of the operator. It is safe for concurrent use.
type Service struct {
	engine   Engine
	store    *writepath.Store // may be nil
	log      *slog.Logger
	backups  *backup.Service     // may be nil
	metrics  prometheus.Gatherer // may be nil
	settings func() []Setting
	issuer   string
	db       string
	version  string
	started  time.Time

	unrecorded func(*store.Unrecorded)
	deliveries func() map[int64]webhook.Status
	totals     outboxTotals

	verifying chan struct{} // semaphore of the verifications of the audit log
	downloads chan struct{} // semaphore of the downloads of backups

	lastMu    sync.Mutex    // guards the fields below, also while one goroutine lists the backups
	last      *BackupRecord // the newest complete backup of the last complete list; nil: none
	lastFault string        // why the list at lastAt failed; empty: it did not
	lastAt    time.Time

	listTime time.Duration // in which the destination must list the backups for State

	scans    chan struct{} // semaphore of the scans of clients
	lineTime time.Duration // in which a client must accept the lines of a search
	partTime time.Duration // in which a client must accept a part of a download
	counting counting
	imports  imports
	uploads  server.UploadLimits // of the files of imports

	rejectsMax int // of an import, without the conflicts of importer.Skip

	ctx     context.Context // of every operation
	cancel  context.CancelFunc
	mu      sync.Mutex
	closed  bool           // no more operations begin; guarded by mu
	running sync.WaitGroup // the operations that use the engine; Add is guarded by mu
}

// New returns the operations on an engine. The caller closes the Service.
func New(c Config) (*Service, error) {
	if c.Engine == nil {
		return nil, errors.New("admin.Config has no Engine")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Settings == nil {
		c.Settings = func() []Setting { return []Setting{} }
	}
	if c.Unrecorded == nil {
		c.Unrecorded = func(*store.Unrecorded) {}
	}
	if c.Deliveries == nil {
		c.Deliveries = func() map[int64]webhook.Status { return nil }
	}
	s := &Service{
		verifying: make(chan struct{}, 1), downloads: make(chan struct{}, downloadsMax),
		scans:    make(chan struct{}, scansMax),
		lineTime: lineTimeMax, partTime: partTimeMax, listTime: listTimeMax,
		engine: c.Engine, store: c.Store, log: c.Log, backups: c.Backups,
		deliveries: c.Deliveries, totals: outboxTotals{slot: make(chan struct{}, 1)},
		uploads: server.UploadLimits{Bytes: importBytesMax, Idle: importIdleMax}, rejectsMax: importRejectsMax,
		metrics: c.Metrics, settings: c.Settings,
		issuer: c.Issuer, unrecorded: c.Unrecorded, db: c.DB,
		version: c.Version, started: time.Now().UTC().Truncate(time.Second),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Close cancels the running operations, waits for their end, and refuses further ones.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.running.Wait()
}

// begin starts an operation that uses the engine. The context ends with that of the caller
// and with Close. The operation calls end when it no longer uses the engine.
func (s *Service) begin(ctx context.Context) (_ context.Context, end func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, fmt.Errorf("%w: %w", errShutdown(), context.Canceled)
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

// failure is an error of the engine, with the text of its cause. Clients receive the answer instead.
type failure struct {
	answer *plant.Error
	cause  error
}

// Error implements error.
func (f *failure) Error() string { return f.cause.Error() }

// Unwrap returns the answer and the cause.
func (f *failure) Unwrap() []error { return []error{f.answer, f.cause} }

// unreadable returns the error of an operation after a read of the engine failed. It logs
// the cause, unless the client or the server ended the operation.
func (s *Service) unreadable(err error) error {
	if !errors.Is(err, context.Canceled) {
		s.log.Warn("read for the operator failed", "error", err)
	}
	return &failure{&plant.Error{
		Code:    plant.CodeStoreUnavailable,
		Message: "the server could not read the store; send the request again",
	}, err}
}

func errShutdown() *plant.Error {
	return &plant.Error{Code: plant.CodeShuttingDown, Message: "the server is shutting down; send the request again"}
}
