package server

import (
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
)

// startSpan starts the span of a request, unless its route is untraced. The span is then in the context of the request.
// The response has the ids of the span even if it is not sampled.
func (h *handler) startSpan(c *Call) {
	r := c.Request
	at := h.routes.byPath[r.URL.Path]
	if at != nil && at.first.untraced && len(r.Header["Traceparent"]) == 0 {
		return
	}
	c.span = h.tracer.Request(r.Header, c.started)
	c.Header()["Traceresponse"] = []string{c.span.Response()}
	if c.span.Sampled() {
		c.Request = r.WithContext(c.span.Context(r.Context()))
	}
}

// endSpan names and ends the span of a request, after the response. Names and values are from closed sets, except for
// the request id, which is checked.
func (h *handler) endSpan(c *Call) {
	defer c.span.End()
	if !c.span.Sampled() {
		return
	}
	method, name := c.Method, c.Method
	if loggedMethod(method) == unknownMethod {
		method, name = "_OTHER", "HTTP" // as the semantic conventions of HTTP require
	}
	scheme, version := "http", "1."+strconv.Itoa(c.ProtoMinor)
	if c.secure() {
		scheme = "https"
	}
	if c.route != nil {
		name += " " + c.route.Path
		c.span.Set(attribute.String("http.route", c.route.Path))
	}
	c.span.SetName(name)
	c.span.Set(
		attribute.String("http.request.method", method), attribute.Int("http.response.status_code", c.status),
		attribute.String("url.scheme", scheme), attribute.String("network.protocol.version", version),
		attribute.String("plantstore.listener", h.listener), attribute.String("plantstore.request_id", c.id[0]),
	)
	if c.code != 0 {
		c.span.Set(attribute.Int("plantstore.error", int(c.code)))
	}
	if c.status >= http.StatusInternalServerError {
		c.span.Set(attribute.String("error.type", strconv.Itoa(c.status)))
		c.span.Fail()
	}
}
