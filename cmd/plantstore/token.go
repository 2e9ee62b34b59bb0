package main

import (
	"github.com/spf13/cobra"

	"plantstore/internal/auth"
	"plantstore/internal/config"
)

func newToken(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create, list, rotate, revoke and prune tokens",
		Long: `Create, list, rotate and revoke tokens, and remove unused subjects of an issuer.
The server may run: it applies each change within a second.

The command prints the secret of a token once, when it creates the token. The
store has only the hash and the first 8 characters of the secret.`,
	}
	cmd.AddCommand(newTokenCreate(p), newTokenList(p), newTokenRevoke(p), newTokenRotate(p),
		newTokenPrune(p))
	return cmd
}

func refuseSecret(name string) error {
	if auth.LooksLikeSecret(name) {
		return config.Usagef("the name has the form of a secret, which must not be an argument; " +
			"see plantstore token revoke --help")
	}
	return nil
}
