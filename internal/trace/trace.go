// Package trace makes the spans of OpenTelemetry traces and exports them by OTLP over HTTP. With a nil *Tracer and a
// nil *Span tracing is off, at the cost of a comparison.
//
// The trace of a request contains the span of the request and its children. Requests share commits, so a commit has a
// trace of its own, and links connect the two.
package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// LinksMax is the maximum number of requests that a commit links to.
const LinksMax = 128

// Tracer starts spans and exports the ended ones. It is safe for concurrent use.
type Tracer struct {
	requests  trace.Tracer // with the sampler of the variables
	commits   trace.Tracer // samples each span: a commit of which no request is sampled has none
	processor sdk.SpanProcessor
	exporter  *exporter
}

// New starts a tracer. The caller closes it. vars is the environment of the process, version the program's, and
// metrics receives the numbers of ended and exported spans. The error is about a variable of OpenTelemetry.
func New(
	vars map[string]string, version string, log *slog.Logger, metrics prometheus.Registerer,
) (t *Tracer, err error) {
	defer func() {
		if v := recover(); v != nil { // the library does not check numbers below 0
			err = fmt.Errorf("OpenTelemetry does not accept one of its variables, OTEL_…: %v", v)
		}
	}()
	// Messages of the library would go to standard error in a form of their own.
	otel.SetLogger(logr.FromSlogHandler(valueless{log.Handler()}))
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("OpenTelemetry reports an error", "error", err)
	}))
	ctx := context.Background()
	about, err := resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", "plantstore"), attribute.String("service.version", version),
		),
		resource.WithFromEnv(), resource.WithTelemetrySDK(),
	)
	switch {
	case errors.Is(err, resource.ErrPartialResource):
		log.Warn("a part of OTEL_RESOURCE_ATTRIBUTES is invalid; the form is name=value,name=value")
	case err != nil:
		return nil, err
	}
	e, err := newExporter(log, metrics)
	if err != nil {
		return nil, err
	}
	log.Info("exporting traces")
	if exposed(vars) {
		log.Warn("the headers of OTLP requests cross the network in clear text; use an https endpoint")
	}
	t = &Tracer{processor: sdk.NewBatchSpanProcessor(e), exporter: e}
	tracer := func(options ...sdk.TracerProviderOption) trace.Tracer {
		options = append(options, sdk.WithSpanProcessor(t.processor), sdk.WithResource(about))
		return sdk.NewTracerProvider(options...).Tracer("plantstore")
	}
	t.requests, t.commits = tracer(), tracer(sdk.WithSampler(sdk.AlwaysSample()))
	return t, nil
}

// Close exports the ended spans until the context ends, and drops the rest. Spans that end later are dropped.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	e := t.exporter
	e.stop()
	defer context.AfterFunc(ctx, e.cancel)()
	_ = t.processor.Shutdown(ctx) // its error is the end of ctx: the rest is dropped
	e.cancel()
	e.wait()
}

// Span is an operation in a trace. A span that is not sampled has only its ids. The methods of a nil *Span do nothing.
type Span struct {
	tracer trace.Tracer
	ended  prometheus.Counter
	ctx    context.Context // with the span, for its children
	span   trace.Span
}

// Request starts the span of a request. If the request has a valid traceparent (W3C Trace Context), the span continues
// that trace.
func (t *Tracer) Request(header http.Header, started time.Time) *Span {
	const stateMax = 512 // bytes of a tracestate that the recommendation asks to propagate (section 3.3.1.5)
	fields := propagation.MapCarrier{}
	if parent := header["Traceparent"]; len(parent) == 1 {
		fields["traceparent"] = parent[0]
	}
	if state := header["Tracestate"]; len(state) == 1 && len(state[0]) <= stateMax {
		fields["tracestate"] = state[0]
	}
	ctx := propagation.TraceContext{}.Extract(context.Background(), fields)
	s := &Span{tracer: t.requests, ended: t.exporter.ended, ctx: ctx}
	return s.child("", trace.WithSpanKind(trace.SpanKindServer), trace.WithTimestamp(started))
}

