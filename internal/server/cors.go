package server

import (
	"net/http"
	"net/url"
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
func (h *handler) preflight(c *Call) bool {
	header, r := c.Header(), c.Request
	if len(h.origins) > 0 {
		header.Add("Vary", "Origin")
	}
	origin, all := r.Header.Get("Origin"), slices.Contains(h.origins, "*")
	if origin == "" || !all && !slices.Contains(h.origins, strings.ToLower(origin)) {
		h.logOrigin(c, origin)
		return false
	}
	if all {
		origin = "*"
	}
	header.Set("Access-Control-Allow-Origin", origin)
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		header.Set("Access-Control-Expose-Headers", exposed)
		return false
	}
	header.Set("Access-Control-Allow-Methods", "POST, GET")
	header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Traceparent, Tracestate, X-Request-Id")
	header.Set("Access-Control-Max-Age", "600")
	c.WriteHeader(http.StatusNoContent)
	return true
}

// logOrigin logs the origin of a page that may not call the listener, because the browser tells the page no reason. It
// logs at most one line a second, and none about pages of the listener itself or a text that no browser sends.
func (h *handler) logOrigin(c *Call, origin string) {
	if origin == "" {
		return
	}
	r := c.Request
	own := sameOrigin(origin, r.Host) || r.Header.Get("Sec-Fetch-Site") == "same-origin"
	if own || h.guard != nil || !isOrigin(origin) {
		return
	}
	if n := h.refused.Add("", 1); n > 0 {
		h.log.Info("the origin of a web page is not allowed; add it to --cors-origins if the page may call the server",
			"origin", Shorten(origin), "requests", n, "request_id", c.id[0])
	}
}

// isOrigin reports whether a text is the origin of a page (RFC 6454 section 7).
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return text == "null" || err == nil && u.Host != "" && text == u.Scheme+"://"+u.Host
}
