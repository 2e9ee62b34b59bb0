package server_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/store"
	"plantstore/internal/trace"
	"plantstore/internal/trace/tracetest"
	"plantstore/internal/writepath"
)

// startTraced starts a server whose requests are traced, and a collector.
func startTraced(t *testing.T, change ...func(*setup)) (*harness, *tracetest.Collector) {
	t.Helper()
	collector := tracetest.Start(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1") // spans wait for no others
	tracer, err := trace.New(nil, "1.0.0", slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		tracer.Close(ctx)
	})
	return start(t, append(change, func(s *setup) { s.tracer = tracer })...), collector
}

// hasRoots returns a condition: the collector has this number of spans without a local parent.
func hasRoots(n int) func([]tracetest.Span) bool {
	return func(spans []tracetest.Span) bool {
		roots := 0
		for _, s := range spans {
			if s.Parent == "" || s.RemoteParent {
				roots++
			}
		}
		return roots >= n
	}
}

// tree returns the names of a span's children below it, in the order of their starts, and the names of linked spans.
func tree(spans []tracetest.Span, root tracetest.Span, indent string) string {
	names := map[string]string{}
	for _, s := range spans {
		names[s.ID] = s.Name
	}
	var linked []string
	for _, id := range root.Links {
		linked = append(linked, names[id])
	}
	text := indent + root.Name
	if len(linked) > 0 {
		text += " -> " + strings.Join(linked, ", ")
	}
	if root.Failed {
		text += " (failed)"
	}
	text += "\n"
	children := slices.DeleteFunc(slices.Clone(spans), func(s tracetest.Span) bool { return s.Parent != root.ID })
	slices.SortStableFunc(children, func(a, b tracetest.Span) int { return a.Start.Compare(b.Start) })
	for _, s := range children {
		text += tree(spans, s, indent+"  ")
	}
	return text
}

// roots returns the spans without a local parent of a name.
func roots(spans []tracetest.Span, name string) []tracetest.Span {
	return slices.DeleteFunc(slices.Clone(spans), func(s tracetest.Span) bool {
		return s.Parent != "" && !s.RemoteParent || s.Name != name
	})
}

const (
	requestTree = "POST /plants\n  queue wait\n  commit wait -> commit\n"
	commitSteps = "  checkpoint if due\n  write ticket\n  BEGIN\n  statements\n  COMMIT\n"
)

