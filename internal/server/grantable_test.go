package server_test

import (
	"strings"
	"testing"

	"plantstore/internal/auth"
	"plantstore/internal/server"
)

// A new token can have exactly the scopes that routes require.
func TestGrantable(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.pprof, s.api = true, true })
	public, err := server.PublicRoutes(h.config)
	if err != nil {
		t.Fatal(err)
	}
	var required auth.Scopes
	for _, route := range append(public, server.AdminRoutes(h.config)...) {
		for one := range strings.SplitSeq(route.Scope, " or ") {
			required |= scopesOf(t, one)
		}
		required |= scopesOf(t, route.Verbose)
	}
	if auth.Grantable != required {
		t.Errorf("new tokens can have %q, routes require %q", auth.Grantable, required)
	}
}
