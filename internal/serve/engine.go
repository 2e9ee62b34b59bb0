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
	ReadOnly  bool         // implies mustExist
	Migrate   bool         // migrate an older schema, instead of refusing it
	Server    bool         // refuse a second server on the same file
	By        audit.Origin // of the entry of a migration in the audit log

	Log     *slog.Logger
	Metrics prometheus.Registerer // nil: none
	Traced  bool                  // calls may have spans in their contexts
}

// Engine is the SQLite engine or the PostgreSQL engine.
type Engine interface {
	writepath.Engine
	admin.Engine
	webhook.Outbox
	move.Source
	move.Destination

	// CreateFirstTokens stores all the tokens, whose names differ, in a store that never had a token. For any other store
	// it returns false and stores nothing.
	CreateFirstTokens(ctx context.Context, tokens []auth.Token, by audit.Origin) (created bool, err error)

	// Interrupted reports whether the store has the capture of a move that is not complete and no longer runs.
	Interrupted(ctx context.Context) (bool, error)

	// Close makes everything durable and closes the store. No other call may run during Close or after it.
	Close() error
}

// OpenEngine opens the engine that --db names.
func OpenEngine(ctx context.Context, s *config.Settings, o EngineOptions) (Engine, error) {
	if err := s.CheckStore(); err != nil {
		return nil, err
	}
	if s.DB.IsDatabase() {
		return postgres.Open(ctx, postgres.Config{
			URL: string(s.DB.URL), MustExist: o.MustExist || o.ReadOnly, Migrate: o.Migrate, Server: o.Server, By: o.By,
			RequireSyncStandby: s.RequireSyncStandby, Log: o.Log, Metrics: o.Metrics, Traced: o.Traced,
		})
	}
	return sqlite.Open(ctx, sqlite.Config{
		Path: s.DB.Path, MustExist: o.MustExist, ReadOnly: o.ReadOnly, Migrate: o.Migrate, Server: o.Server, By: o.By,
		Log: o.Log, Metrics: o.Metrics,
	})
}
