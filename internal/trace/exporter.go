package trace

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// exporter exports spans by OTLP over HTTP. It counts them, and repeats a request that has no response or a temporary
// one. The library would not repeat the former, and would not end the pause before the latter when the server stops.
type exporter struct {
	*otlptrace.Exporter

	log                     *slog.Logger
	ended, exported, failed prometheus.Counter

	stop   context.CancelFunc // no request is repeated any more
	cancel context.CancelFunc // ends the request in flight
	ctx    context.Context    //nolint:containedctx // for every request: the program ends them
	ending context.Context    //nolint:containedctx // done after stop

	mu    sync.Mutex // held by ExportSpans, so close waits for it
	since time.Time  // first failure since a success; zero: none; guarded by mu
	lost  int        // spans that failed since then; guarded by mu
}

const (
	repeatFirst = time.Second      // the pause before the second request; the next ones double
	repeatMost  = 10 * time.Second // the longest of them
)

var errRedirect = errors.New("the collector redirects, which is not followed")

func newExporter(log *slog.Logger, metrics prometheus.Registerer) (*exporter, error) {
	counter := func(name, help string) prometheus.Counter {
		return promauto.With(metrics).NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	e := &exporter{
		log:      log,
		ended:    counter("plantstore_trace_spans_ended_total", "Sampled spans of traces that ended."),
		exported: counter("plantstore_trace_spans_exported_total", "Spans of traces that the collector accepted."),
		failed: counter("plantstore_trace_spans_failed_total",
			"Spans of traces that the collector did not accept in time."),
	}
	e.ctx, e.cancel = context.WithCancel(context.Background())
	e.ending, e.stop = context.WithCancel(context.Background())
	var err error
	e.Exporter, err = otlptracehttp.New(e.ctx,
		otlptracehttp.WithRetry(otlptracehttp.RetryConfig{}), // ExportSpans repeats, until stop
		otlptracehttp.WithProxy(func(r *http.Request) (*url.URL, error) {
			if r.Response != nil { // a redirect would take the headers with their secrets to another server
				return nil, errRedirect
			}
			return http.ProxyFromEnvironment(r)
		}),
	)
	return e, err
}

// ExportSpans implements sdk.SpanExporter. It returns no error, because the SDK would log it without the log of the
// server.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ctx.Err() != nil {
		return nil // after the end of Close
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(e.ctx, cancel)()
	for pause := repeatFirst; ; pause = min(2*pause, repeatMost) {
		err := e.Exporter.ExportSpans(ctx, spans)
		if rejected, ok := rejectedSpans(err); ok {
			rejected = min(rejected, len(spans)) // the number is the collector's
			e.success(len(spans) - rejected)
			e.failed.Add(float64(rejected))
			return nil
		}
		e.failure(err)
		var unanswered *url.Error
		again := errors.As(err, &unanswered) && !errors.Is(err, errRedirect) ||
			strings.Contains(err.Error(), "retry-able request failure")
		if again && ctx.Err() == nil {
			select {
			case <-time.After(pause):
				continue
			case <-ctx.Done():
			case <-e.ending.Done():
			}
		}
		e.failed.Add(float64(len(spans)))
		e.lost += len(spans)
		return nil
	}
}

// partial matches the library's error about a response that rejects a number of spans, or none with a warning.
var partial = regexp.MustCompile(`^traces export: OTLP partial success: (?s:.*) \((\d+) spans rejected\)`)

// rejectedSpans returns the number of spans that the collector rejected, and whether it accepted the others.
func rejectedSpans(err error) (int, bool) {
	if err == nil {
		return 0, true
	}
	match := partial.FindStringSubmatch(err.Error())
	if match == nil {
		return 0, false
	}
	n, err := strconv.Atoi(match[1])
	return n, err == nil
}

// wait waits for the end of the request in flight.
func (e *exporter) wait() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.since.IsZero() {
		e.log.Warn("traces were not exported until the end", "spans_lost", e.lost)
	}
}

func (e *exporter) success(spans int) {
	e.exported.Add(float64(spans))
	if !e.since.IsZero() {
		e.log.Info("traces are exported again", "outage_us", time.Since(e.since).Microseconds(), "spans_lost", e.lost)
		e.since, e.lost = time.Time{}, 0
	}
}

// collectorText matches the reason phrase after a status, and the body.
var collectorText = regexp.MustCompile(`(?s)(: \d{3}) .*|body: .*`)

// failure logs the first failure since the last success. The log has no text of the collector.
func (e *exporter) failure(err error) {
	if !e.since.IsZero() {
		return
	}
	e.since = time.Now()
	text := strings.TrimRight(collectorText.ReplaceAllString(err.Error(), "$1"), " :")
	e.log.Warn("traces are not exported; requests are served as before", "error", text)
}
