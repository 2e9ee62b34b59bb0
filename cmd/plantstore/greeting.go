package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/console"
	"plantstore/internal/serve"
	"plantstore/internal/terminal"
)

const greetingTimeMax = 2 * time.Second // to print it

// curlCreate returns a command that creates a plant with the secret of a token.
func curlCreate(at serve.Addresses, secret string) string {
	return fmt.Sprintf(`curl -i %s \
  -H 'Authorization: Bearer %s' \
  -H 'Content-Type: application/json' \
  -d '{"id": 1, "name": "Rosa canina", "tag": "shrub"}'`, at.Public.JoinPath("plants"), secret)
}

// greet creates the first tokens of a store and prints them. It creates none if their secrets would be lost, or written
// to a file or a log that the operator did not choose for them. On a terminal it prints the addresses of any other
// store.
func (p *program) greet(ctx context.Context, engine serve.Engine, at serve.Addresses) error {
	_, onTerminal := terminal.IsTerminal(p.Stdout)
	if !onTerminal && (!p.settings.PrintTokens || terminal.Discards(p.Stdout)) {
		tokens, err := engine.Tokens(ctx)
		if err == nil && len(tokens) == 0 {
			p.log.Warn("the store has no token; create one with plantstore token create, " +
				"or use --print-tokens to print the first ones")
		}
		return err
	}
	text, tokens := p.firstTokens(at)
	created, err := engine.CreateFirstTokens(ctx, tokens, p.operator())
	switch {
	case err != nil || !created && !onTerminal:
		return err
	case !created:
		text = fmt.Sprintf("Console:         %s\nA sign-in link:  %s console\nA new token:     %[2]s token create NAME\n"+
			"API document:    %[3]s\n\n", at.Console, os.Args[0], at.Public.JoinPath("docs"))
	}
	return p.printGreeting(ctx, text)
}

// firstTokens returns the first tokens, and a text with their secrets and with commands that use them.
func (p *program) firstTokens(at serve.Addresses) (string, []auth.Token) {
	const shown = "Token %q %s:\n\n%s\n\n%s\n\n"
	var text strings.Builder
	text.WriteString("The store has no token. The first ones expire in 90 days and are not shown again.\n\n")
	signIn, code := console.NewCode()
	fmt.Fprintf(&text, "Console: this link signs in once, within 15 minutes; %s console prints another one:\n\n%s\n\n",
		os.Args[0], signInLink(at.Console, code))
	creator, secret := auth.NewToken("first", auth.ScopeCreate, auth.DefaultLifetime)
	fmt.Fprintf(&text, shown, creator.Name, "creates plants", secret, curlCreate(at, secret))
	scopes := auth.ScopeAdmin | auth.ScopeMetrics | auth.ScopeRead
	reader, secret := auth.NewToken("first-admin", scopes, auth.DefaultLifetime)
	fmt.Fprintf(&text, shown, reader.Name, "reads the plants, metrics and profiles on the admin listener", secret,
		fmt.Sprintf("curl %s/metrics \\\n  -H 'Authorization: Bearer %s'", at.Admin, secret))
	return text.String(), []auth.Token{creator, reader, signIn}
}

// printGreeting writes the text to standard output. The server starts even if the reader of standard output is blocked.
func (p *program) printGreeting(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, greetingTimeMax)
	defer cancel()
	_, err := io.WriteString(terminal.InterruptibleWriter(ctx, p.Stdout), text)
	switch {
	case errors.Is(err, terminal.ErrInterrupted):
		p.log.Warn("could not print the first tokens or the addresses: standard output is blocked; " +
			"create tokens with plantstore token create")
		return nil
	case err != nil:
		return fmt.Errorf("print the first tokens or the addresses: %w; create tokens with plantstore token create", err)
	}
	return nil
}
