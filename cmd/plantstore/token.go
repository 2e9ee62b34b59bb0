package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"plantstore/internal/auth"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
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

func newTokenCreate(p *program) *cobra.Command {
	s := &settings{}
	var scopes []string
	var expires time.Duration
	var noExpiry bool
	var out secretOutput
	var create bool
	cmd := &cobra.Command{
		Use:   "create NAME (--expires TIME | --no-expiry)",
		Short: "Create a token; its secret alone is printed on standard output",
		Example: `  plantstore token create web-shop --expires 90d
  plantstore token create web-shop --expires 90d -o web-shop.token`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkNewName(args[0]); err != nil {
				return err
			}
			t, err := newTokenFrom(args[0], cmd.Flags(), expires)
			if err != nil {
				return err
			}
			if noExpiry != t.ExpiresAt.IsZero() {
				return usagef("give either --expires, such as --expires 90d, or --no-expiry for a token that never expires")
			}
			if t.Scopes, err = grantScopes(scopes); err != nil {
				return err
			}
			return p.withStore(cmd, s, sqlite.Config{MustExist: !create}, func(ctx context.Context, engine store.Engine) error {
				return p.mint(ctx, t, &out, func(t auth.Token) (_ auth.Token, err error) {
					t.ID, err = engine.CreateToken(ctx, t)
					if errors.Is(err, store.ErrNameTaken) {
						err = fmt.Errorf("there is a valid token named %q: choose another name, or replace it with plantstore token rotate", t.Name)
					}
					return t, err
				})
			})
		},
	}
	s.bindStore(cmd.Flags())
	bindCreate(cmd.Flags(), &create)
	out.bind(cmd.Flags())
	cmd.Flags().StringSliceVar(&scopes, "scope", []string{auth.Grantable.String()}, "`scopes` that the token allows; there is one: "+auth.Grantable.String())
	cmd.Flags().Var((*duration)(&expires), "expires", "`time` after which the token expires, like 90d or 12h")
	cmd.Flags().BoolVar(&noExpiry, "no-expiry", false, "create a token that never expires")
	return cmd
}

func newTokenRotate(p *program) *cobra.Command {
	s := &settings{}
	overlap := day
	var expires time.Duration
	var out secretOutput
	cmd := &cobra.Command{
		Use:   "rotate NAME",
		Short: "Replace a token with a new one of the same name and scopes",
		Long: `Replace a token with a new one of the same name and scopes, which is valid for
as long as the old one was to be. The old one stays valid for the overlap, so
that its users can change over. The secret of the new token alone is printed on
standard output.`,
		Example: `  plantstore token rotate web-shop --overlap 7d
  plantstore token rotate web-shop -o web-shop.token --force`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := newTokenFrom(args[0], cmd.Flags(), expires)
			if err != nil {
				return err
			}
			return p.withStore(cmd, s, sqlite.Config{MustExist: true}, func(ctx context.Context, engine store.Engine) error {
				err := p.mint(ctx, t, &out, func(t auth.Token) (auth.Token, error) {
					fresh, old, err := engine.RotateToken(ctx, t, overlap)
					out.replaces(old, t.CreatedAt, overlap)
					return fresh, err
				})
				if errors.Is(err, store.ErrNotFound) {
					return fmt.Errorf("there is no valid token named %q: see plantstore token list", t.Name)
				}
				if err == nil {
					p.sayOverlap(&out, overlap)
				}
				return err
			})
		},
	}
	cmd.ValidArgsFunction = p.completeTokens(s, func(t auth.Token) bool { return t.ValidAt(time.Now()) })
	s.bindStore(cmd.Flags())
	out.bind(cmd.Flags())
	cmd.Flags().Var((*duration)(&overlap), "overlap", "`time` for which the old token stays valid, like 24h or 7d; 0 ends it now")
	cmd.Flags().Var((*duration)(&expires), "expires", "`time` after which the new token expires, like 90d; default: as long after its creation as the old one")
	return cmd
}

// sayOverlap says how long a token that was rotated stays valid; with --json only what was not asked for.
func (p *program) sayOverlap(out *secretOutput, overlap time.Duration) {
	switch {
	case out.cut:
		fmt.Fprintf(p.stderr, "warning: the old token, %d, expires at %s, before the overlap of %s ends\n", out.oldID, formatTime(out.oldEnds), formatDuration(overlap))
	case out.asJSON:
	case overlap == 0:
		fmt.Fprintf(p.stderr, "the old token, %d, is no longer valid\n", out.oldID)
	default:
		fmt.Fprintf(p.stderr, "the old token, %d, stays valid until %s\n", out.oldID, formatTime(out.oldEnds))
	}
}

// grantScopes returns the scopes of a new token.
func grantScopes(names []string) (auth.Scopes, error) {
	scopes, err := auth.ParseScopes(strings.Join(names, " "))
	switch {
	case err != nil || !auth.Grantable.Has(scopes):
		return 0, usagef("scope: %q is not a scope that a token can have: it can have %s", strings.Join(names, ","), auth.Grantable)
	case scopes == 0:
		return 0, usagef("scope: a token without a scope allows nothing: leave out --scope for %s", auth.Grantable)
	}
	return scopes, nil
}

