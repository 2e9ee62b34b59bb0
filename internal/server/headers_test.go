package server_test

import (
	"slices"
	"strings"
	"testing"

	"plantstore/internal/server"
)

// Every response of the handlers has the headers for browsers, and no cache stores it except the files of the API
// document, which are public.
func TestHeadersForBrowsers(t *testing.T) { overBoth(t, testHeadersForBrowsers) }

func testHeadersForBrowsers(t *testing.T, over func(*setup)) {
	h := start(t, over, func(s *setup) { s.pprof, s.origins = true, []string{ours} })
	public, err := server.PublicRoutes(h.config)
	if err != nil {
		t.Fatal(err)
	}
	for address, routes := range map[string][]server.RouteInfo{h.public: public, h.admin: server.AdminRoutes(h.config)} {
		requests := []string{
			post(bodyA), post(bodyA, "-Authorization"), post(bodyA, "Authorization: Bearer x"), post("{"),
			preflight("/plants", ours),
			message("GET /nothing HTTP/1.1", ""), message("TRACE /healthz HTTP/1.1", ""), message("GET / HTTP/1.0", ""),
			message("GET /livez HTTP/1.1", "", "Host: evil.example"),
		}
		for _, r := range routes {
			if r.Path != "/debug/pprof/profile" && r.Path != "/debug/pprof/trace" { // TestTimedProfiles records them
				requests = append(requests, message(r.Method+" "+r.Path+" HTTP/1.1", ""))
			}
		}
		for _, raw := range requests {
			a := h.sendTo(address, raw)
			line, _, _ := strings.Cut(raw, "\r\n")
			policy := strings.Split(a.Header.Get("Content-Security-Policy"), "; ")
			for _, directive := range []string{"default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"} {
				if !slices.Contains(policy, directive) {
					t.Errorf("%s: %d: got the policy %q, want %s", line, a.Status, policy, directive)
				}
			}
			cache := "no-store"
			if a.Status == 200 && (strings.Contains(line, " /docs") || strings.Contains(line, " /openapi.")) {
				cache = "no-cache"
			}
			for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": cache} {
				if got := a.Header.Values(name); !slices.Equal(got, []string{want}) {
					t.Errorf("%s: %d: %s: got %q, want %q", line, a.Status, name, got, want)
				}
			}
		}
	}
}
