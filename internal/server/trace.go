package server

import (
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
)

// startSpan starts the span of a request, unless its route is untraced. It returns the request with the span in its
// context. The response has the ids of the span even if it is not sampled.
func (h *handler) startSpan(rec *responseRecorder, r *http.Request) *http.Request {
	at := h.routes.byPath[r.URL.Path]
	if at != nil && at.first.untraced && len(r.Header["Traceparent"]) == 0 {
		return r
	}
	rec.span = h.tracer.Request(r.Header, rec.started)
	rec.Header()["Traceresponse"] = []string{rec.span.Response()}
	if !rec.span.Sampled() {
		return r
	}
	return r.WithContext(rec.span.Context(r.Context()))
}

// endSpan names and ends the span of a request, after the response. Names and values are from closed sets, except for
// the request id, which is checked.
func (h *handler) endSpan(rec *responseRecorder, r *http.Request) {
	defer rec.span.End()
	if !rec.span.Sampled() {
		return
	}
	method, name := r.Method, r.Method
	if loggedMethod(method) == unknownMethod {
		method, name = "_OTHER", "HTTP" // as the semantic conventions of HTTP require
	}
	scheme, version := "http", "1."+strconv.Itoa(r.ProtoMinor)
	if rec.secure() {
		scheme = "https"
	}
	if rec.route != nil {
		name += " " + rec.route.Path
		rec.span.Set(attribute.String("http.route", rec.route.Path))
	}
	rec.span.SetName(name)
	rec.span.Set(
		attribute.String("http.request.method", method), attribute.Int("http.response.status_code", rec.status),
		attribute.String("url.scheme", scheme), attribute.String("network.protocol.version", version),
		attribute.String("plantstore.listener", h.listener), attribute.String("plantstore.request_id", rec.id[0]),
	)
	if rec.code != 0 {
		rec.span.Set(attribute.Int("plantstore.error", int(rec.code)))
	}
	if rec.status >= http.StatusInternalServerError {
		rec.span.Set(attribute.String("error.type", strconv.Itoa(rec.status)))
		rec.span.Fail()
	}
}
