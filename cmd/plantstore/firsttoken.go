package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/console"
	"plantstore/internal/serve"
	"plantstore/internal/terminal"
)

const firstTokensTimeMax = 2 * time.Second // to print them

// curlCreate returns a command that creates a plant with the secret of a token.
func curlCreate(at serve.Addresses, secret string) string {
	return fmt.Sprintf(`curl -i %s \
  -H 'Authorization: Bearer %s' \
  -H 'Content-Type: application/json' \
  -d '{"id": 1, "name": "Rosa canina", "tag": "shrub"}'`, at.Public.JoinPath("plants"), secret)
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
	const shown = "Token %q %s:\n\n%s\n\n%s\n\n"
	var text strings.Builder
	text.WriteString("The store has no token. The first ones do not expire and are not shown again.\n\n")
	signIn, code := console.NewCode()
	fmt.Fprintf(&text, "Console: this link signs in once, within 15 minutes; "+
		"plantstore console prints another one:\n\n%s\n\n", signInLink(at.Console, code))
	creator, secret := auth.NewToken("first", auth.ScopeCreate, 0)
	fmt.Fprintf(&text, shown, creator.Name, "creates plants", secret, curlCreate(at, secret))
	tokens := []auth.Token{creator}
	if !p.settings.Admin.Open {
		reader, secret := auth.NewToken("first-admin", auth.ScopeAdmin|auth.ScopeMetrics|auth.ScopeRead, 0)
		fmt.Fprintf(&text, shown, reader.Name, "reads the plants, metrics and profiles on the admin listener", secret,
			fmt.Sprintf("curl %s/metrics \\\n  -H 'Authorization: Bearer %s'", at.Admin, secret))
		tokens = append(tokens, reader)
	}
	if created, err := engine.CreateFirstTokens(ctx, append(tokens, signIn), p.operator()); err != nil || !created {
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
	switch {
	case errors.Is(err, terminal.ErrInterrupted):
		p.log.Warn("could not print the first tokens: standard output is blocked; create others with plantstore token create")
		return nil
	case err != nil:
		return fmt.Errorf("print the first tokens: %w; create others with plantstore token create", err)
	}
	return nil
}
