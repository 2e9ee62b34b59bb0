package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"plantstore/internal/admin"
	"plantstore/internal/auth"
	"plantstore/internal/store"
)

func newTokenList(p *program) *cobra.Command {
	s := &settings{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List all tokens, with their state",
		Long: `List all tokens, with their state. If the store has subjects of an issuer or
revoked JWTs, lists of them follow.`,
		Example: `  plantstore token list`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withStore(cmd, s, engineOptions{readOnly: true}, func(ctx context.Context, engine store.Engine) error {
				tokens, err := engine.Tokens(ctx)
				if err != nil {
					return err
				}
				if asJSON {
					return printTokenFacts(p.stdout, tokens, time.Now())
				}
				return printTokens(p.stdout, tokens, time.Now())
			})
		},
	}
	s.bindStore(cmd.Flags())
	bindJSON(cmd.Flags(), &asJSON, "print one JSON object per token and line")
	return cmd
}

// printTokenFacts prints one JSON object per token and line. The tokens are all tokens of the store, by ascending id.
func printTokenFacts(w io.Writer, tokens []auth.Token, now time.Time) error {
	states := auth.States(tokens, now)
	for i, t := range tokens {
		if err := writeJSON(w, admin.NewCredential(t, states[i])); err != nil {
			return err
		}
	}
	return nil
}

// printTokens prints a table of the tokens, and tables of the subjects and of the revoked JWTs if there are some.
func printTokens(w io.Writer, all []auth.Token, now time.Time) error {
	byKind := map[auth.Kind][]auth.Token{}
	for _, t := range all {
		byKind[t.Kind] = append(byKind[t.Kind], t)
	}
	err := printTokenTable(w, byKind[auth.KindToken], now)
	if subjects := byKind[auth.KindSubject]; err == nil && len(subjects) > 0 {
		err = printSubjects(w, subjects)
	}
	if jwts := byKind[auth.KindJWT]; err == nil && len(jwts) > 0 {
		err = printRevokedJWTs(w, jwts)
	}
	return err
}

func printSubjects(w io.Writer, subjects []auth.Token) error {
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tSUBJECT\tNAME\tISSUER\tFIRST SEEN\tLAST USED\tREVOKED")
	for _, t := range subjects {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", t.ID, printable(t.Identifier), printable(t.Name),
			printable(t.Issuer), formatTime(t.CreatedAt), formatTime(t.LastUsedAt), formatTime(t.RevokedAt))
	}
	return table.Flush()
}

func printRevokedJWTs(w io.Writer, jwts []auth.Token) error {
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tREVOKED JWT\tISSUER\tREVOKED\tKEPT UNTIL")
	for _, t := range jwts {
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\n", t.ID, printable(t.Identifier), printable(t.Issuer),
			formatTime(t.RevokedAt), formatTime(t.ExpiresAt))
	}
	return table.Flush()
}

func printTokenTable(w io.Writer, tokens []auth.Token, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tPREFIX\tNAME\tSTATE\tSCOPES\tCREATED\tEXPIRES\tLAST USED")
	states := auth.States(tokens, now)
	for i, t := range tokens {
		prefix := t.Prefix
		if prefix == "" {
			prefix = "-" // a token of an older version
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			t.ID, printable(prefix), printable(t.Name), states[i], t.Scopes,
			formatTime(t.CreatedAt), formatTime(t.ExpiresAt), formatTime(t.LastUsedAt))
	}
	return table.Flush()
}
