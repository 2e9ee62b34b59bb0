package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"plantstore/internal/auth"
	"plantstore/internal/console"
	"plantstore/internal/serve"
	"plantstore/internal/terminal"
)

// curlCreate returns a command that creates a plant with the secret of a token.
func curlCreate(at serve.Addresses, secret string) string {
	return fmt.Sprintf(`curl -i %s \
  -H 'Authorization: Bearer %s' \
  -H 'Content-Type: application/json' \
  -d '{"id": 1, "name": "Rosa canina", "tag": "shrub"}'`, at.Public.JoinPath("plants"), secret)
}

// greet creates the first tokens of a store and prints them on a terminal. Elsewhere it creates none, because their
// secrets would be lost, or written to a file or a log that the operator did not choose for them. For a store with
// tokens it prints the addresses.
func (p *program) greet(ctx context.Context, engine serve.Engine, at serve.Addresses) error {
	if _, onTerminal := terminal.IsTerminal(p.Stdout); !onTerminal {
		tokens, err := engine.Tokens(ctx)
		if err == nil && len(tokens) == 0 {
			p.log.Warn("the store has no token; create one with plantstore token create")
		}
		return err
	}
	text, tokens := p.firstTokens(at)
	created, err := engine.CreateFirstTokens(ctx, tokens, p.operator())
	if err != nil {
		return err
	}
	if !created {
		text = fmt.Sprintf("Console:         %s\nA sign-in link:  %s console\nA new token:     %[2]s token create NAME\n"+
			"API document:    %[3]s\n\n", at.Console, os.Args[0], at.Public.JoinPath("docs"))
	}
	if _, err := io.WriteString(terminal.InterruptibleWriter(ctx, p.Stdout), text); err != nil {
		return fmt.Errorf("print the first tokens or the addresses: %w; create tokens with plantstore token create", err)
	}
	return nil
}

// firstTokens returns the first tokens, and a text with their secrets and with commands that use them.
func (p *program) firstTokens(at serve.Addresses) (string, []auth.Token) {
	const shown = "Token %q %s:\n\n%s\n\n%s\n\n"
	var text strings.Builder
	text.WriteString("The store has no token. The first ones expire in 90 days and are not shown again.\n\n")
	signIn, code := console.NewCode("")
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
