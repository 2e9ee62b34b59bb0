package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/protobuf/encoding/protowire"
)

// exporter is the SpanProcessor that exports the ended spans. One goroutine sends them in batches. While the collector
// is slow or unreachable, they wait in a bounded queue. If the queue is full, the exporter drops spans, so that no
// request waits.
type exporter struct {
	config *Config
	log    *slog.Logger
	client *http.Client
	queue  chan sdk.ReadOnlySpan

	exported, queueFull, failed, rejected, shutdown prometheus.Counter

	since time.Time // of the first failure since a success; zero: none; owned by the goroutine
	lost  int       // spans dropped since then; owned by the goroutine

	ctx    context.Context // of every POST request
	cancel context.CancelFunc
	stop   chan struct{} // closed by close: then no batch waits, and none is retried
	once   sync.Once     // closes stop
	done   chan struct{} // closed when the goroutine has ended
}

const (
	retryFirst = time.Second      // pause before the second attempt of a batch; it doubles with each attempt
	retryMost  = 30 * time.Second // longest pause
	retryFor   = time.Minute      // time for all attempts of a batch; also the longest Retry-After
)

func newExporter(c *Config, log *slog.Logger, metrics prometheus.Registerer) *exporter {
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "plantstore_trace_spans_dropped_total",
		Help: "Spans of traces that were not exported, by reason: queue_full, failed, rejected or shutdown.",
	}, []string{"reason"})
	e := &exporter{
		config: c, log: log,
		queue: make(chan sdk.ReadOnlySpan, c.QueueMax), stop: make(chan struct{}), done: make(chan struct{}),
		exported: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plantstore_trace_spans_exported_total",
			Help: "Spans of traces that the collector accepted.",
		}),
		queueFull: dropped.WithLabelValues("queue_full"), failed: dropped.WithLabelValues("failed"),
		rejected: dropped.WithLabelValues("rejected"), shutdown: dropped.WithLabelValues("shutdown"),
		client: &http.Client{
			Transport: newTransport(c),
			// The headers have secrets, and a redirect may lead to another host.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Timeout:       c.Timeout,
		},
	}
	metrics.MustRegister(e.exported, dropped)
	e.ctx, e.cancel = context.WithCancel(context.Background())
	go e.run() // ends when close is called, which waits for it
	return e
}

func newTransport(c *Config) *http.Transport {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: c.TLS, ForceAttemptHTTP2: true,
		MaxIdleConns: 1, IdleConnTimeout: 90 * time.Second, MaxResponseHeaderBytes: 64 << 10,
	}
}

// OnStart implements sdk.SpanProcessor.
func (e *exporter) OnStart(context.Context, sdk.ReadWriteSpan) {}

// OnEnd implements sdk.SpanProcessor. It never waits.
func (e *exporter) OnEnd(s sdk.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	select {
	case e.queue <- s:
	default:
		e.queueFull.Inc()
	}
}

// ForceFlush implements sdk.SpanProcessor. Nothing calls it.
func (e *exporter) ForceFlush(context.Context) error { return nil }

// Shutdown implements sdk.SpanProcessor. Nothing calls it; see close.
func (e *exporter) Shutdown(context.Context) error { return nil }

// close exports the spans in the queue until the context ends.
func (e *exporter) close(ctx context.Context) {
	e.once.Do(func() { close(e.stop) })
	defer context.AfterFunc(ctx, e.cancel)()
	<-e.done // soon after the end of the context, which ends the requests
	e.cancel()
	e.client.CloseIdleConnections()
}

func (e *exporter) run() {
	defer close(e.done)
	for !e.stopped() {
		if batch := e.collect(); len(batch) > 0 {
			e.export(batch)
		}
	}
	for batch := e.drain(nil); len(batch) > 0; batch = e.drain(nil) {
		if e.ctx.Err() != nil {
			e.drop(e.shutdown, len(batch))
			continue
		}
		e.export(batch)
	}
}

func (e *exporter) stopped() bool {
	select {
	case <-e.stop:
		return true
	default:
		return false
	}
}

// collect waits for a span, and then until there are enough spans or the first one has waited BatchWait. When stop is
// closed, it returns at once.
func (e *exporter) collect() (batch []sdk.ReadOnlySpan) {
	select {
	case s := <-e.queue:
		batch = append(batch, s)
	case <-e.stop:
		return nil
	}
	timer := time.NewTimer(e.config.BatchWait)
	defer timer.Stop()
	for len(batch) < e.config.BatchMax {
		select {
		case s := <-e.queue:
			batch = append(batch, s)
		case <-timer.C:
			return batch
		case <-e.stop:
			return e.drain(batch)
		}
	}
	return batch
}

// drain moves spans from the queue to a batch, up to BatchMax, without waiting.
func (e *exporter) drain(batch []sdk.ReadOnlySpan) []sdk.ReadOnlySpan {
	for len(batch) < e.config.BatchMax {
		select {
		case s := <-e.queue:
			batch = append(batch, s)
		default:
			return batch
		}
	}
	return batch
}

