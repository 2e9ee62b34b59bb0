package server

import (
	"net/url"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/auth"
)

// What a new token may be allowed is what the routes need.
func TestGrantable(t *testing.T) {
	t.Parallel()
	c := Config{BaseURL: &url.URL{Scheme: "http", Host: "localhost"}, Metrics: prometheus.NewRegistry(), Pprof: true}
	public, err := publicRoutes(c)
	if err != nil {
		t.Fatal(err)
	}
	var needed auth.Scopes
	for _, rs := range []routes{public, adminRoutes(c)} {
		for _, resource := range rs {
			for _, r := range resource.byMethod {
				needed |= r.scope
			}
		}
	}
	if auth.Grantable != needed {
		t.Errorf("new tokens can have %q, and routes need %q", auth.Grantable, needed)
	}
}
