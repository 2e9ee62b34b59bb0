package server_test

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
)

// TestMetrics sends one request of each kind and checks the counts in /metrics.
func TestMetrics(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, body := range []string{
		`{"id":1,"name":"A"}`, `{"id":1,"name":"A"}`, `{"id":1,"name":"B"}`, `{"id":2,"name":"C"}`, `{}`,
	} {
		h.send(post(body))
	}
	h.send(message("GET /nowhere/"+strings.Repeat("x", 50)+" HTTP/1.1", ""))
	page := h.page(t, "/metrics")
	for _, want := range []string{
		"plantstore_plants_created_total 2",
		"plantstore_plants_replayed_total 1",
		`plantstore_http_requests_total{listener="public",route="/plants",status="200"} 3`,
		`plantstore_http_requests_total{listener="public",route="/plants",status="400"} 2`,
		`plantstore_http_requests_total{listener="public",route="/plants",status="500"} 0`,
		`plantstore_http_requests_total{listener="public",route="/plants",status="503"} 0`,
		`plantstore_http_requests_total{listener="public",route="none",status="404"} 1`,
		`plantstore_http_request_duration_seconds_count{listener="public",route="/plants"} 5`,
		`plantstore_http_requests_in_flight{listener="public"} 0`,
		`plantstore_http_requests_in_flight{listener="admin"} 1`,
		`plantstore_http_errors_total{error="40041",name="exists-with-different-name"} 1`,
		`plantstore_http_errors_total{error="40011",name="id-missing"} 1`,
		`plantstore_http_errors_total{error="40401",name="not-found"} 1`,
		`plantstore_http_errors_total{error="50301",name="queue-full"} 0`,
		"plantstore_commit_plants_sum 4",
		"plantstore_commit_duration_seconds_count 4",
		"plantstore_queue_wait_seconds_count 4",
		"plantstore_commits_failed_total 0",
		"plantstore_queue_plants 0",
		"plantstore_checkpoint_duration_seconds_count 0",
		"plantstore_store_bytes ",
		"plantstore_wal_bytes ",
		"plantstore_wal_max_bytes 6.7108864e+07",
		"plantstore_store_disk_free_bytes ",
		`plantstore_connections_open{listener="public"} `,
		`plantstore_connections_open{listener="admin"} 1`,
		`plantstore_connections_refused_total{listener="public",reason="connections"} 0`,
		"plantstore_credentials_expiring 0",
	} {
		if !strings.Contains(page, "\n"+want) {
			t.Errorf("no line %q", want)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
	if strings.Contains(page, "nowhere") {
		t.Error("the path of a client is in a label")
	}
}

// A request with an unsupported method counts for the route of its path. Static files and profiles have no histogram.
func TestMetricRoutes(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.pprof = true })
	for _, request := range []string{
		"DELETE /plants", "GET /plants", "GET /docs", "PUT /docs", "GET /openapi.json", "GET /healthz", "GET /nothing",
	} {
		h.send(message(request+" HTTP/1.1", ""))
	}
	h.sendTo(h.admin, message("PUT /metrics HTTP/1.1", ""))
	h.sendTo(h.admin, message("GET /debug/pprof/cmdline HTTP/1.1", ""))
	page := h.page(t, "/metrics")
	for _, want := range []string{
		`plantstore_http_requests_total{listener="public",route="/plants",status="405"} 2`,
		`plantstore_http_requests_total{listener="public",route="/docs",status="200"} 1`,
		`plantstore_http_requests_total{listener="public",route="/docs",status="405"} 1`,
		`plantstore_http_requests_total{listener="public",route="none",status="404"} 1`,
		`plantstore_http_requests_total{listener="admin",route="/metrics",status="405"} 1`,
		`plantstore_http_requests_total{listener="admin",route="/debug/pprof/cmdline",status="200"} 1`,
	} {
		if !strings.Contains(page, "\n"+want+"\n") {
			t.Errorf("no line %q", want)
		}
	}
	timed := map[string]bool{}
	counts := regexp.MustCompile(`(?m)^plantstore_http_request_duration_seconds_count(.*) \d+$`)
	for _, match := range counts.FindAllStringSubmatch(page, -1) {
		timed[match[1]] = true
	}
	want := map[string]bool{
		`{listener="public",route="/plants"}`: true, `{listener="public",route="/healthz"}`: true,
		`{listener="public",route="none"}`:  true,
		`{listener="admin",route="/livez"}`: true, `{listener="admin",route="/readyz"}`: true,
		`{listener="admin",route="/metrics"}`: true, `{listener="admin",route="none"}`: true,
	}
	if diff := cmp.Diff(want, timed); diff != "" {
		t.Errorf("histograms (-want +got):\n%s\n%s", diff, page)
	}
}

