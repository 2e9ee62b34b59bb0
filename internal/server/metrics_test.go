package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestMetrics sends one request of each kind and reads the counts off /metrics.
func TestMetrics(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, body := range []string{`{"id":1,"name":"A"}`, `{"id":1,"name":"A"}`, `{"id":1,"name":"B"}`, `{"id":2,"name":"C"}`, `{}`} {
		h.send(post(body))
	}
	h.send(message("GET /nowhere/"+strings.Repeat("x", 50)+" HTTP/1.1", ""))
	page := h.page(t, "/metrics")
	for _, want := range []string{
		"plantstore_plants_created_total 2",
		"plantstore_plants_replayed_total 1",
		`plantstore_http_requests_total{door="public",route="/plants",status="200"} 3`,
		`plantstore_http_requests_total{door="public",route="/plants",status="400"} 2`,
		`plantstore_http_requests_total{door="public",route="none",status="404"} 1`,
		`plantstore_http_request_duration_seconds_count{door="public",route="/plants"} 5`,
		`plantstore_http_requests_in_flight{door="public"} 0`,
		`plantstore_http_requests_in_flight{door="admin"} 1`,
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
	} {
		if !strings.Contains(page, "\n"+want) {
			t.Errorf("no line %q", want)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
	if strings.Contains(page, "nowhere") {
		t.Error("a client's path is in a label")
	}
}

// TestMetricNames holds the names against Prometheus' conventions.
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
	if _, ok := any(h.config.Metrics).(*prometheus.Registry); !ok || prometheus.DefaultRegisterer == prometheus.Registerer(h.config.Metrics) {
		t.Error("the registry is not the server's own")
	}
}

// page returns what the admin door serves at a path.
func (h *harness) page(t *testing.T, path string) string {
	t.Helper()
	a := h.get(t, path)
	if a.Status != http.StatusOK {
		t.Fatalf("%s: got %+v", path, a)
	}
	return a.Body
}
