package main

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"plantstore/internal/postgres"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
)

// openCommand opens the store for a command that runs beside a server, if
// there is one.
func (p *program) openCommand(ctx context.Context, s *settings, c sqlite.Config) (store.Engine, error) {
	c.Log = p.commandLog()
	return s.openEngine(ctx, c)
}

// commandLog is for what an engine has to say to a command's user.
func (p *program) commandLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// openEngine opens the engine that --db names.
func (s *settings) openEngine(ctx context.Context, c sqlite.Config) (store.Movable, error) {
	if err := s.checkStore(); err != nil {
		return nil, err
	}
	if s.db.isDatabase() {
		return postgres.Open(ctx, postgres.Config{
			URL: s.db.url.Reveal(), MustExist: c.MustExist, ReadOnly: c.ReadOnly, Migrate: c.Migrate, Server: c.Server,
			RequireStandby: s.requireSyncStandby, Log: c.Log, Metrics: c.Metrics,
		})
	}
	c.Path = s.db.path
	return sqlite.Open(ctx, c)
}

// checkStore refuses what the settings alone show to be wrong with the store.
func (s *settings) checkStore() error {
	if !s.db.isDatabase() {
		if s.requireSyncStandby {
			return usagef("require-sync-standby (%s): a store in a file has no standby", s.sources["require-sync-standby"])
		}
		return nil
	}
	if err := s.refusePassword(); err != nil {
		return err
	}
	if err := s.db.url.Check(); err != nil {
		return usagef("%s: %w", s.sources["db"], err)
	}
	return nil
}

// commits is how many commits may run at the same time, and the time for each:
// one writes to a file at a time; a database far away is asked again before it
// has answered, and asked what became of it until nobody waits any more.
func (s *settings) commits() (most int, within time.Duration) {
	if s.db.isDatabase() {
		return postgres.CommitsMax, s.answerTimeout
	}
	return 1, commitTimeMax
}

// refusePassword refuses a password on the command line, where every user of
// the machine can read it.
func (s *settings) refusePassword() error {
	flag, ok := strings.CutPrefix(s.sources["db"], "--")
	if !ok {
		return nil
	}
	if !s.db.url.HasPassword() {
		return nil
	}
	orEnviron := ""
	if flag == "db" {
		orEnviron = ", or all of the URL into PLANTSTORE_DB"
	}
	return usagef("%s: every user of this machine can read a password on a command line: put it into PGPASSWORD, into the file that PGPASSFILE names%s", flag, orEnviron)
}
