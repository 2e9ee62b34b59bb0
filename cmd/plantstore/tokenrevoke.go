package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"plantstore/internal/auth"
	"plantstore/internal/store"
)

func newTokenRevoke(p *program) *cobra.Command {
	s := &settings{}
	var file string
	var id int64
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "revoke NAME | --id ID | --token-file FILE",
		Short: "Revoke a token at once",
		Long: `Revoke all tokens of a name at once, rotated ones included. With --id revoke the
one token with this id in "plantstore token list".

With --token-file, or with the secret in PLANTSTORE_TOKEN, revoke the one token
of this secret, such as a leaked one. A secret cannot be an argument, because
other users can read arguments in the list of processes.`,
		Example: `  plantstore token revoke web-shop
  plantstore token revoke --id 7
  plantstore token revoke --token-file found.token`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			which, err := p.selector(cmd, args, id, file)
			if err != nil {
				return err
			}
			return p.withStore(cmd, s, engineOptions{mustExist: true}, func(ctx context.Context, engine store.Engine) error {
				revoked, err := engine.RevokeTokens(ctx, which, time.Now(), p.operator())
				if errors.Is(err, store.ErrNotFound) {
					return errors.New("no such token, or it is already revoked; see plantstore token list")
				}
				slices.SortFunc(revoked, func(a, b auth.Token) int { return cmp.Compare(a.ID, b.ID) })
				for _, t := range revoked {
					if asJSON {
						if err := writeJSON(p.stdout, newTokenFacts(t, stateRevoked)); err != nil {
							return err
						}
						continue
					}
					fmt.Fprintf(p.stderr, "revoked token %d, %q; a server refuses it within a second\n", t.ID, t.Name)
				}
				return err
			})
		},
	}
	cmd.ValidArgsFunction = p.completeTokens(s, func(t auth.Token) bool { return !t.Revoked() })
	s.bindStore(cmd.Flags())
	bindJSON(cmd.Flags(), &asJSON, "print one JSON object per revoked token and line")
	cmd.Flags().Int64Var(&id, "id", 0, "revoke the token with this `id`")
	cmd.Flags().StringVar(&file, "token-file", "", "read the secret from this `file`; - is standard input")
	return cmd
}

// selector returns the selector of the tokens to revoke.
func (p *program) selector(cmd *cobra.Command, args []string, id int64, file string) (store.Selector, error) {
	secret := p.environ[tokenVariable]
	byID, byFile := cmd.Flags().Changed("id"), cmd.Flags().Changed("token-file")
	switch {
	case byID && byFile || len(args) == 1 && (byID || byFile):
		return store.Selector{}, usagef("give only one of a name, --id and --token-file")
	case len(args) == 1 && args[0] == "":
		return store.Selector{}, usagef("the name is empty; give the name of a token, --id or --token-file")
	case len(args) == 1:
		return store.Selector{Name: args[0]}, refuseSecret(args[0])
	case byID && id < 1:
		return store.Selector{}, usagef("id: %d is out of range; see plantstore token list", id)
	case byID:
		return store.Selector{ID: id}, nil
	case byFile:
		var err error
		if secret, err = p.readToken(cmd.Context(), file); err != nil {
			return store.Selector{}, err
		}
	case secret == "":
		return store.Selector{}, usagef("no token given; give its name, its --id, or its secret with --token-file")
	}
	secret = strings.TrimSpace(secret)
	if !auth.WellFormed(secret) {
		return store.Selector{}, errors.New("the secret is incomplete; a secret begins with pst_ and has 53 characters")
	}
	return store.Selector{Hash: auth.HashOf(secret)}, nil
}

// readToken reads the first line of a file, or of standard input.
func (p *program) readToken(ctx context.Context, file string) (string, error) {
	const bytesMax = 4 << 10
	from := interruptible(ctx, p.stdin)
	if file != streamArg {
		f, err := openInput(ctx, file)
		if err != nil {
			return "", err
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o077 != 0 {
			fmt.Fprintf(p.stderr, "warning: other users can read %s (mode %04o); run chmod 600 on it\n",
				file, info.Mode().Perm())
		}
		from = interruptible(ctx, f)
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
