package server

import (
	"net/url"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/auth"
)

// A new token can have exactly the scopes that routes require.
func TestGrantable(t *testing.T) {
	t.Parallel()
	c := Config{BaseURL: &url.URL{Scheme: "http", Host: "localhost"}, Metrics: prometheus.NewRegistry(), Pprof: true}
	public, err := publicRoutes(c)
	if err != nil {
		t.Fatal(err)
	}
	var required auth.Scopes
	for _, rs := range []routes{public, adminRoutes(c)} {
		for _, resource := range rs {
			for _, r := range resource.byMethod {
				required |= r.scope | r.verbose
			}
		}
	}
	if auth.Grantable != required {
		t.Errorf("new tokens can have %q, routes require %q", auth.Grantable, required)
	}
}