// TestTraceOfCreate compares the spans of one create, its response and its log line.
func TestTraceOfCreate(t *testing.T) {
	h, collector := startTraced(t)
	const id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	a := h.send(post(`{"id":1,"name":"Rosa canina"}`, "+Traceparent: 00-"+id+"-"+parent+"-01", "+Tracestate: a=b"))
	spans := collector.Wait(t, hasRoots(2))
	requests, commits := roots(spans, "POST /plants"), roots(spans, "commit")
	if len(requests) != 1 || len(commits) != 1 {
		t.Fatalf("got the spans %+v", spans)
	}
	request, commit := requests[0], commits[0]
	if diff := cmp.Diff(requestTree, tree(spans, request, "")); diff != "" {
		t.Errorf("spans of the request (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("commit -> POST /plants\n"+commitSteps, tree(spans, commit, "")); diff != "" {
		t.Errorf("spans of the commit (-want +got):\n%s", diff)
	}
	if request.TraceID != id || request.Parent != parent || !request.RemoteParent || request.State != "a=b" {
		t.Errorf("the span does not continue the trace: %+v", request)
	}
	if commit.TraceID == id {
		t.Error("the commit is part of the trace of the request")
	}
	if diff := cmp.Diff(map[string]any{
		"http.request.method": "POST", "http.route": "/plants", "http.response.status_code": int64(200), "url.scheme": "http",
		"network.protocol.version": "1.1", "plantstore.listener": "public", "plantstore.request_id": sentID,
	}, request.Attributes); diff != "" {
		t.Errorf("attributes of the request (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"plantstore.commit.plants": int64(1)}, commit.Attributes); diff != "" {
		t.Errorf("attributes of the commit (-want +got):\n%s", diff)
	}
	for _, s := range spans {
		if strings.Contains(fmt.Sprintf("%+v", s), "Rosa") || s.End.Before(s.Start) {
			t.Errorf("got the span %+v", s)
		}
	}
	if got, want := a.Header.Get("Traceresponse"), "00-"+id+"-"+request.ID+"-01"; got != want {
		t.Errorf("traceresponse is %q, want %q", got, want)
	}
	lines, _ := h.log.lines(t)
	if got := lines[0]["trace_id"]; got != id {
		t.Errorf("the log has the trace id %v, want %s", got, id)
	}
}

// TestDocumentHasTrace expects the header of the trace in each response of the API document. The contract of the
// harness compares its value in each response of the tests.
func TestDocumentHasTrace(t *testing.T) {
	t.Parallel()
	document := decodeJSON(t, newDocument(t, "https://plants.example").JSON)
	responses := at(t, document, "paths", "/plants", "post", "responses")
	for status, response := range responses.(map[string]any) {
		headers := response.(map[string]any)["headers"].(map[string]any)
		if headers["X-Request-Id"] == nil || headers["Traceresponse"] == nil {
			t.Errorf("the response %s has the headers %v, want X-Request-Id and Traceresponse", status, headers)
		}
	}
}

// TestTraceOfBatch compares the spans of several creates that share a commit.
func TestTraceOfBatch(t *testing.T) {
	gate := &gatedEngine{entered: make(chan struct{}, 1), release: make(chan struct{})}
	h, collector := startTraced(t, func(s *setup) {
		s.wrap = func(e writepath.Engine) writepath.Engine {
			gate.Engine = e
			return gate
		}
	})
	const batch = 5
	var requests sync.WaitGroup
	create := func(id int) {
		requests.Go(func() { h.send(post(fmt.Sprintf(`{"id":%d,"name":"A"}`, id))) })
	}
	create(0)
	<-gate.entered
	for i := range batch {
		create(i + 1)
	}
	h.until(t, func() bool {
		return strings.Contains(h.page(t, "/metrics"), fmt.Sprintf("plantstore_queue_plants %d", batch))
	})
	close(gate.release)
	requests.Wait()
	spans := collector.Wait(t, hasRoots(1+batch+2))
	for _, r := range roots(spans, "POST /plants") {
		if diff := cmp.Diff(requestTree, tree(spans, r, "")); diff != "" {
			t.Errorf("spans of a request (-want +got):\n%s", diff)
		}
	}
	var sizes []int
	byID := map[string]tracetest.Span{}
	for _, s := range spans {
		byID[s.ID] = s
	}
	for _, c := range roots(spans, "commit") {
		sizes = append(sizes, len(c.Links))
		if c.Attributes["plantstore.commit.plants"] != int64(len(c.Links)) {
			t.Errorf("the commit has %d links and the attributes %v", len(c.Links), c.Attributes)
		}
		for _, id := range c.Links {
			waits := slices.DeleteFunc(slices.Clone(spans), func(s tracetest.Span) bool {
				return s.Parent != id || s.Name != "commit wait" || !slices.Equal(s.Links, []string{c.ID})
			})
			if len(waits) != 1 || byID[id].Name != "POST /plants" {
				t.Errorf("the commit %s links to %+v, whose waits for it are %+v", c.ID, byID[id], waits)
			}
		}
	}
	slices.Sort(sizes)
	if !slices.Equal(sizes, []int{1, batch}) {
		t.Errorf("commits with %v links, want 1 and %d", sizes, batch)
	}
}

// gatedEngine reports its first commit and holds it until release is closed.
type gatedEngine struct {
	writepath.Engine
	once    sync.Once
	entered chan struct{}
	release chan struct{}
}

func (e *gatedEngine) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	e.once.Do(func() { e.entered <- struct{}{} })
	<-e.release
	return e.Engine.Insert(ctx, batch)
}

// TestTraceOfRefusals compares the spans of requests without a commit. No name and no value is a text of the client.
func TestTraceOfRefusals(t *testing.T) {
	h, collector := startTraced(t)
	for i, row := range []struct {
		raw, name  string
		status     int64
		attributes map[string]any
	}{
		{
			post(`{}`, "-Authorization"), "POST /plants", 401,
			map[string]any{"http.route": "/plants", "plantstore.error": int64(40101)},
		},
		{
			post(`{"id":"canary"}`), "POST /plants", 400,
			map[string]any{"http.route": "/plants", "plantstore.error": int64(40012)},
		},
		{
			message("GET /canary/x?canary=1 HTTP/1.1", ""), "GET", 404, map[string]any{"plantstore.error": int64(40401)},
		},
		{
			message("CANARY /plants HTTP/1.1", ""), "HTTP /plants", 405,
			map[string]any{
				"http.route": "/plants", "http.request.method": "_OTHER", "plantstore.error": int64(40501),
			},
		},
	} {
		a := h.send(row.raw)
		span := collector.Wait(t, hasRoots(i+1))[i]
		want := map[string]any{
			"http.response.status_code": row.status, "url.scheme": "http", "network.protocol.version": "1.1",
			"plantstore.listener": "public", "plantstore.request_id": sentID,
			"http.request.method": strings.SplitN(row.raw, " ", 2)[0],
		}
		maps.Copy(want, row.attributes)
		if diff := cmp.Diff(want, span.Attributes); diff != "" || span.Name != row.name || span.Failed {
			t.Errorf("%.30s: got the span %+v, want %s, attributes (-want +got):\n%s", row.raw, span, row.name, diff)
		}
		if strings.Contains(strings.ToLower(fmt.Sprint(span)), "canary") {
			t.Errorf("the span has a text of the client: %+v", span)
		}
		if want := "00-" + span.TraceID + "-" + span.ID + "-01"; a.Header.Get("Traceresponse") != want {
			t.Errorf("%.30s: traceresponse is %q, want %q", row.raw, a.Header.Get("Traceresponse"), want)
		}
	}
}

// TestTraceOfFailure fails a commit.
func TestTraceOfFailure(t *testing.T) {
	h, collector := startTraced(t, func(s *setup) {
		s.wrap = func(e writepath.Engine) writepath.Engine { return fullEngine{e} }
	})
	h.send(post(`{"id":1,"name":"A"}`))
	spans := collector.Wait(t, hasRoots(2))
	want := "POST /plants (failed)\n  queue wait\n  commit wait -> commit (failed)\n"
	if diff := cmp.Diff(want, tree(spans, roots(spans, "POST /plants")[0], "")); diff != "" {
		t.Errorf("spans of the request (-want +got):\n%s", diff)
	}
	want = "commit -> POST /plants (failed)\n  read\n" // the disk is full: it looks for replays
	if diff := cmp.Diff(want, tree(spans, roots(spans, "commit")[0], "")); diff != "" {
		t.Errorf("spans of the commit (-want +got):\n%s", diff)
	}
	if got := roots(spans, "POST /plants")[0].Attributes["error.type"]; got != "503" {
		t.Errorf("error.type is %v, want 503", got)
	}
}

// fullEngine has no space for a plant.
type fullEngine struct{ writepath.Engine }

func (fullEngine) Insert(context.Context, []store.Create) ([]store.Outcome, error) {
	return nil, store.ErrFull
}

// TestProbesAreNotTraced sends a probe of each kind, and one with a traceparent.
func TestProbesAreNotTraced(t *testing.T) {
	h, collector := startTraced(t)
	for _, path := range []string{"/livez", "/readyz", "/metrics"} {
		if a := h.get(t, path); a.Header.Get("Traceresponse") != "" {
			t.Errorf("%s is traced: %v", path, a.Header)
		}
	}
	h.send(message("GET /healthz HTTP/1.1", ""))
	parent := "+Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	h.send(message("GET /healthz HTTP/1.1", "", parent))
	if spans := collector.Wait(t, hasRoots(1)); len(spans) != 1 || spans[0].Name != "GET /healthz" {
		t.Errorf("got the spans %+v", spans)
	}
}

var exemplar = regexp.MustCompile(`(?m)^(plantstore_\w+)_bucket\{.*# \{trace_id="(\w+)"\}`)

// TestExemplars reads the trace ids in the histograms, in the format of OpenMetrics.
func TestExemplars(t *testing.T) {
	h, collector := startTraced(t)
	h.send(post(`{"id":1,"name":"A"}`))
	spans := collector.Wait(t, hasRoots(2))
	got := map[string]string{}
	for _, match := range exemplar.FindAllStringSubmatch(h.openMetrics(t), -1) {
		got[match[1]] = match[2]
	}
	if diff := cmp.Diff(map[string]string{
		"plantstore_http_request_duration_seconds": roots(spans, "POST /plants")[0].TraceID,
		"plantstore_commit_duration_seconds":       roots(spans, "commit")[0].TraceID,
	}, got); diff != "" {
		t.Errorf("exemplars (-want +got):\n%s", diff)
	}
	if page := h.page(t, "/metrics"); strings.Contains(page, "trace_id") {
		t.Errorf("the text format has an exemplar:\n%s", page)
	}
}

// openMetrics returns the metrics in the format of OpenMetrics.
func (h *harness) openMetrics(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+h.admin+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.admins)
	req.Header.Set("Accept", "application/openmetrics-text;version=1.0.0")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || !strings.HasPrefix(res.Header.Get("Content-Type"), "application/openmetrics-text") {
		t.Fatalf("got the content type %q, %v", res.Header.Get("Content-Type"), err)
	}
	return string(body)
}

// TestWithoutTracing expects no trace of tracing in a response, the log and the metrics.
func TestWithoutTracing(t *testing.T) {
	t.Parallel()
	h := start(t)
	a := h.send(post(`{"id":1,"name":"A"}`, "+Traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	lines, _ := h.log.lines(t)
	if a.Header.Get("Traceresponse") != "" || lines[0]["trace_id"] != nil {
		t.Errorf("got the headers %v and the log line %v", a.Header, lines[0])
	}
	if got := h.get(t, "/metrics").Header.Get("Content-Type"); !strings.HasPrefix(got, "text/plain") {
		t.Errorf("got the content type %q", got)
	}
}
