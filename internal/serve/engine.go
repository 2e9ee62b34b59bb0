package serve

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/config"
	"plantstore/internal/move"
	"plantstore/internal/postgres"
	"plantstore/internal/sqlite"
	"plantstore/internal/webhook"
	"plantstore/internal/writepath"
)

// EngineOptions selects how OpenEngine opens a store. The zero value opens it for reads and writes and creates it if it
// does not exist.
type EngineOptions struct {
	MustExist bool         // fail with store.ErrNoStore instead of creating the store
	ReadOnly  bool         // implies MustExist
	Migrate   bool         // migrate an older schema, instead of refusing it
	Server    bool         // refuse a second server on the same file
	By        audit.Origin // recorded in the audit log with a migration

	MayWrite func() error // see sqlite.Config

	Log     *slog.Logger
	Metrics prometheus.Registerer // nil: none
	Traced  bool                  // calls may have spans in their contexts
}

// Engine is the SQLite engine or the PostgreSQL engine.
type Engine interface {
	writepath.Engine
	admin.Engine
	webhook.Outbox

	// AppendAudit appends entries to the audit log in one transaction.
	AppendAudit(ctx context.Context, events ...audit.Event) error

	// CreateFirstTokens stores all the tokens, whose names differ, in a store that never had a token. For any other store
	// it returns false and stores nothing.
	CreateFirstTokens(ctx context.Context, tokens []auth.Token, by audit.Origin) (created bool, err error)

	// Close makes everything durable and closes the store. No other call may run during Close or after it.
	Close() error
}

// OpenEngine opens the engine that --db names.
func OpenEngine(ctx context.Context, s *config.Settings, o EngineOptions) (Engine, error) {
	if err := s.CheckStore(); err != nil {
		return nil, err
	}
	if s.DB.IsDatabase() {
		e, err := postgres.Open(ctx, postgres.Config{
			URL: string(s.DB.URL), MustExist: o.MustExist || o.ReadOnly, ReadOnly: o.ReadOnly, Migrate: o.Migrate,
			Server: o.Server, By: o.By, RequireSyncStandby: s.RequireSyncStandby,
			Log: o.Log, Metrics: o.Metrics, Traced: o.Traced,
		})
		return e, s.NoStore(err)
	}
	e, err := sqlite.Open(ctx, sqlite.Config{
		Path: s.DB.Path, MustExist: o.MustExist, ReadOnly: o.ReadOnly, Migrate: o.Migrate, Server: o.Server, By: o.By,
		MayWrite: o.MayWrite, Log: o.Log, Metrics: o.Metrics,
	})
	return e, s.NoStore(err)
}

// OpenMoveSource opens the store that --db names as the old store of a move. The caller closes it.
func OpenMoveSource(ctx context.Context, s *config.Settings, log *slog.Logger) (move.Source, error) {
	if err := s.CheckStore(); err != nil {
		return nil, err
	}
	if s.DB.IsDatabase() {
		return postgres.OpenSource(ctx, postgres.Config{URL: string(s.DB.URL), Log: log})
	}
	e, err := sqlite.Open(ctx, sqlite.Config{Path: s.DB.Path, MustExist: true, Move: true, Log: log})
	return e, s.NoStore(err)
}

// OpenMoveDestination opens the store that --db names as the new store of a move. The caller closes it.
func OpenMoveDestination(ctx context.Context, s *config.Settings, log *slog.Logger) (move.Destination, error) {
	if err := s.CheckStore(); err != nil {
		return nil, err
	}
	if s.DB.IsDatabase() {
		return postgres.OpenDestination(ctx, postgres.Config{URL: string(s.DB.URL), Log: log})
	}
	return sqlite.Create(ctx, s.DB.Path)
}
