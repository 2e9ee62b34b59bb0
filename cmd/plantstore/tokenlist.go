package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

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
	err := printTokens(w, byKind[admin.KindToken])
	if subjects := byKind[admin.KindSubject]; err == nil && len(subjects) > 0 {
		err = printSubjects(w, subjects)
	}
	if jwts := byKind[admin.KindJWT]; err == nil && len(jwts) > 0 {
		err = printRevokedJWTs(w, jwts)
	}
	return err
}

func printSubjects(w io.Writer, subjects []admin.Credential) error {
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tSUBJECT\tNAME\tISSUER\tFIRST SEEN\tLAST USED\tREVOKED")
	for _, c := range subjects {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", c.ID, terminal.Printable(c.Subject), terminal.Printable(c.Name),
			terminal.Printable(c.Issuer), terminal.FormatTime(c.CreatedAt), terminal.FormatTime(c.LastUsedAt),
			terminal.FormatTime(c.RevokedAt))
	}
	return table.Flush()
}

func printRevokedJWTs(w io.Writer, jwts []admin.Credential) error {
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tREVOKED JWT\tISSUER\tREVOKED\tKEPT UNTIL")
	for _, c := range jwts {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n", c.ID, terminal.Printable(c.JWTID), terminal.Printable(c.Issuer),
			terminal.FormatTime(c.RevokedAt), terminal.FormatTime(c.ExpiresAt))
	}
	return table.Flush()
}

func printTokens(w io.Writer, tokens []admin.Credential) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tPREFIX\tNAME\tSTATE\tSCOPES\tCREATED\tEXPIRES\tLAST USED")
	for _, c := range tokens {
		prefix := cmp.Or(c.Prefix, "-") // only tokens have one
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			c.ID, terminal.Printable(prefix), terminal.Printable(c.Name), c.State,
			terminal.Printable(strings.Join(c.Scopes, " ")),
			terminal.FormatTime(c.CreatedAt), terminal.FormatTime(c.ExpiresAt), terminal.FormatTime(c.LastUsedAt))
	}
	return table.Flush()
}
