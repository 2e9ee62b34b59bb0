package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"plantstore/internal/auth"
	"plantstore/internal/store"
)

func newTokenRotate(p *program) *cobra.Command {
	s := &settings{}
	overlap := day
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
			t, err := newTokenFrom(args[0], cmd.Flags(), expires)
			if err != nil {
				return err
			}
			return p.withStore(cmd, s, engineOptions{mustExist: true}, func(ctx context.Context, engine store.Engine) error {
				err := p.mint(ctx, t, &out, func(t auth.Token) (auth.Token, error) {
					fresh, old, err := engine.RotateToken(ctx, t, overlap, p.operator())
					out.replaces(old, t.CreatedAt, overlap)
					return fresh, err
				})
				if errors.Is(err, store.ErrNotFound) {
					return fmt.Errorf("no valid token has the name %q; see plantstore token list", t.Name)
				}
				if err == nil {
					p.reportOverlap(&out, overlap)
				}
				return err
			})
		},
	}
	cmd.ValidArgsFunction = p.completeTokens(s, func(t auth.Token) bool { return t.IsToken() && t.ValidAt(time.Now()) })
	s.bindStore(cmd.Flags())
	out.bind(cmd.Flags())
	cmd.Flags().Var((*duration)(&overlap), "overlap",
		"`time` for which the old token stays valid, such as 24h or 7d; 0: end it at once")
	cmd.Flags().Var((*duration)(&expires), "expires",
		"`time` until the new token expires, such as 90d; default: the lifetime of the old token")
	return cmd
}

// reportOverlap prints the expiry of the old token. With --json it prints only a warning about a shorter overlap.
func (p *program) reportOverlap(out *secretOutput, overlap time.Duration) {
	switch {
	case out.shorter:
		fmt.Fprintf(p.stderr, "warning: the old token, %d, expires at %s, before the overlap of %s ends\n",
			out.oldID, formatTime(out.oldEnds), formatDuration(overlap))
	case out.asJSON:
	case overlap == 0:
		fmt.Fprintf(p.stderr, "the old token, %d, is no longer valid\n", out.oldID)
	default:
		fmt.Fprintf(p.stderr, "the old token, %d, stays valid until %s\n", out.oldID, formatTime(out.oldEnds))
	}
}
