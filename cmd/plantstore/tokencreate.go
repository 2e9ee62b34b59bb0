package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"plantstore/internal/admin"
	"plantstore/internal/auth"
	"plantstore/internal/config"
)

func newTokenCreate(p *program) *cobra.Command {
	var scopes []string
	expires := auth.DefaultLifetime
	var noExpiry bool
	var out secretOutput
	var create bool
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Create a token",
		Long: `Create a token and print its secret, and nothing else, on standard output. It
expires in 90 days; --expires and --no-expiry change that. NAME has 1 to 64 letters,
digits, ._-@:/+ and single blanks inside, a letter or digit first.`,
		Example: `  plantstore token create web-shop
  plantstore token create web-shop --expires 365d -o web-shop.token
  plantstore token create prometheus --scope metrics --no-expiry`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkNewName(args[0]); err != nil {
				return err
			}
			n := admin.NewToken{Name: args[0], Scopes: scopes, NoExpiry: noExpiry}
			if cmd.Flags().Changed("expires") {
				n.ExpiresIn = admin.Seconds(expires)
			}
			if noExpiry && n.ExpiresIn != nil {
				return config.Usagef("give --expires or --no-expiry, not both")
			}
			if err := checkScopes(scopes); err != nil {
				return err
			}
			return p.operate(cmd, creating(create), func(ctx context.Context, o operations) error {
				_, err := p.mint(ctx, out, func() (admin.Minted, error) { return o.Mint(ctx, n, p.operator()) })
				return err
			})
		},
	}
	p.bindStoreOrServer(cmd.Flags())
	bindCreate(cmd.Flags(), &create)
	p.bindSecret(cmd.Flags(), &out)
	cmd.Flags().StringSliceVar(&scopes, "scope", []string{auth.ScopeCreate.String()},
		"`scopes` of the token: plants:create, plants:read, admin, metrics")
	cmd.Flags().Var(config.Timeout(&expires), "expires", "`time` until the token expires, such as 90d or 12h")
	cmd.Flags().BoolVar(&noExpiry, "no-expiry", false, "create a token without an expiry")
	return cmd
}

// checkScopes returns a usage error if a new token cannot have scopes.
func checkScopes(names []string) error {
	scopes, err := auth.ParseScopes(strings.Join(names, " "))
	switch {
	case err != nil || !auth.Grantable.Has(scopes):
		return config.Usagef("scope: %q is not available; use %s", strings.Join(names, ","),
			strings.ReplaceAll(auth.Grantable.String(), " ", ", "))
	case scopes == 0:
		return config.Usagef("scope: a token needs a scope; omit --scope for %s", auth.ScopeCreate)
	}
	return nil
}

// checkNewName returns a usage error if a new token cannot have a name.
func checkNewName(name string) error {
	if err := refuseSecret(name); err != nil {
		return err
	}
	if err := auth.CheckName(name); err != nil {
		return config.Usagef("%w", err)
	}
	return nil
}
