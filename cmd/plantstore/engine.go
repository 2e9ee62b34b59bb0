package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/move"
	"plantstore/internal/postgres"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/webhook"
	"plantstore/internal/writepath"
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

// openCommand opens the store for a command that may run beside a server.
func (p *program) openCommand(ctx context.Context, s *settings, o engineOptions) (wholeEngine, error) {
	o.log = p.commandLog()
	return s.openEngine(ctx, o)
}

// commandLog returns the logger for an engine's warnings to a command's user.
func (p *program) commandLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// wholeEngine is the SQLite engine or the PostgreSQL engine.
type wholeEngine interface {
	writepath.Engine
	admin.Engine
	webhook.Outbox
	move.Source
	move.Destination

	// CreateFirstTokens stores all the tokens, whose names differ, in a store that never had a token. For any other store
	// it returns false and stores nothing.
	CreateFirstTokens(ctx context.Context, tokens []auth.Token, by audit.Origin) (created bool, err error)

	// PruneSubjects removes the selected subjects and returns them by ascending id; store.ErrNotFound if there is none.
	// The last use of a subject may be up to a minute older in the store than in a server: that server stores the subject
	// again. It keeps the row with the highest id, so that no id is used twice. It needs the right to delete tokens, which
	// a server does not need.
	PruneSubjects(ctx context.Context, p store.SubjectPrune, by audit.Origin) (removed []auth.Token, err error)

	// PruneAudit removes the entries up to an entry from the audit log and appends an entry about it. It returns 0 if they
	// are removed already. The error wraps store.ErrAuditFault if the log has no such entry.
	PruneAudit(ctx context.Context, to audit.Link, by audit.Origin) (removed int64, err error)

	// Interrupted reports whether the store has the capture of a move that no longer runs.
	Interrupted(ctx context.Context) (bool, error)

	// Close makes everything durable and closes the store. No other call may run during Close or after it.
	Close() error
}

// openEngine opens the engine that --db names.
func (s *settings) openEngine(ctx context.Context, o engineOptions) (wholeEngine, error) {
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

// checkStore returns an error if the settings alone show that the store cannot be opened.
func (s *settings) checkStore() error {
	if !s.db.isDatabase() {
		if s.requireSyncStandby {
			return s.fault("require-sync-standby", "a store in a file has no standby")
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

// commits returns the maximum number of concurrent commits, and the time limit of each. SQLite has one writer.
// PostgreSQL may be remote: several commits hide its latency, and the engine repeats a commit of unknown outcome while
// its requests wait.
func (s *settings) commits() (most int, within time.Duration) {
	if s.db.isDatabase() {
		return postgres.CommitsMax, writepath.AnswerTimeout
	}
	return 1, 0 // the default of writepath.Limits
}

// refusePassword returns an error if the command line has a password, because every user of the machine can read it.
func (s *settings) refusePassword() error {
	flag, ok := strings.CutPrefix(s.sources["db"], "--")
	if !ok || !s.db.url.HasPassword() {
		return nil
	}
	orEnviron := ""
	if flag == "db" {
		orEnviron = ", or put the whole URL into PLANTSTORE_DB"
	}
	return usagef("%s: every user of this machine can read a password on a command line; "+
		"put it into PGPASSWORD or the file that PGPASSFILE names%s", flag, orEnviron)
}

// withStore runs do on the store that the settings name, and closes the store.
func (p *program) withStore(
	cmd *cobra.Command, s *settings, o engineOptions, do func(context.Context, wholeEngine) error,
) (err error) {
	if err := s.load(p, cmd); err != nil {
		return err
	}
	ctx := cmd.Context()
	engine, err := p.openCommand(ctx, s, o)
	if errors.Is(err, store.ErrNoStore) && cmd.Flags().Lookup(createFlag) != nil {
		return fmt.Errorf("%w, or add --%s", err, createFlag)
	}
	if err == nil {
		defer func() { err = errors.Join(err, engine.Close()) }()
		err = do(ctx, engine)
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, store.ErrBusy)) {
		return errInterrupted // while it opened the store or waited for the write ticket
	}
	return err
}

const createFlag = "create"

// bindCreate adds the flag that lets a command create the store. Without the flag a mistyped --db would create a second
// store.
func bindCreate(f *pflag.FlagSet, create *bool) {
	f.BoolVar(create, createFlag, false, "create the store if it does not exist")
}
