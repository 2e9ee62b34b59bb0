package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"plantstore/internal/admin"
	"plantstore/internal/config"
	"plantstore/internal/serve"
)

func newAuditPrune(p *program) *cobra.Command {
	var keep time.Duration
	cmd := &cobra.Command{
		Use:   "prune --keep TIME",
		Short: "Remove old entries of the audit log",
		Long: `Remove the entries of the audit log that are older than --keep, and append an entry
about that. The rest of the log can still be verified. A server does the same once a
day with --audit-keep. There is no --server, so that nobody can remove entries with
a token.`,
		Example: `  plantstore audit prune --keep 400d`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("keep") {
				return config.Usagef("keep: give the age of the oldest entry to keep, such as --keep 400d")
			}
			return p.withStore(cmd, existing, func(ctx context.Context, engine serve.Engine) error {
				removed, err := admin.PruneAudit(ctx, engine, time.Now().Add(-keep), p.operator())
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(p.Stdout, "removed %d entries\n", removed)
				return err
			})
		},
	}
	p.settings.BindStore(cmd.Flags())
	cmd.Flags().Var(config.Duration(&keep), "keep", "keep entries that are younger than this `time`, such as 400d")
	return cmd
}
