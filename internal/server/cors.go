package server

import (
	"net/http"
	"slices"
	"strings"
)

// origins are the origins whose pages may call the listener (the CORS protocol of the Fetch standard). The zero value
// allows none and adds no headers.
type origins struct {
	any  bool
	list []string
}

func newOrigins(list []string) origins {
	return origins{any: slices.Contains(list, "*"), list: list}
}

// exposed are the response headers that a page of an allowed origin may read, besides the safelisted ones.
const exposed = "Idempotent-Replayed, RateLimit, RateLimit-Policy, Retry-After, Traceresponse, WWW-Authenticate, " +
	"X-Request-Id"

// preflight adds the CORS headers to a response. If the request is a preflight of an allowed origin, it writes the
// whole response and returns true.
func (o origins) preflight(w http.ResponseWriter, r *http.Request) bool {
	if !o.any && len(o.list) == 0 {
		return false
	}
	h := w.Header()
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" || !o.any && !slices.Contains(o.list, strings.ToLower(origin)) {
		return false
	}
	if o.any {
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
	w.WriteHeader(http.StatusNoContent)
	return true
}
