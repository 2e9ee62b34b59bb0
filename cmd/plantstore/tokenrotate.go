package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"plantstore/internal/admin"
	"plantstore/internal/config"
	"plantstore/internal/terminal"
)

func newTokenRotate(p *program) *cobra.Command {
	overlap := config.Day
	var expires time.Duration
	var out secretOutput
	cmd := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Replace a token with a new one of the same name and scopes",
		Long: `Replace a token with a new one of the same name, scopes and lifetime. The old
token stays valid for the overlap, so that its clients can switch. The command
prints the secret of the new token, and nothing else, on standard output.`,
		Example: `  plantstore token rotate web-shop --overlap 7d
  plantstore token rotate web-shop -o web-shop.token --force`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := refuseSecret(args[0]); err != nil {
				return err
			}
			r := admin.Rotation{Name: args[0], Overlap: admin.Seconds(overlap)}
			if cmd.Flags().Changed("expires") {
				r.ExpiresIn = admin.Seconds(expires)
			}
			return p.operate(cmd, existing, func(ctx context.Context, o operations) error {
				m, err := p.mint(ctx, out, func() (admin.Minted, error) { return o.Rotate(ctx, r, p.operator()) })
				if err == nil {
					p.reportOverlap(m, overlap)
				}
				return err
			})
		},
	}
	cmd.ValidArgsFunction = p.completeToken
	p.bindStoreOrServer(cmd.Flags())
	p.bindSecret(cmd.Flags(), &out)
	cmd.Flags().Var(config.Duration(&overlap), "overlap",
		"`time` for which the old token stays valid, such as 24h or 7d; 0: end it at once")
	cmd.Flags().Var(config.Timeout(&expires), "expires",
		"`time` until the new token expires, such as 90d; default: the lifetime of the old token")
	return cmd
}

// reportOverlap prints the expiry of the old token. With --json it prints only a warning about a shorter overlap.
func (p *program) reportOverlap(m admin.Minted, overlap time.Duration) {
	switch end := terminal.FormatTime(m.OldEndsAt); {
	case overlap > 0 && m.OldEndsAt.Before(m.CreatedAt.Add(overlap)):
		fmt.Fprintf(p.Stderr, "warning: the old token, %d, expires at %s, before the overlap of %s ends\n",
			m.OldID, end, config.FormatDuration(overlap))
	case p.asJSON:
	case overlap == 0:
		fmt.Fprintf(p.Stderr, "the old token, %d, is no longer valid\n", m.OldID)
	default:
		fmt.Fprintf(p.Stderr, "the old token, %d, stays valid until %s\n", m.OldID, end)
	}
}
