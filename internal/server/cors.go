package server

import (
	"net/http"
	"slices"
	"strings"
)

// origins are the origins whose pages may call the listener (the CORS protocol of the Fetch standard), or "*" for all.
// The zero value allows none and adds no headers.
type origins []string

// exposed are the response headers that a page of an allowed origin may read, besides the safelisted ones.
const exposed = "Idempotent-Replayed, RateLimit, RateLimit-Policy, Retry-After, Traceresponse, WWW-Authenticate, " +
	"X-Request-Id"

// preflight adds the CORS headers to a response. If the request is a preflight of an allowed origin, it writes the
// whole response and returns true.
func (o origins) preflight(c *Call) bool {
	if len(o) == 0 {
		return false
	}
	h, r := c.Header(), c.Request
	h.Add("Vary", "Origin")
	origin, all := r.Header.Get("Origin"), slices.Contains(o, "*")
	if origin == "" || !all && !slices.Contains(o, strings.ToLower(origin)) {
		return false
	}
	if all {
		origin = "*"
	}
	h.Set("Access-Control-Allow-Origin", origin)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		h.Set("Access-Control-Expose-Headers", exposed)
		return false
	}
	h.Set("Access-Control-Allow-Methods", "POST, GET")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Traceparent, Tracestate, X-Request-Id")
	h.Set("Access-Control-Max-Age", "600")
	c.WriteHeader(http.StatusNoContent)
	return true
}