// export sends a batch, and repeats it if the collector may accept it later.
func (e *exporter) export(batch []sdk.ReadOnlySpan) {
	body, err := e.encode(batch)
	if err != nil {
		e.failure(err, len(batch), e.failed)
		return
	}
	started, pause := time.Now(), retryFirst
	for {
		rejected, err := e.post(body)
		if err == nil {
			e.success(len(batch), min(rejected, len(batch)))
			return
		}
		var again *retryable
		if !errors.As(err, &again) || time.Since(started) >= retryFor {
			e.failure(err, len(batch), e.failed)
			return
		}
		e.failure(err, 0, e.failed)
		if e.stopped() {
			e.drop(e.shutdown, len(batch))
			e.cancel() // otherwise each of the next batches could delay the end by Timeout
			return
		}
		wait := max(min(again.after, retryFor), pause/2+rand.N(pause/2)) //nolint:gosec // not secret: it spreads the attempts
		select {
		case <-time.After(wait):
		case <-e.stop:
			e.drop(e.shutdown, len(batch))
			return
		}
		pause = min(2*pause, retryMost)
	}
}

func (e *exporter) encode(batch []sdk.ReadOnlySpan) ([]byte, error) {
	body, err := encode(batch)
	if err != nil || !e.config.Gzip {
		return body, err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(body) // bytes.Buffer returns no error
	err = w.Close()
	return packed.Bytes(), err
}

// retryable is a failure after which the same request may succeed (OTLP, "Retryable Response Codes").
type retryable struct {
	error
	after time.Duration // the Retry-After of the response; 0: none
}

func (r *retryable) Unwrap() error { return r.error }

// post sends one request. It returns the number of spans that the collector rejected. The error contains no text of the
// collector.
func (e *exporter) post(body []byte) (rejected int, err error) {
	req, err := http.NewRequestWithContext(e.ctx, http.MethodPost, e.config.Endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return 0, errors.New("the endpoint is not a valid URL")
	}
	for name, values := range e.config.Header {
		req.Header[name] = values
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	if e.config.Gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", "plantstore")
	}
	res, err := e.client.Do(req)
	if err != nil {
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err // without the URL, whose query may contain a secret
		}
		return 0, &retryable{error: err}
	}
	defer res.Body.Close()
	const answerMax = 64 << 10
	answer, err := io.ReadAll(io.LimitReader(res.Body, answerMax))
	switch res.StatusCode {
	case http.StatusOK:
		return rejectedSpans(answer), nil // even if the rest of the answer is missing
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return 0, &retryable{statusError(res.StatusCode), retryAfter(res.Header.Get("Retry-After"), time.Now())}
	}
	return 0, errors.Join(statusError(res.StatusCode), err)
}

func statusError(status int) error {
	return fmt.Errorf("the collector responded with the status %d", status)
}

// retryAfter returns the pause in a Retry-After field (RFC 9110 section 10.2.3); 0: none.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(text); err == nil {
		return time.Duration(min(max(seconds, 0), int(retryFor/time.Second))) * time.Second
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// rejectedSpans returns partial_success.rejected_spans of an ExportTraceServiceResponse. The generated type of this
// message would link gRPC.
func rejectedSpans(response []byte) int {
	return int(min(varintField(bytesField(response, 1), 1), 1<<30))
}

// bytesField returns the last field with a number and the type bytes in a message.
func bytesField(message []byte, number protowire.Number) (value []byte) {
	eachField(message, func(n protowire.Number, t protowire.Type, v []byte) {
		if n == number && t == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(v)
		}
	})
	return value
}

// varintField returns the last field with a number and the type varint in a message.
func varintField(message []byte, number protowire.Number) (value uint64) {
	eachField(message, func(n protowire.Number, t protowire.Type, v []byte) {
		if n == number && t == protowire.VarintType {
			value, _ = protowire.ConsumeVarint(v)
		}
	})
	return value
}

// eachField calls f for each field of a message, up to the first malformed one.
func eachField(message []byte, f func(n protowire.Number, t protowire.Type, value []byte)) {
	for len(message) > 0 {
		number, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			return
		}
		message = message[size:]
		if size = protowire.ConsumeFieldValue(number, kind, message); size < 0 {
			return
		}
		f(number, kind, message[:size])
		message = message[size:]
	}
}

func (e *exporter) success(spans, rejected int) {
	e.exported.Add(float64(spans - rejected))
	if rejected > 0 {
		e.drop(e.rejected, rejected)
	}
	if e.since.IsZero() {
		return
	}
	e.log.Info("traces are exported again", "away_us", time.Since(e.since).Microseconds(), "spans_dropped", e.lost)
	e.since, e.lost = time.Time{}, 0
}

// failure records a failed attempt and the spans that it drops. It logs only the first failure after a success.
func (e *exporter) failure(err error, spans int, reason prometheus.Counter) {
	if e.since.IsZero() {
		e.since = time.Now()
		e.log.Warn("traces are not exported; requests are served as before", "error", err)
	}
	e.drop(reason, spans)
}

func (e *exporter) drop(reason prometheus.Counter, spans int) {
	reason.Add(float64(spans))
	e.lost += spans
}
