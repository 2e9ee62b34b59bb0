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

func newTokenPrune(p *program) *cobra.Command {
	const shortest = 24 * time.Hour // a server stores the last use within a minute
	var unused time.Duration
	cmd := &cobra.Command{
		Use:   "prune --unused TIME",
		Short: "Remove the subjects of an issuer that are not in use",
		Long: `Remove the subjects of an issuer whose JWTs no server has accepted for --unused:
the store has room for 100,000. Tokens and revoked JWTs stay. So does a subject
that was revoked within the last 30 days, because its JWTs can be valid.

The creator of its plants is then "id" and the number of the subject; the audit
log keeps the name. A subject that returns gets another number.

There is no --server: a server of PostgreSQL needs no right to delete tokens.`,
		Example: `  plantstore token prune --unused 365d`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case !cmd.Flags().Changed("unused"):
				return config.Usagef("unused: give the time since the last use, such as --unused 365d")
			case unused < shortest:
				return config.Usagef("unused: %s is out of range; use at least 1d", config.FormatDuration(unused))
			}
			return p.withStore(cmd, existing, func(ctx context.Context, engine serve.Engine) error {
				removed, err := admin.PruneSubjects(ctx, engine, unused, p.operator())
				if err != nil {
					return fmt.Errorf("removed %d subjects, then: %w", removed, err)
				}
				_, err = fmt.Fprintf(p.Stdout, "removed %d subjects\n", removed)
				return err
			})
		},
	}
	p.settings.BindStore(cmd.Flags())
	cmd.Flags().Var(config.Duration(&unused), "unused",
		"remove subjects whose last use is longer ago than this `time`, such as 365d")
	return cmd
}
