// Package tracetest has a collector of OTLP traces for tests.
package tracetest

import (
	"compress/gzip"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span that a collector has received. Ids are hexadecimal digits.
type Span struct {
	Name, Kind, TraceID, ID, Parent, State string
	RemoteParent, Failed                   bool
	Start, End                             time.Time
	Attributes                             map[string]any
	Links                                  []string // ids of spans
	Resource                               map[string]any
}

// T is the part of a *testing.T that a collector uses. The program must not link package testing.
type T interface {
	// Helper marks the caller as a helper of tests.
	Helper()
	// Cleanup calls f after the test.
	Cleanup(f func())
	// Fatalf fails and ends the test.
	Fatalf(format string, args ...any)
}

// Collector is an HTTP server that receives spans. Its methods are safe for concurrent use.
type Collector struct {
	*httptest.Server

	mu       sync.Mutex
	spans    []Span        // guarded by mu
	headers  []http.Header // headers of the requests; guarded by mu
	paths    []string      // guarded by mu
	answer   http.Handler  // nil: 200; guarded by mu
	received chan struct{} // closed and replaced after each request; guarded by mu
}

// Start starts a collector on loopback. It stops with the test.
func Start(t T) *Collector {
	c := &Collector{received: make(chan struct{})}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

// StartTLS is Start with TLS.
func StartTLS(t T) *Collector {
	c := &Collector{received: make(chan struct{})}
	c.Server = httptest.NewTLSServer(c)
	t.Cleanup(c.Close)
	return c
}

// Answer replaces the response to the next requests, whose spans are lost; nil: 200, and the spans are kept.
func (c *Collector) Answer(h http.Handler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = h
}

// ServeHTTP implements http.Handler.
func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	answer := c.answer
	c.mu.Unlock()
	var spans []Span
	if answer == nil {
		var err error
		if spans, err = decode(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	c.mu.Lock()
	c.spans = append(c.spans, spans...)
	c.headers, c.paths = append(c.headers, r.Header), append(c.paths, r.URL.Path)
	close(c.received)
	c.received = make(chan struct{})
	c.mu.Unlock()
	if answer != nil {
		answer.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// Headers returns the headers of the requests so far, and Paths their paths.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.headers)
}

// Paths returns the paths of the requests so far.
func (c *Collector) Paths() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.paths)
}

// Spans returns the spans so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Wait waits until enough returns true for the spans so far, and returns them.
func (c *Collector) Wait(t T, enough func([]Span) bool) []Span {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		c.mu.Lock()
		spans, received := slices.Clone(c.spans), c.received
		c.mu.Unlock()
		if enough(spans) {
			return spans
		}
		select {
		case <-received:
		case <-timeout:
			t.Fatalf("the collector received only these spans: %+v", spans)
		}
	}
}

// WaitRequests waits for a number of requests, also of those with another answer.
func (c *Collector) WaitRequests(t T, n int) {
	t.Helper()
	c.Wait(t, func([]Span) bool { return len(c.Paths()) >= n })
}

func decode(r *http.Request) ([]Span, error) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(body); err != nil {
			return nil, err
		}
	}
	text, err := io.ReadAll(body)
	if err != nil {
		return nil, err
	}
	var message tracepb.TracesData
	if err := proto.Unmarshal(text, &message); err != nil {
		return nil, err
	}
	var spans []Span
	for _, resource := range message.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				spans = append(spans, decodeSpan(s, attributes(resource.Resource.Attributes)))
			}
		}
	}
	return spans, nil
}

func decodeSpan(s *tracepb.Span, resource map[string]any) Span {
	remote := uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	decoded := Span{
		Name: s.Name, Kind: s.Kind.String(), State: s.TraceState,
		TraceID: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId),
		RemoteParent: s.Flags&remote != 0, Failed: s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR,
		Start:      time.Unix(0, int64(s.StartTimeUnixNano)),
		End:        time.Unix(0, int64(s.EndTimeUnixNano)),
		Attributes: attributes(s.Attributes), Resource: resource,
	}
	for _, l := range s.Links {
		decoded.Links = append(decoded.Links, hex.EncodeToString(l.SpanId))
	}
	return decoded
}

func attributes(list []*commonpb.KeyValue) map[string]any {
	values := map[string]any{}
	for _, a := range list {
		switch v := a.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			values[a.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			values[a.Key] = v.IntValue
		case *commonpb.AnyValue_BoolValue:
			values[a.Key] = v.BoolValue
		}
	}
	return values
}