// The gauges of the store have the last values of the watcher, so that a scrape does not wait for a hanging engine.
func TestStoreGauges(t *testing.T) {
	t.Parallel()
	now := time.Now()
	h, f := startFaulty(t, func(s *setup) {
		s.seed = func(e *sqlite.Engine) {
			for name, ends := range map[string]time.Time{
				"in 2 days": now.Add(48 * time.Hour), "in 6 days": now.Add(6*24*time.Hour + 23*time.Hour),
				"in 8 days": now.Add(8 * 24 * time.Hour), "ended": now.Add(-time.Hour),
			} {
				mint(t, e, auth.Token{Name: name, Scopes: auth.ScopeCreate, ExpiresAt: ends})
			}
			mint(t, e, auth.Token{Name: "revoked", Scopes: auth.ScopeCreate, ExpiresAt: now.Add(24 * time.Hour)})
			if _, err := e.RevokeTokens(t.Context(), store.Selector{Name: "revoked"}, now, audit.Origin{}); err != nil {
				t.Fatal(err)
			}
		}
	})
	h.send(post(`{"id":1,"name":"A"}`))
	h.send(post(`{"id":2,"name":"A"}`))
	h.until(t, func() bool { return strings.Contains(h.page(t, "/metrics"), "\nplantstore_plants 2\n") })
	hangs := func(ctx context.Context) (store.State, error) {
		<-ctx.Done()
		return store.State{}, ctx.Err()
	}
	f.state.Store(&hangs)
	page := h.page(t, "/metrics")
	for _, want := range []string{"plantstore_plants 2", "plantstore_credentials_expiring 2"} {
		if !strings.Contains(page, "\n"+want+"\n") {
			t.Errorf("no line %q in\n%s", want, page)
		}
	}
	unknown := func(context.Context) (store.State, error) { return store.State{Plants: -1}, nil }
	f.state.Store(&unknown)
	h.until(t, func() bool { return strings.Contains(h.page(t, "/metrics"), "\nplantstore_plants NaN\n") })
}

// The server authenticates a scrape even while the engine is unreachable. Other requests receive 503, because a token
// may have been revoked.
func TestMetricsWhileTheStoreIsUnreachable(t *testing.T) {
	t.Parallel()
	h, f := startFaulty(t, func(s *setup) { s.pprof = true })
	fails := func(context.Context) (store.State, error) { return store.State{}, errors.New("unreachable") }
	f.state.Store(&fails)
	h.until(t, func() bool { return h.get(t, "/readyz").Status == http.StatusServiceUnavailable })
	if got := h.get(t, "/metrics").Status; got != http.StatusOK {
		t.Errorf("/metrics: got %d, want 200", got)
	}
	for _, raw := range []string{
		message("GET /debug/pprof/cmdline HTTP/1.1", ""),
		message("GET /metrics HTTP/1.1", "", "Authorization: Bearer "+auth.Mint()),
	} {
		if a := h.sendTo(h.admin, raw); a.code(t) != plant.CodeStoreUnavailable {
			t.Errorf("%.30s: got %+v, want %d", raw, a, plant.CodeStoreUnavailable)
		}
	}
	a := h.sendTo(h.admin, message("GET /metrics HTTP/1.1", "", "Authorization: Bearer "+h.token))
	same(t, a, refused(40301, "the credential lacks the scope metrics",
		"WWW-Authenticate", challengeNone+`, error="insufficient_scope", scope="metrics"`))
}

// plantstore_connections_open counts each connection once, until it is closed.
func TestOpenConnections(t *testing.T) {
	t.Parallel()
	h := start(t)
	open := func(n string) {
		t.Helper()
		h.until(t, func() bool {
			return strings.Contains(h.page(t, "/metrics"), "\nplantstore_connections_open{listener=\"public\"} "+n+"\n")
		})
	}
	open("0")
	first, second := h.dial(t, h.public), h.dial(t, h.public)
	open("2")
	first.write(h.fill(post(`{"id":1,"name":"A"}`)))
	same(t, first.read("POST"), created(`{"name":"A"}`))
	_ = first.Close()
	open("1")
	second.write("x\r\n\r\n") // net/http closes it
	second.read("GET")
	open("0")
}

// TestMetricNames checks the names by the conventions of Prometheus.
func TestMetricNames(t *testing.T) {
	t.Parallel()
	h := start(t)
	problems, err := testutil.GatherAndLint(h.config.Metrics)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if prometheus.DefaultRegisterer == prometheus.Registerer(h.config.Metrics) {
		t.Error("the server uses the default registry")
	}
}

// until repeats a condition, which itself takes time, until it holds.
func (h *harness) until(t *testing.T, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(wait); !condition(); {
		if time.Now().After(deadline) {
			t.Fatalf("the condition did not hold within %s", wait)
		}
	}
}

// page returns the page at a path of the admin listener.
func (h *harness) page(t *testing.T, path string) string {
	t.Helper()
	a := h.get(t, path)
	if a.Status != http.StatusOK {
		t.Fatalf("%s: got %+v", path, a)
	}
	return a.Body
}