// Commit starts the span of a commit, in a trace of its own, with links to the spans of its requests, at least one.
func (t *Tracer) Commit(started time.Time, requests []*Span) *Span {
	links := make([]trace.Link, len(requests))
	for i, r := range requests {
		links[i].SpanContext = r.span.SpanContext()
	}
	s := &Span{tracer: t.commits, ended: t.exporter.ended, ctx: context.Background()}
	return s.child("commit", trace.WithLinks(links...), trace.WithTimestamp(started))
}

type spanKey struct{}

// Context returns ctx with the span, for Child.
func (s *Span) Context(ctx context.Context) context.Context {
	return context.WithValue(ctx, spanKey{}, s)
}

// FromContext returns the span in a context, or nil.
func FromContext(ctx context.Context) *Span {
	s, _ := ctx.Value(spanKey{}).(*Span)
	return s
}

// Sampled reports whether the span will be exported.
func (s *Span) Sampled() bool { return s != nil && s.span.SpanContext().IsSampled() }

// TraceID returns the id of the trace in hexadecimal digits; empty for a nil *Span.
func (s *Span) TraceID() string {
	if s == nil {
		return ""
	}
	return s.span.SpanContext().TraceID().String()
}

// Response returns the value of the response header traceresponse (a W3C draft): version, trace id, span id, flags.
func (s *Span) Response() string {
	c := s.span.SpanContext()
	return "00-" + c.TraceID().String() + "-" + c.SpanID().String() + "-" + (c.TraceFlags() & trace.FlagsSampled).String()
}

// Observe adds a value to a histogram, with an exemplar if the span is sampled.
func (s *Span) Observe(o prometheus.Observer, value float64) {
	if !s.Sampled() {
		o.Observe(value)
		return
	}
	o.(prometheus.ExemplarObserver).ObserveWithExemplar(value, prometheus.Labels{"trace_id": s.TraceID()})
}

// Child starts a child of the span in a context. It returns nil if the context has no sampled span.
func Child(ctx context.Context, name string) *Span {
	return child(ctx, name, trace.SpanKindInternal)
}

// ClientChild is Child for a request to another server, such as a database.
func ClientChild(ctx context.Context, name string) *Span {
	return child(ctx, name, trace.SpanKindClient)
}

func child(ctx context.Context, name string, kind trace.SpanKind) *Span {
	parent := FromContext(ctx)
	if !parent.Sampled() {
		return nil
	}
	return parent.child(name, trace.WithSpanKind(kind))
}

// child starts a span below the one in the context of s.
func (s *Span) child(name string, options ...trace.SpanStartOption) *Span {
	child := *s
	child.ctx, child.span = s.tracer.Start(s.ctx, name, options...)
	return &child
}

// Record adds a child with its start and its end, and with a link to another span unless that is nil. A failed child
// has an error status.
func (s *Span) Record(name string, from, to time.Time, link *Span, failed bool) {
	if !s.Sampled() {
		return
	}
	child := s.child(name, trace.WithTimestamp(from))
	if link.Sampled() {
		child.span.AddLink(trace.Link{SpanContext: link.span.SpanContext()})
	}
	if failed {
		child.Fail()
	}
	child.end(trace.WithTimestamp(to))
}

// SetName replaces the name, which must be from a closed set.
func (s *Span) SetName(name string) {
	if s != nil {
		s.span.SetName(name)
	}
}

// Set adds attributes.
func (s *Span) Set(attributes ...attribute.KeyValue) {
	if s != nil {
		s.span.SetAttributes(attributes...)
	}
}

// Fail sets the status of the span to error. The log has the cause.
func (s *Span) Fail() {
	if s != nil {
		s.span.SetStatus(codes.Error, "")
	}
}

// End ends the span and passes it to the exporter.
func (s *Span) End() {
	if s != nil {
		s.end()
	}
}

// end counts a sampled span, whether or not the queue of the exporter has room for it.
func (s *Span) end(options ...trace.SpanEndOption) {
	if s.span.IsRecording() {
		s.ended.Inc()
	}
	s.span.End(options...)
}
