package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"plantstore/internal/postgres"
	"plantstore/internal/sqlite"
)

func newMigrate(p *program) *cobra.Command {
	s := &settings{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Migrate the store to the schema of this version",
		Long: `Migrate the store to the schema of this version. "plantstore serve" does the same
when it starts; no other command changes the schema of a store. "verify", "backup"
and "restore" accept an older schema, and all others refuse it.

Make a backup first: older versions refuse the store after a migration. Stop the
server of a store in a file first. Servers on PostgreSQL keep running, but servers
of an older version cannot start again. If the schema is already the newest, the
command succeeds.

With --json it prints one JSON object: {"db":"plantstore.db","from":1,"to":2}`,
		Example: `  plantstore migrate
  plantstore migrate --db /var/lib/plantstore/plantstore.db`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.load(cmd.Context(), p.env, cmd.Flags()); err != nil {
				return err
			}
			return p.migrate(cmd.Context(), s, asJSON)
		},
	}
	s.bindStore(cmd.Flags())
	bindJSON(cmd.Flags(), &asJSON, "print a JSON object")
	return cmd
}

// migration is the output of migrate --json.
type migration struct {
	DB   string `json:"db"`   // without its password
	From int    `json:"from"` // the schema before
	To   int    `json:"to"`   // the schema now; From if it was the newest
}

func (p *program) migrate(ctx context.Context, s *settings, asJSON bool) (err error) {
	m := migration{DB: s.db.String()}
	m.From, m.To, err = s.migrate(ctx, p)
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		return err
	case errors.Is(err, context.Canceled):
		return errInterrupted
	case err != nil:
		return fmt.Errorf("migrate: %w", err)
	case asJSON:
		return writeJSON(p.stdout, m)
	case m.From == m.To:
		_, err = fmt.Fprintf(p.stdout, "%s: schema %d is the newest; nothing to do\n", printable(m.DB), m.To)
	default:
		_, err = fmt.Fprintf(p.stdout, "%s: migrated from schema %d to %d\n", printable(m.DB), m.From, m.To)
	}
	return err
}

// migrate migrates the store that --db names.
func (s *settings) migrate(ctx context.Context, p *program) (from, to int, err error) {
	if !s.db.isDatabase() {
		return sqlite.Migrate(ctx, s.db.path, p.commandLog(), p.operator())
	}
	if err := s.refusePassword(); err != nil {
		return 0, 0, err
	}
	return postgres.Migrate(ctx, postgres.Config{URL: s.db.url.Reveal(), Log: p.commandLog(), By: p.operator()})
}
