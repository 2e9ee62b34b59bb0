package main

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/audit"
	"plantstore/internal/move"
	"plantstore/internal/postgres"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/webhook"
)

// engineOptions selects how openEngine opens a store. The zero value opens it for reads and writes and creates it if it
// does not exist.
type engineOptions struct {
	mustExist bool         // fail with store.ErrNoStore instead of creating the store
	readOnly  bool         // implies mustExist
	migrate   bool         // migrate an older schema, instead of refusing it
	server    bool         // refuse a second server on the same file
	by        audit.Origin // of the entry of a migration in the audit log

	log     *slog.Logger
	metrics prometheus.Registerer // nil: none
	traced  bool                  // calls may have spans in their contexts
}

// anyEngine is the SQLite engine or the PostgreSQL engine.
type anyEngine interface {
	store.Engine
	move.Source
	move.Destination
	webhook.Outbox

	// Interrupted reports whether the store has the capture of a move that no longer runs.
	Interrupted(ctx context.Context) (bool, error)
}

// openEngine opens the engine that --db names.
func openEngine(ctx context.Context, s *settings, o engineOptions) (anyEngine, error) {
	if err := s.checkStore(); err != nil {
		return nil, err
	}
	if s.db.isDatabase() {
		return postgres.Open(ctx, postgres.Config{
			URL: s.db.url.Reveal(), MustExist: o.mustExist || o.readOnly, Migrate: o.migrate, Server: o.server, By: o.by,
			RequireSyncStandby: bool(s.requireSyncStandby), Log: o.log, Metrics: o.metrics, Traced: o.traced,
		})
	}
	return sqlite.Open(ctx, sqlite.Config{
		Path: s.db.path, MustExist: o.mustExist, ReadOnly: o.readOnly, Migrate: o.migrate, Server: o.server, By: o.by,
		Log: o.log, Metrics: o.metrics,
	})
}
