package main

import (
	"context"
	"log/slog"
	"strings"

	"plantstore/internal/sqlite"
	"plantstore/internal/store"
)

// openCommand opens the store for a command that runs beside a server, if
// there is one.
func (p *program) openCommand(ctx context.Context, s *settings, mustExist bool) (store.Engine, error) {
	log := slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return openEngine(ctx, s.db, sqlite.Config{MustExist: mustExist, Log: log})
}

// openEngine opens the engine that a --db names.
func openEngine(ctx context.Context, db string, c sqlite.Config) (store.Engine, error) {
	if err := refuseURL(db); err != nil {
		return nil, err
	}
	c.Path = db
	return sqlite.Open(ctx, c)
}

// refuseURL refuses a --db that is no path of a file.
func refuseURL(db string) error {
	if strings.HasPrefix(db, "postgres://") || strings.HasPrefix(db, "postgresql://") {
		return usagef("db: this version keeps plants in a file only: give the path of one")
	}
	if db == "" {
		return usagef("db: the path is empty: give the path of a file")
	}
	return nil
}
