package main

import (
	"cmp"
	"context"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"plantstore/internal/admin"
	"plantstore/internal/terminal"
)

func newTokenList(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List all tokens, with their state",
		Long: `List all tokens, with their state. If the store has subjects of an issuer or
revoked JWTs, lists of them follow.`,
		Example: `  plantstore token list`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.operate(cmd, readOnly, func(ctx context.Context, o operations) error {
				byKind := map[string][]admin.Credential{}
				for c, err := range credentials(ctx, o, "") {
					if err == nil && p.asJSON {
						err = terminal.WriteJSON(p.Stdout, c)
					}
					if err != nil {
						return err
					}
					byKind[c.Kind] = append(byKind[c.Kind], c)
				}
				if p.asJSON {
					return nil
				}
				return printCredentials(p.Stdout, byKind)
			})
		},
	}
	p.bindStoreOrServer(cmd.Flags())
	p.bindJSON(cmd.Flags(), "print one JSON object per token and line")
	return cmd
}

// printCredentials prints a table of the tokens, and tables of the subjects and of the revoked JWTs if there are some.
func printCredentials(w io.Writer, byKind map[string][]admin.Credential) error {
	table := terminal.NewTable(w)
	table.Row("ID", "PREFIX", "NAME", "STATE", "SCOPES", "CREATED", "EXPIRES", "LAST USED")
	for _, c := range byKind[admin.KindToken] {
		table.Row(c.ID, cmp.Or(c.Prefix, "-"), c.Name, c.State, strings.Join(c.Scopes, " "),
			c.CreatedAt, c.ExpiresAt, c.LastUsedAt)
	}
	if subjects := byKind[admin.KindSubject]; len(subjects) > 0 {
		table.Row()
		table.Row("ID", "SUBJECT", "NAME", "ISSUER", "FIRST SEEN", "LAST USED", "REVOKED")
		for _, c := range subjects {
			table.Row(c.ID, c.Subject, c.Name, c.Issuer, c.CreatedAt, c.LastUsedAt, c.RevokedAt)
		}
	}
	if jwts := byKind[admin.KindJWT]; len(jwts) > 0 {
		table.Row()
		table.Row("ID", "REVOKED JWT", "ISSUER", "REVOKED", "KEPT UNTIL")
		for _, c := range jwts {
			table.Row(c.ID, c.JWTID, c.Issuer, c.RevokedAt, c.ExpiresAt)
		}
	}
	return table.Flush()
}
