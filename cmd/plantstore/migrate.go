package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"plantstore/internal/config"
	"plantstore/internal/postgres"
	"plantstore/internal/sqlite"
	"plantstore/internal/terminal"
)

func newMigrate(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Migrate the store to the schema of this version",
		Long: `Migrate the store to the schema of this version. "plantstore serve" does the same
when it starts. "verify", "backup" and "restore" accept an older schema, and all
other commands refuse it.

Make a backup first: older versions refuse the store after a migration. Stop the
server of a store in a file first. Servers on PostgreSQL keep running, but servers
of an older version cannot start again. If the schema is already the newest, the
command succeeds.`,
		Example: `  plantstore migrate
  plantstore migrate --db /var/lib/plantstore/plantstore.db`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.withSettings(cmd, p.migrate) },
	}
	p.settings.BindStore(cmd.Flags())
	p.bindJSON(cmd.Flags(), "print a JSON object")
	return cmd
}

// migration is the output of migrate --json.
type migration struct {
	DB   string `json:"db"`   // without its password
	From int    `json:"from"` // the schema before
	To   int    `json:"to"`   // the schema now; From if it was the newest
}

func (p *program) migrate(ctx context.Context) (err error) {
	m := migration{DB: p.settings.DB.String()}
	m.From, m.To, err = p.migrateStore(ctx)
	err = p.settings.NoStore(err)
	_, usage := errors.AsType[*config.UsageError](err)
	switch {
	case usage:
		return err
	case err != nil:
		return fmt.Errorf("migrate: %w", err)
	case m.From == m.To:
		return p.result(m, "%s: schema %d is the newest; nothing to do\n", terminal.Printable(m.DB), m.To)
	}
	return p.result(m, "%s: migrated from schema %d to %d\n", terminal.Printable(m.DB), m.From, m.To)
}

// migrateStore migrates the store that --db names.
func (p *program) migrateStore(ctx context.Context) (from, to int, err error) {
	s := &p.settings
	if !s.DB.IsDatabase() {
		return sqlite.Migrate(ctx, s.DB.Path, p.commandLog(), p.operator())
	}
	return postgres.Migrate(ctx, postgres.Config{URL: string(s.DB.URL), Log: p.commandLog(), By: p.operator()})
}
