package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/store"
)

const (
	firstTokenName    = "first"
	firstTokenTimeMax = 2 * time.Second // to print it
)

// firstToken creates the first token of a new store, and prints it with a command that uses it.
func (p *program) firstToken(ctx context.Context, engine store.Engine, base *url.URL, log *slog.Logger) error {
	secret := auth.Mint()
	created, err := engine.CreateFirstToken(ctx, auth.Token{
		Name:      firstTokenName,
		Hash:      auth.HashOf(secret),
		Prefix:    auth.PrefixOf(secret),
		Scopes:    auth.ScopeCreate,
		CreatedAt: time.Now(),
	}, p.operator())
	if err != nil || !created {
		return err
	}
	text := fmt.Sprintf(`The store has no token. This is its first one. It does not expire and is not shown again:

%s

Create a plant:

curl -i %s/plants \
  -H 'Authorization: Bearer %s' \
  -H 'Content-Type: application/json' \
  -d '{"id": 1, "name": "Rosa canina", "tag": "shrub"}'

`, secret, strings.TrimRight(base.String(), "/"), secret)
	printed := make(chan error, 1)
	go func() { // ends with the write, or with the process
		_, err := io.WriteString(p.stdout, text)
		printed <- err
	}()
	select {
	case err = <-printed:
		if err != nil {
			return fmt.Errorf("print the first token: %w; create another with plantstore token create", err)
		}
		return nil
	case <-ctx.Done():
	case <-time.After(firstTokenTimeMax):
	}
	log.Warn("could not print the first token: standard output is blocked; create another with plantstore token create")
	return nil
}
