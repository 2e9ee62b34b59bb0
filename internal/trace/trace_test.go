package trace_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.opentelemetry.io/otel/attribute"

	"plantstore/internal/trace"
	"plantstore/internal/trace/tracetest"
)

// logText is a log for tests.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns the text so far.
func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// tracing is a tracer with its log and its metrics.
type tracing struct {
	*trace.Tracer
	log     *logText
	metrics *prometheus.Registry
}

// start starts a tracer for a collector, with further variables of the environment.
func start(t *testing.T, endpoint string, list ...string) *tracing {
	t.Helper()
	vars := environ(append([]string{"OTEL_BSP_SCHEDULE_DELAY", "1", "OTEL_EXPORTER_OTLP_ENDPOINT", endpoint}, list...)...)
	for name, value := range vars {
		t.Setenv(name, value)
	}
	tr := &tracing{log: &logText{}, metrics: prometheus.NewRegistry()}
	var err error
	if tr.Tracer, err = trace.New(vars, "1.2.3", slog.New(slog.NewTextHandler(tr.log, nil)), tr.metrics); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close(canceled()) })
	return tr
}

// canceled returns a context that has ended.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// count returns the metrics of the spans that are not 0.
func (tr *tracing) count(t *testing.T) map[string]int {
	t.Helper()
	got := map[string]int{}
	families, err := tr.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		name := strings.TrimSuffix(strings.TrimPrefix(f.GetName(), "plantstore_trace_spans_"), "_total")
		if n := int(f.Metric[0].Counter.GetValue()); n > 0 {
			got[name] = n
		}
	}
	return got
}

// counts compares the metrics of the spans.
func (tr *tracing) counts(t *testing.T, want map[string]int) {
	t.Helper()
	if diff := cmp.Diff(want, tr.count(t)); diff != "" {
		t.Errorf("numbers of spans (-want +got):\n%s", diff)
	}
}

// TestExport compares the spans of two requests in one commit with those that a collector receives.
func TestExport(t *testing.T) {
	for _, compression := range []string{"none", "gzip"} {
		c := tracetest.Start(t)
		tr := start(t, c.URL+"/x", "OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20s", "OTEL_EXPORTER_OTLP_COMPRESSION",
			compression, "OTEL_RESOURCE_ATTRIBUTES", "zone=a")
		at := time.Unix(1_700_000_000, 0)
		a := tr.Request(http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}, at)
		b := tr.Request(http.Header{}, at)
		commit := tr.Commit(at, []*trace.Span{a, b})
		trace.ClientChild(commit.Context(t.Context()), "INSERT").End()
		commit.Fail()
		commit.End()
		a.Record("wait", at, at.Add(time.Second), commit, false)
		a.SetName("POST /plants")
		a.Set(attribute.Int("n", 7), attribute.String("s", "x"), attribute.Bool("b", true))
		a.End()
		b.End()
		spans := c.Wait(t, func(s []tracetest.Span) bool { return len(s) == 5 })
		ids := map[string]string{"": ""}
		for _, s := range spans {
			ids[s.ID] = s.Name
		}
		type shape struct {
			Name, Kind, Parent string
			Links              int
			Failed             bool
		}
		var got []shape
		for _, s := range spans {
			got = append(got, shape{s.Name, s.Kind, ids[s.Parent], len(s.Links), s.Failed})
		}
		slices.SortFunc(got, func(a, b shape) int { return strings.Compare(a.Name, b.Name) })
		if diff := cmp.Diff([]shape{
			{"", "SPAN_KIND_SERVER", "", 0, false},
			{"INSERT", "SPAN_KIND_CLIENT", "commit", 0, false},
			{"POST /plants", "SPAN_KIND_SERVER", "", 0, false},
			{"commit", "SPAN_KIND_INTERNAL", "", 2, true},
			{"wait", "SPAN_KIND_INTERNAL", "POST /plants", 1, false},
		}, got); diff != "" {
			t.Errorf("spans (-want +got):\n%s", diff)
		}
		i := slices.IndexFunc(spans, func(s tracetest.Span) bool { return s.Name == "POST /plants" })
		request := spans[i]
		if request.TraceID != "0af7651916cd43dd8448eb211c80319c" || request.Parent != "b7ad6b7169203331" ||
			!request.RemoteParent || !request.Start.Equal(at) || request.End.Before(at) {
			t.Errorf("got the span %+v", request)
		}
		if diff := cmp.Diff(map[string]any{"n": int64(7), "s": "x", "b": true}, request.Attributes); diff != "" {
			t.Errorf("attributes (-want +got):\n%s", diff)
		}
		delete(request.Resource, "telemetry.sdk.version")
		if diff := cmp.Diff(map[string]any{
			"service.name": "plantstore", "service.version": "1.2.3", "zone": "a",
			"telemetry.sdk.name": "opentelemetry", "telemetry.sdk.language": "go",
		}, request.Resource); diff != "" {
			t.Errorf("resource (-want +got):\n%s", diff)
		}
		if h := c.Headers()[0]; h.Get("Authorization") != "Bearer s" || c.Paths()[0] != "/x/v1/traces" ||
			h.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("request to %s with %v", c.Paths()[0], h)
		}
		tr.Close(t.Context())
		tr.counts(t, map[string]int{"ended": 5, "exported": 5})
		if strings.Contains(tr.log.String(), "Bearer") {
			t.Errorf("the log has a header:\n%s", tr.log)
		}
	}
}

