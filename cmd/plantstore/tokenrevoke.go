package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"plantstore/internal/admin"
	"plantstore/internal/terminal"
)

func newTokenRevoke(p *program) *cobra.Command {
	var r revocation
	cmd := &cobra.Command{
		Use:        "revoke NAME | --id ID | --token-file FILE | --subject SUB | --jwt-id JTI",
		Short:      "Revoke a token or a JWT at once",
		SuggestFor: []string{"delete", "remove", "rm"},
		Long: `Revoke all tokens of a name at once, rotated ones included. With --id revoke the
one token with this id in "plantstore token list".

With --token-file, or with the secret in PLANTSTORE_TOKEN, revoke the one token or
JWT of this secret, such as a leaked one. A secret cannot be an argument, because
other users can read arguments.

With --subject revoke all JWTs of a subject that were issued until now. JWTs that
the issuer signs more than a minute later are valid: to lock a subject out, remove
it at the issuer first. With --jwt-id revoke the one JWT with this claim jti. Both
need --oidc-issuer, the settings file of the server, or --server. With --server,
PLANTSTORE_TOKEN is the token for the server.`,
		Example: `  plantstore token revoke web-shop
  plantstore token revoke --id 7
  plantstore token revoke --token-file found.token
  plantstore token revoke --subject web-shop --oidc-issuer https://login.example`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := r.read(p, cmd, args); err != nil {
				return err
			}
			return p.operate(cmd, existing, func(ctx context.Context, o operations) error {
				revoked, err := p.revoke(ctx, o, r.Revocation)
				for _, c := range revoked {
					if p.asJSON {
						if err := terminal.WriteJSON(p.Stdout, c); err != nil {
							return err
						}
					} else {
						p.printRevoked(c)
					}
					if c.Kind != admin.KindToken {
						err = p.warnOfUnknown(ctx, o, c)
					}
				}
				return err
			})
		},
	}
	cmd.ValidArgsFunction = p.completeToken
	p.bindStoreOrServer(cmd.Flags())
	p.settings.Bind(cmd.Flags(), "oidc-issuer")
	p.bindJSON(cmd.Flags(), "print one JSON object per revoked token and line")
	r.bind(cmd.Flags())
	return cmd
}

// readToken reads the first line of a file, or of standard input.
func (p *program) readToken(ctx context.Context, file string) (string, error) {
	const bytesMax = 16 << 10 // a JWT has at most 8 KiB
	from := terminal.InterruptibleReader(ctx, p.Stdin)
	if file != terminal.StreamName {
		f, err := terminal.OpenInput(ctx, file)
		if err != nil {
			return "", err
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			fmt.Fprintf(p.Stderr, "warning: other users can read %s (mode %04o); run chmod 600 on it\n",
				file, info.Mode().Perm())
		}
		from = terminal.InterruptibleReader(ctx, f)
	}
	line, err := bufio.NewReader(io.LimitReader(from, bytesMax)).ReadString('\n')
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return line, nil
	case errors.Is(err, terminal.ErrInterrupted):
		return "", err
	}
	return "", fmt.Errorf("read the token: %w", err)
}
