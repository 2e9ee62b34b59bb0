package main

import (
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"plantstore/internal/auth"
)

func newToken(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create, list, rotate and revoke credentials",
		Long: `Create, list, rotate and revoke credentials, also while the server runs: it
applies every change within a second.

The secret of a token is shown once, when the token is created. The store keeps
only its hash and its first 8 characters.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenCreate(p), newTokenList(p), newTokenRevoke(p), newTokenRotate(p))
	return cmd
}

// newTokenFrom returns a token as the arguments describe it, without a secret.
func newTokenFrom(name string, flags *pflag.FlagSet, expires time.Duration) (auth.Token, error) {
	if err := refuseSecret(name); err != nil {
		return auth.Token{}, err
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	t := auth.Token{Name: name, CreatedAt: now}
	if flags.Changed("expires") {
		if expires == 0 {
			return auth.Token{}, usagef("expires: 0 is in the past: give a time like 90d or 12h")
		}
		t.ExpiresAt = now.Add(expires)
	}
	return t, nil
}

// refuseSecret refuses a secret that was given as a name.
func refuseSecret(name string) error {
	if auth.LooksLikeSecret(name) {
		return usagef("the name has the form of a token: a token is never taken from the arguments; see plantstore token revoke --help")
	}
	return nil
}
