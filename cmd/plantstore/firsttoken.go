package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/console"
	"plantstore/internal/serve"
	"plantstore/internal/terminal"
)

const firstTokensTimeMax = 2 * time.Second // to print them

// firstToken is a token that serve creates in a store without a token.
type firstToken struct {
	name    string
	scopes  auth.Scopes
	use     string   // completes "Token NAME …"
	request []string // a command that uses the token: arguments of curl, without the credential as the second one
}

// firstCreator returns the token that creates plants.
func firstCreator(at serve.Addresses) firstToken {
	return firstToken{
		"first", auth.ScopeCreate, "creates plants", []string{
			"-i " + strings.TrimRight(at.Public.String(), "/") + "/plants",
			"-H 'Content-Type: application/json'", `-d '{"id": 1, "name": "Rosa canina", "tag": "shrub"}'`,
		},
	}
}

// curl returns the command that uses the token.
func (f *firstToken) curl(secret string) string {
	request := slices.Insert(slices.Clone(f.request), 1, "-H 'Authorization: Bearer "+secret+"'")
	return "curl " + strings.Join(request, " \\\n  ")
}

// firstTokens creates the first tokens of a store, and prints them with commands that use them. It creates none if
// their secrets would be written to a file or a log that the operator did not choose for them.
func (p *program) firstTokens(ctx context.Context, engine serve.Engine, at serve.Addresses) error {
	if _, ok := terminal.IsTerminal(p.Stdout); !ok && !p.settings.Admin.PrintTokens {
		tokens, err := engine.Tokens(ctx)
		if err == nil && len(tokens) == 0 {
			p.log.Warn("the store has no token; create one with plantstore token create, " +
				"or use --print-tokens to print the first ones")
		}
		return err
	}
	list := []firstToken{firstCreator(at)}
	if !p.settings.Admin.Open {
		list = append(list, firstToken{
			"first-admin", auth.ScopeAdmin | auth.ScopeMetrics | auth.ScopeRead,
			"reads the plants, metrics and profiles on the admin listener",
			[]string{at.Admin.String() + "/metrics"},
		})
	}
	return p.createFirst(ctx, engine, list, at.Console)
}

// createFirst creates the tokens, and a sign-in code for the console.
func (p *program) createFirst(
	ctx context.Context, engine serve.Engine, list []firstToken, at *url.URL,
) error {
	var text strings.Builder
	text.WriteString("The store has no token. The first ones do not expire and are not shown again.\n\n")
	t, code := console.NewCode()
	fmt.Fprintf(&text, "Console: this link signs in once, within 15 minutes; "+
		"plantstore console prints another one:\n\n%s\n\n", signInLink(at, code))
	var tokens []auth.Token
	for _, first := range list {
		minted, secret := auth.NewToken(first.name, first.scopes, 0)
		tokens = append(tokens, minted)
		fmt.Fprintf(&text, "Token %q %s:\n\n%s\n\n%s\n\n", first.name, first.use, secret, first.curl(secret))
	}
	tokens = append(tokens, t)
	if created, err := engine.CreateFirstTokens(ctx, tokens, p.operator()); err != nil || !created {
		return err
	}
	return p.printFirst(ctx, text.String())
}

// printFirst writes the text with the first tokens to standard output. The server starts even if the reader of
// standard output is blocked.
func (p *program) printFirst(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, firstTokensTimeMax)
	defer cancel()
	_, err := io.WriteString(terminal.InterruptibleWriter(ctx, p.Stdout), text)
	if err == nil {
		return nil
	}
	if !errors.Is(err, terminal.ErrInterrupted) {
		return fmt.Errorf("print the first tokens: %w; create others with plantstore token create", err)
	}
	p.log.Warn("could not print the first tokens: standard output is blocked; create others with plantstore token create")
	return nil
}