// withStore runs a command on the store that the settings name. It is opened as
// c says, of which only MustExist and ReadOnly count.
func (p *program) withStore(cmd *cobra.Command, s *settings, c sqlite.Config, do func(context.Context, store.Engine) error) (err error) {
	if err := s.load(p, cmd); err != nil {
		return err
	}
	ctx := cmd.Context()
	engine, err := p.openCommand(ctx, s, c)
	if errors.Is(err, store.ErrNoStore) && cmd.Flags().Lookup(createFlag) != nil {
		return fmt.Errorf("%w, or give --%s", err, createFlag)
	}
	if err == nil {
		defer func() { err = errors.Join(err, engine.Close()) }()
		err = do(ctx, engine)
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, store.ErrBusy)) {
		return errInterrupted // it was not opened whole, or did not get its turn
	}
	return err
}

// secretOutput is where the secret of a new token goes.
type secretOutput struct {
	path   string // empty or -: standard output
	force  bool   // path may be replaced
	asJSON bool

	oldID   int64     // of the token that the new one replaces; 0 if there is none
	oldEnds time.Time // when that token is no longer valid
	cut     bool      // that is before the overlap ends
}

// replaces notes which token the new one replaces. overlap is from when it was rotated.
func (o *secretOutput) replaces(old auth.Token, rotated time.Time, overlap time.Duration) {
	o.oldID, o.oldEnds = old.ID, rotated.Add(overlap)
	if !old.ExpiresAt.IsZero() && old.ExpiresAt.Before(o.oldEnds) {
		o.oldEnds, o.cut = old.ExpiresAt, overlap > 0
	}
}

// createdFacts is what token create --json and token rotate --json print.
type createdFacts struct {
	tokenFacts
	Secret    string    `json:"secret,omitempty"` // unless it is in File
	File      string    `json:"file,omitempty"`
	OldID     int64     `json:"old_id,omitempty"` // rotate: the token that was replaced
	OldEndsAt time.Time `json:"old_ends_at,omitzero"`
}

func (o *secretOutput) bind(f *pflag.FlagSet) {
	f.VarP((*fileName)(&o.path), "output", "o", "write the secret to this `file`, which only its owner can read; - is standard output")
	f.BoolVar(&o.force, "force", false, "replace the file that --output names")
	bindJSON(f, &o.asJSON, "print a JSON object, which has the secret unless --output names a file")
}

// mint makes the secret of a token, has save store the token, and writes the secret to out. A file appears, or is
// replaced, when the token is stored.
func (p *program) mint(ctx context.Context, t auth.Token, out *secretOutput, save func(auth.Token) (auth.Token, error)) (err error) {
	secret := auth.Mint()
	t.Hash, t.Prefix = auth.HashOf(secret), auth.PrefixOf(secret)
	var file *output
	if out.path != "" && out.path != streamArg {
		if file, err = createOutput(ctx, out.path, out.force); err != nil {
			return fmt.Errorf("output: %s: %w", out.path, err)
		}
		defer func() { err = errors.Join(err, file.Discard()) }()
		if _, err := fmt.Fprintln(file, secret); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	}
	if t, err = save(t); err != nil {
		return err
	}
	if err := p.handOver(t, secret, file, out); err != nil {
		return fmt.Errorf("the secret of token %d is lost, revoke the token: %w", t.ID, err)
	}
	return nil
}

// handOver gives the user the secret of a token that is stored: by file, if there is one, else on standard output.
func (p *program) handOver(t auth.Token, secret string, file *output, out *secretOutput) error {
	facts := createdFacts{tokenFacts: newTokenFacts(t, stateValid), Secret: secret, OldID: out.oldID}
	if out.oldID != 0 {
		facts.OldEndsAt = out.oldEnds.UTC()
	}
	where := "the secret is shown only now:"
	if file != nil {
		facts.Secret, facts.File = "", out.path
		where = "the secret goes to " + out.path
	}
	if !out.asJSON {
		fmt.Fprintf(p.stderr, "created token %d, %q (%s; expires: %s); %s\n", t.ID, t.Name, t.Scopes, formatTime(t.ExpiresAt), where)
	}
	if file != nil {
		if err := file.Publish(); err != nil {
			return err
		}
	}
	if out.asJSON {
		return writeJSON(p.stdout, facts)
	}
	if file != nil {
		return nil
	}
	_, err := fmt.Fprintln(p.stdout, secret)
	return err
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

// checkNewName keeps the names of new tokens to characters that need no quotes in a shell or a log line, and of which
// none is invisible. Older tokens may have other names.
func checkNewName(name string) error {
	const runesMax = 64
	if err := refuseSecret(name); err != nil {
		return err
	}
	good := name != "" && utf8.RuneCountInString(name) <= runesMax
	for i, r := range name {
		word := unicode.In(r, unicode.L, unicode.Nd) || i > 0 && unicode.Is(unicode.M, r)
		invisible := unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
		good = good && !invisible && (word || i > 0 && strings.ContainsRune("._-@:/+", r))
	}
	if !good {
		return usagef("name: %q is not a name for a token: give 1 to %d letters, digits and ._-@:/+, a letter or digit first", name, runesMax)
	}
	return nil
}
