package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"plantstore/internal/auth"
	"plantstore/internal/store"
)

func newToken(p *program) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Hand out, list, rotate and revoke credentials",
		Long: `Hand out, list, rotate and revoke credentials, also while the server runs: it
honours every change within a second.

A token is shown once, when it is made; the store keeps only its hash.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenCreate(p), newTokenList(p), newTokenRevoke(p), newTokenRotate(p))
	return cmd
}

func newTokenCreate(p *program) *cobra.Command {
	s := &settings{}
	var scopes []string
	var expires string
	cmd := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a token; it alone is printed on standard output",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := newTokenFrom(args[0], expires)
			if err != nil {
				return err
			}
			if t.Scopes, err = auth.ParseScopes(strings.Join(scopes, " ")); err != nil {
				return usagef("scope: %w", err)
			}
			if t.Scopes == 0 {
				return usagef("scope: a token without any scope is good for nothing: leave --scope out for plants:create")
			}
			return p.withStore(cmd, s, false, func(ctx context.Context, engine store.Engine) error {
				return p.mint(t, func(t auth.Token) (auth.Token, error) {
					_, err := engine.CreateToken(ctx, t)
					if errors.Is(err, store.ErrNameTaken) {
						err = fmt.Errorf("there is a valid token named %q: choose another name, or replace it with plantstore token rotate", t.Name)
					}
					return t, err
				})
			})
		},
	}
	s.bindStore(cmd.Flags())
	cmd.Flags().StringSliceVar(&scopes, "scope", []string{auth.ScopeCreate.String()}, "`scopes` that the token allows: plants:create, plants:read, admin; several with commas")
	cmd.Flags().StringVar(&expires, "expires", "", "`time` after which it is no longer valid, like 90d or 12h; none: never")
	return cmd
}

func newTokenRotate(p *program) *cobra.Command {
	s := &settings{}
	var overlap, expires string
	cmd := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Replace a token by a new one of the same name and scopes",
		Long: `Replace a token by a new one of the same name and scopes, which is valid for as
long as the old one was to be. The old one stays valid for the overlap, so that
its users can change over. The new token alone is printed on standard output.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := newTokenFrom(args[0], expires)
			if err != nil {
				return err
			}
			overlapTime, err := parseTime(overlap)
			if err != nil {
				return usagef("overlap: %w", err)
			}
			return p.withStore(cmd, s, true, func(ctx context.Context, engine store.Engine) error {
				err := p.mint(t, func(t auth.Token) (auth.Token, error) {
					fresh, _, err := engine.RotateToken(ctx, t, overlapTime)
					return fresh, err
				})
				if errors.Is(err, store.ErrNotFound) {
					return fmt.Errorf("there is no valid token named %q: see plantstore token list", t.Name)
				}
				return err
			})
		},
	}
	s.bindStore(cmd.Flags())
	cmd.Flags().StringVar(&overlap, "overlap", "24h", "`time` for which the old token stays valid, like 24h or 7d; 0 ends it now")
	cmd.Flags().StringVar(&expires, "expires", "", "`time` after which the new token is no longer valid, like 90d; none: as long as the old one was to be")
	return cmd
}