// TestParent lists headers of requests and the trace that their span continues.
func TestParent(t *testing.T) {
	const id, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	valid := "00-" + id + "-" + parent + "-01"
	long := "a=" + strings.Repeat("x", 600)
	for _, row := range []struct {
		name        string
		parent      []string
		state       []string
		continued   bool
		wantState   string
		wantSampled bool
	}{
		{"none", nil, nil, false, "", true},
		{"valid", []string{valid}, []string{"a=b,c=d"}, true, "a=b,c=d", true},
		{"not sampled", []string{"00-" + id + "-" + parent + "-00"}, nil, true, "", false},
		{"a later version", []string{"cc-" + id + "-" + parent + "-01-more"}, nil, true, "", true},
		{"version ff", []string{"ff-" + id + "-" + parent + "-01"}, nil, false, "", true},
		{"upper case", []string{strings.ToUpper(valid)}, nil, false, "", true},
		{"zero trace", []string{"00-" + strings.Repeat("0", 32) + "-" + parent + "-01"}, nil, false, "", true},
		{"zero span", []string{"00-" + id + "-" + strings.Repeat("0", 16) + "-01"}, nil, false, "", true},
		{"more fields", []string{valid + "-x"}, nil, false, "", true},
		{"twice", []string{valid, valid}, nil, false, "", true},
		{"empty", []string{""}, []string{"a=b"}, false, "", true},
		{"long", []string{valid + strings.Repeat("0", 5000)}, nil, false, "", true},
		{"long state", []string{valid}, []string{long}, true, "", true},
		{"malformed state", []string{valid}, []string{"=;"}, true, "", true},
		{"two states", []string{valid}, []string{"a=b", "c=d"}, true, "", true},
	} {
		c := tracetest.Start(t)
		tr := start(t, c.URL)
		header := http.Header{}
		if row.parent != nil {
			header["Traceparent"] = row.parent
		}
		header["Tracestate"] = row.state
		s := tr.Request(header, time.Now())
		s.End()
		if got := s.TraceID() == id; got != row.continued {
			t.Errorf("%s: continued is %v, want %v", row.name, got, row.continued)
		}
		if s.Sampled() != row.wantSampled {
			t.Errorf("%s: sampled is %v, want %v", row.name, s.Sampled(), row.wantSampled)
		}
		if !row.wantSampled {
			continue
		}
		spans := c.Wait(t, func(s []tracetest.Span) bool { return len(s) == 1 })
		if want := "00-" + spans[0].TraceID + "-" + spans[0].ID + "-01"; s.Response() != want {
			t.Errorf("%s: the response has %s, want %s", row.name, s.Response(), want)
		}
		if spans[0].State != row.wantState || row.continued != (spans[0].Parent == parent) {
			t.Errorf("%s: got the span %+v", row.name, spans[0])
		}
	}
}

// TestSampler counts the sampled requests of each sampler.
func TestSampler(t *testing.T) {
	const requests = 1000
	sampled := http.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
	for _, row := range []struct {
		sampler, arg string
		least, most  int // sampled requests without a parent
		child        bool
	}{
		{"always_on", "", requests, requests, true},
		{"always_off", "", 0, 0, false},
		{"traceidratio", "0.1", 50, 150, false}, // the id of the parent is above the ratio
		{"parentbased_always_off", "", 0, 0, true},
		{"parentbased_traceidratio", "0.5", 400, 600, true},
		{"parentbased_traceidratio", "0", 0, 0, true},
	} {
		tr := start(t, tracetest.Start(t).URL, "OTEL_TRACES_SAMPLER", row.sampler, "OTEL_TRACES_SAMPLER_ARG", row.arg)
		n := 0
		for range requests {
			if tr.Request(nil, time.Now()).Sampled() {
				n++
			}
		}
		if n < row.least || n > row.most || tr.Request(sampled, time.Now()).Sampled() != row.child {
			t.Errorf("%s %s: sampled %d of %d", row.sampler, row.arg, n, requests)
		}
		// A commit is sampled because one of its requests is.
		if s := tr.Request(sampled, time.Now()); s.Sampled() && !tr.Commit(time.Now(), []*trace.Span{s}).Sampled() {
			t.Errorf("%s %s: the commit is not sampled", row.sampler, row.arg)
		}
	}
}

// TestLinksAreBounded starts a commit with more links than are kept.
func TestLinksAreBounded(t *testing.T) {
	c := tracetest.Start(t)
	tr := start(t, c.URL)
	requests := make([]*trace.Span, trace.LinksMax+5)
	for i := range requests {
		requests[i] = tr.Request(nil, time.Now())
	}
	tr.Commit(time.Now(), requests).End()
	if got := len(c.Wait(t, func(s []tracetest.Span) bool { return len(s) == 1 })[0].Links); got != trace.LinksMax {
		t.Errorf("the commit has %d links, want %d", got, trace.LinksMax)
	}
}

// TestTLS exports to a collector with a certificate of its own authority.
func TestTLS(t *testing.T) {
	c := tracetest.StartTLS(t)
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	tr := start(t, c.URL, "OTEL_EXPORTER_OTLP_CERTIFICATE", file)
	tr.Request(nil, time.Now()).End()
	c.Wait(t, func(s []tracetest.Span) bool { return len(s) == 1 })
	tr.Close(t.Context())
	tr.counts(t, map[string]int{"ended": 1, "exported": 1})
}

// TestOffCostsNothing calls the methods of a nil *Span and of a context without a span.
func TestOffCostsNothing(t *testing.T) {
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x", Help: "x"})
	var none *trace.Span
	var off *trace.Tracer
	off.Close(canceled())
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		none.Record("x", time.Time{}, time.Time{}, nil, true)
		none.Observe(histogram, 1)
		none.Fail()
		trace.Child(ctx, "x").End()
		if none.Sampled() || none.TraceID() != "" {
			t.Error("a nil *Span is sampled")
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
	if n := testutil.CollectAndCount(histogram); n != 1 {
		t.Errorf("%d histograms", n)
	}
}
