package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

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

// tokenFacts is a token in the output of the token commands with --json. Times are in UTC.
type tokenFacts struct {
	Kind       string    `json:"kind"` // token, subject or jwt
	ID         int64     `json:"id"`
	Name       string    `json:"name"`
	Issuer     string    `json:"issuer,omitempty"`  // subject, jwt
	Subject    string    `json:"subject,omitempty"` // subject
	JWTID      string    `json:"jwt_id,omitempty"`  // jwt
	Prefix     string    `json:"prefix,omitempty"`  // of the secret
	State      string    `json:"state"`             // of tokenStates
	Scopes     []string  `json:"scopes"`
	CreatedAt  time.Time `json:"created_at"`
	ExpiresAt  time.Time `json:"expires_at,omitzero"`
	LastUsedAt time.Time `json:"last_used_at,omitzero"`
	RevokedAt  time.Time `json:"revoked_at,omitzero"`
}

func newTokenFacts(t auth.Token, state string) tokenFacts {
	scopes := append([]string{}, strings.Fields(t.Scopes.String())...)
	f := tokenFacts{
		Kind: "token", ID: t.ID, Name: t.Name, Issuer: t.Issuer, Prefix: t.Prefix, State: state, Scopes: scopes,
		CreatedAt: t.CreatedAt, ExpiresAt: t.ExpiresAt, LastUsedAt: t.LastUsedAt, RevokedAt: t.RevokedAt,
	}
	switch t.Kind {
	case auth.KindSubject:
		f.Kind, f.Subject = string(t.Kind), t.Identifier
	case auth.KindJWT:
		f.Kind, f.JWTID = string(t.Kind), t.Identifier
	}
	return f
}

// printTokenFacts prints one JSON object per token and line. The tokens are all tokens of the store, by ascending id.
func printTokenFacts(w io.Writer, tokens []auth.Token, now time.Time) error {
	states := tokenStates(tokens, now)
	for i, t := range tokens {
		if err := writeJSON(w, newTokenFacts(t, states[i])); err != nil {
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
	states := tokenStates(tokens, now)
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

// The states that other files use.
const (
	stateValid   = "valid"
	stateRevoked = "revoked"
)

// tokenStates returns the state of each token: valid, rotated (valid, and replaced by a newer token of its name),
// expired or revoked. The tokens are all tokens of the store, by ascending id.
func tokenStates(tokens []auth.Token, now time.Time) []string {
	states := make([]string, len(tokens))
	newest := map[string]int64{}
	for _, t := range tokens {
		if t.IsToken() {
			newest[t.Name] = t.ID
		}
	}
	for i, t := range tokens {
		switch {
		case t.Revoked():
			states[i] = stateRevoked
		case !t.ValidAt(now):
			states[i] = "expired"
		case t.IsToken() && newest[t.Name] != t.ID: // two valid tokens share a name only after a rotation
			states[i] = "rotated"
		default:
			states[i] = stateValid
		}
	}
	return states
}