func newTokenRevoke(p *program) *cobra.Command {
	s := &settings{}
	var file string
	cmd := &cobra.Command{
		Use:   "revoke NAME | --token-file FILE",
		Short: "End a token at once",
		Long: `End the tokens of a name at once, an old one that is being rotated included.

With --token-file, or with the token in PLANTSTORE_TOKEN, end the one token
that is given, as when it was found where it should not be. A token is never
taken from the arguments, which others can see in the list of processes.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			which, err := p.selector(cmd.Context(), args, file)
			if err != nil {
				return err
			}
			return p.withStore(cmd, s, true, func(ctx context.Context, engine store.Engine) error {
				revoked, err := engine.RevokeTokens(ctx, which, time.Now())
				if errors.Is(err, store.ErrNotFound) {
					return errors.New("there is no such token that is not revoked already: see plantstore token list")
				}
				for _, t := range revoked {
					fmt.Fprintf(p.stderr, "revoked a token named %q; a running server refuses it within a second\n", t.Name)
				}
				return err
			})
		},
	}
	s.bindStore(cmd.Flags())
	cmd.Flags().StringVar(&file, "token-file", "", "read the token from this `file`; - is standard input")
	return cmd
}

func newTokenList(p *program) *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List all tokens there ever were",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.withStore(cmd, s, true, func(ctx context.Context, engine store.Engine) error {
				tokens, err := engine.Tokens(ctx)
				if err != nil {
					return err
				}
				return printTokens(p.stdout, tokens, time.Now())
			})
		},
	}
	s.bindStore(cmd.Flags())
	return cmd
}

func printTokens(w io.Writer, tokens []auth.Token, now time.Time) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ID\tNAME\tSTATE\tSCOPES\tCREATED\tEXPIRES\tLAST USED")
	for _, t := range tokens {
		state := "valid"
		switch {
		case t.Revoked():
			state = "revoked"
		case !t.ValidAt(now):
			state = "expired"
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n",
			t.ID, t.Name, state, t.Scopes, formatTime(t.CreatedAt), formatTime(t.ExpiresAt), formatTime(t.LastUsedAt))
	}
	return table.Flush()
}

func formatTime(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return t.Format(time.RFC3339)
}

// withStore runs a command on the store that the settings name.
func (p *program) withStore(cmd *cobra.Command, s *settings, mustExist bool, do func(context.Context, store.Engine) error) (err error) {
	if err := s.load(p, cmd); err != nil {
		return err
	}
	ctx := cmd.Context()
	engine, err := p.openCommand(ctx, s, mustExist)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	err = do(ctx, engine)
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, store.ErrBusy)) {
		return errInterrupted // it did not get its turn
	}
	return err
}

// mint makes the secret of a token, has the token stored, and prints the secret.
func (p *program) mint(t auth.Token, save func(auth.Token) (auth.Token, error)) error {
	secret := auth.Mint()
	t.Hash, t.Prefix = auth.HashOf(secret), auth.PrefixOf(secret)
	t, err := save(t)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stderr, "made the token %q (%s; expires: %s); it is shown only now:\n", t.Name, t.Scopes, formatTime(t.ExpiresAt))
	_, err = fmt.Fprintln(p.stdout, secret)
	return err
}

// newTokenFrom returns a token as the arguments describe it, without a secret.
func newTokenFrom(name, expires string) (auth.Token, error) {
	if err := checkTokenName(name); err != nil {
		return auth.Token{}, err
	}
	now := time.Now().UTC().Truncate(time.Microsecond)
	t := auth.Token{Name: name, CreatedAt: now}
	if expires != "" {
		after, err := parseTime(expires)
		if err == nil && after <= 0 {
			err = fmt.Errorf("%q is over already", expires)
		}
		if err != nil {
			return auth.Token{}, usagef("expires: %w", err)
		}
		t.ExpiresAt = now.Add(after)
	}
	return t, nil
}

func checkTokenName(name string) error {
	const runesMax = 64
	if auth.LooksLikeSecret(name) {
		return usagef("the name has the form of a token: a token is never taken from the arguments; see plantstore token revoke --help")
	}
	if name == "" || utf8.RuneCountInString(name) > runesMax || strings.TrimSpace(name) != name || !utf8.ValidString(name) {
		return usagef("a token's name has 1 to %d characters, and no space at its ends", runesMax)
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return usagef("a token's name has only printable characters")
		}
	}
	return nil
}

// parseTime reads a length of time as time.ParseDuration does, or as days: 90d.
func parseTime(text string) (time.Duration, error) {
	const day, daysMax = 24 * time.Hour, 36500
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		if err == nil && 0 <= n && n <= daysMax {
			return time.Duration(n) * day, nil
		}
	} else if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return d, nil
	}
	return 0, fmt.Errorf("%q is no length of time: give one like 90d, 12h or 30m", text)
}

// selector returns which tokens to revoke.
func (p *program) selector(ctx context.Context, args []string, file string) (store.Selector, error) {
	fromEnviron := p.environ["PLANTSTORE_TOKEN"]
	switch {
	case len(args) == 1 && file != "":
		return store.Selector{}, usagef("give a name or --token-file, not both")
	case len(args) == 1:
		return store.Selector{Name: args[0]}, checkTokenName(args[0])
	case file == "" && fromEnviron == "":
		return store.Selector{}, usagef("say which token: give its name, or the token itself with --token-file")
	}
	secret := fromEnviron
	if file != "" {
		var err error
		if secret, err = p.readToken(ctx, file); err != nil {
			return store.Selector{}, err
		}
	}
	secret = strings.TrimSpace(secret)
	if !auth.WellFormed(secret) {
		return store.Selector{}, errors.New("that is no whole token of a plant store: it begins with pst_ and has 53 characters")
	}
	return store.Selector{Hash: auth.HashOf(secret)}, nil
}

// readToken reads the first line of a file, or of standard input.
func (p *program) readToken(ctx context.Context, file string) (string, error) {
	const bytesMax = 4 << 10
	from := interruptible(ctx, p.stdin)
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", err
		}
		defer f.Close()
		from = f
	}
	line, err := bufio.NewReader(io.LimitReader(from, bytesMax)).ReadString('\n')
	switch {
	case err == nil, errors.Is(err, io.EOF):
		return line, nil
	case errors.Is(err, errInterrupted):
		return "", err
	}
	return "", fmt.Errorf("read the token: %w", err)
}
