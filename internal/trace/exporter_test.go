package trace_test

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"plantstore/internal/trace/tracetest"
)

// hangUp closes the connection of a request without a response.
func hangUp(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	_ = conn.Close()
}

// TestCollectorReturns exports spans to a collector that does not respond at first.
func TestCollectorReturns(t *testing.T) {
	c := tracetest.Start(t)
	c.Answer(http.HandlerFunc(hangUp))
	tr := start(t, c.URL)
	tr.Request(nil, time.Now()).End()
	c.WaitRequests(t, 1)
	c.Answer(nil)
	c.Wait(t, func(s []tracetest.Span) bool { return len(s) == 1 })
	tr.Close(t.Context())
	tr.counts(t, map[string]int{"ended": 1, "exported": 1})
	log := tr.log.String()
	if strings.Count(log, "traces are not exported") != 1 || !strings.Contains(log, "exported again") {
		t.Errorf("got the log\n%s", log)
	}
}

// TestRefused lets the collector refuse spans with a text, which must not reach the log.
func TestRefused(t *testing.T) {
	const canary = "canary4711"
	c := tracetest.Start(t)
	c.Answer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, canary+" OTLP partial success: no (0 spans rejected)", http.StatusBadRequest)
	}))
	tr := start(t, c.URL, "OTEL_EXPORTER_OTLP_HEADERS", "x-secret="+canary)
	tr.Request(nil, time.Now()).End()
	c.WaitRequests(t, 1)
	tr.Close(t.Context())
	tr.counts(t, map[string]int{"ended": 1, "failed": 1})
	if log := tr.log.String(); !strings.Contains(log, ": 400\"") || strings.Contains(log, canary) {
		t.Errorf("got the log\n%s", log)
	}
}

// TestSlowCollector fills the queue while the collector does not respond. No span waits, and Close ends with its
// context.
func TestSlowCollector(t *testing.T) {
	c := tracetest.Start(t)
	c.Answer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not notice the end of the connection
		<-r.Context().Done()
	}))
	tr := start(t, c.URL, "OTEL_BSP_MAX_QUEUE_SIZE", "10", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
	const spans = 50
	for range spans {
		tr.Request(nil, time.Now()).End()
	}
	c.WaitRequests(t, 1)
	tr.Close(canceled())
	tr.Request(nil, time.Now()).End() // after Close
	tr.Close(canceled())              // again
	if n := tr.count(t)["exported"]; n != 0 {
		t.Errorf("%d spans were exported", n)
	}
}

// TestCloseExports closes a tracer whose spans wait for others.
func TestCloseExports(t *testing.T) {
	c := tracetest.Start(t)
	tr := start(t, c.URL, "OTEL_BSP_SCHEDULE_DELAY", "60000", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
	for range 10 {
		tr.Request(nil, time.Now()).End()
	}
	tr.Close(t.Context())
	tr.counts(t, map[string]int{"ended": 10, "exported": 10})
	if n := len(c.Paths()); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
}

// TestExposedHeaders expects a warning about headers in clear text.
func TestExposedHeaders(t *testing.T) {
	for endpoint, want := range map[string]bool{
		"http://otel.example": true, "https://otel.example": false, "http://localhost:4318": false, "http://[::1]": false,
	} {
		tr := start(t, endpoint, "OTEL_EXPORTER_OTLP_HEADERS", "x=canary4711")
		tr.Close(t.Context())
		if log := tr.log.String(); strings.Contains(log, "clear text") != want || strings.Contains(log, "canary") {
			t.Errorf("%s: got the log\n%s", endpoint, log)
		}
	}
}

// TestPartialSuccess lets the collector accept spans with a warning, and reject some.
func TestPartialSuccess(t *testing.T) {
	const canary = "canary4711"
	for rejected, exported := range map[int64]int{0: 3, 1: 2, 1 << 62: 0} {
		body, err := proto.Marshal(&collector.ExportTraceServiceResponse{
			PartialSuccess: &collector.ExportTracePartialSuccess{RejectedSpans: rejected, ErrorMessage: canary},
		})
		if err != nil {
			t.Fatal(err)
		}
		c := tracetest.Start(t)
		c.Answer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write(body)
		}))
		tr := start(t, c.URL, "OTEL_BSP_SCHEDULE_DELAY", "60000") // one request: Close sends it
		for range 3 {
			tr.Request(nil, time.Now()).End()
		}
		tr.Close(t.Context())
		want := map[string]int{"ended": 3, "exported": exported, "failed": 3 - exported}
		maps.DeleteFunc(want, func(_ string, n int) bool { return n == 0 })
		tr.counts(t, want)
		if log := tr.log.String(); strings.Contains(log, canary) {
			t.Errorf("%d: got the log\n%s", rejected, log)
		}
	}
}

// TestRedirect lets the collector redirect to another server, which must not receive the headers.
func TestRedirect(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("the other server receives %s with the headers %v", r.Method, r.Header)
	}))
	defer other.Close()
	for _, status := range []int{http.StatusFound, http.StatusTemporaryRedirect} {
		c := tracetest.Start(t)
		c.Answer(http.RedirectHandler(other.URL, status))
		tr := start(t, c.URL, "OTEL_EXPORTER_OTLP_HEADERS", "api-key=canary4711", "OTEL_BSP_EXPORT_TIMEOUT", "600000")
		tr.Request(nil, time.Now()).End()
		c.WaitRequests(t, 1)
		for limit := time.Now().Add(time.Minute); tr.count(t)["failed"] == 0; { // it is not repeated
			if time.Now().After(limit) {
				t.Fatalf("%d: the spans are not dropped", status)
			}
		}
		tr.Close(t.Context())
		tr.counts(t, map[string]int{"ended": 1, "failed": 1})
	}
}

// TestInvalidResourceAttributes starts with attributes that are not all valid.
func TestInvalidResourceAttributes(t *testing.T) {
	c := tracetest.Start(t)
	tr := start(t, c.URL, "OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,,b=c")
	tr.Close(t.Context())
	if log := tr.log.String(); !strings.Contains(log, "OTEL_RESOURCE_ATTRIBUTES") {
		t.Errorf("got the log\n%s", log)
	}
}
