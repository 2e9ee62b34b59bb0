package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/audit"
	"plantstore/internal/limit"
	"plantstore/internal/plant"
	"plantstore/internal/trace"
	"plantstore/internal/writepath"
)

// handler handles every request to one listener.
type handler struct {
	listener  string // its name
	metrics   *metrics
	unmatched *routeMetrics // counts requests that match no route
	inFlight  prometheus.Gauge
	log       *slog.Logger
	routes    routes
	writePath *writepath.Service
	notOpen   func() error // why the store is not open yet; nil: it is
	origins   origins
	refused   limit.LogLines // about other origins
	host      string         // host:port that a request target may name; empty: any
	guard     *guard         // on the admin listener; nil: any Host and Origin is allowed
	browser   *Browser       // on the admin listener; nil: none
	audit     *audit.Recorder
	notFound  string // the message about a path without a route
	limits    Limits
	proxies   proxies
	failures  *failures                    // nil: no limit
	quotas    *quotas                      // nil: no limit
	slots     *limit.Slots[int64]          // on the admin listener: requests in progress of each credential
	bulk      *limit.Places[int64]         // on the admin listener
	proofs    *limit.Places[limit.Network] // on the admin listener, for AuthenticateBy
	tracer    *trace.Tracer                // nil: off
	public    *handler                     // the public listener's handler; nil on the public listener
}

// ServeHTTP assigns the request id, responds in every case, and logs the request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &Call{ResponseWriter: w, Request: r, handler: h, conn: connOf(r), started: time.Now()}
	c.id[0] = requestID(r.Header)
	header := w.Header()
	header["X-Request-Id"] = c.id[:]
	header["X-Content-Type-Options"] = nosniff
	header["Content-Security-Policy"] = loadNothing
	header["Cache-Control"] = noStore
	if c.secure() {
		header["Strict-Transport-Security"] = strictTransport
	}
	if len(h.proxies) > 0 {
		c.forwarded = h.proxies.forwarded(r)
	}
	if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
		// RFC 9112 section 6.1: a request with both Content-Length and Transfer-Encoding may be an attempt at smuggling,
		// and so may an HTTP/1.0 request with Transfer-Encoding; the server must close its connection. net/http removes
		// one of the two headers.
		header["Connection"] = []string{"close"}
	} else if c.conn != nil && h.guard == nil { // a disconnect cancels requests of the admin listener only
		c.conn.SetResponding(true)
		defer c.conn.SetResponding(false)
	}
	if h.tracer != nil {
		h.startSpan(c)
	}
	defer c.responds() // if the handler panics
	defer linger(c)
	h.inFlight.Inc()
	defer h.inFlight.Dec()
	defer h.finish(c)
	if err := h.serve(c); err != nil {
		h.fail(c, err)
	}
}

// linger reads the rest of a refused request for up to 500 ms before net/http closes the connection. A close with
// unread data resets the connection, and the client might not receive the response (RFC 9112 section 9.6). net/http
// itself lingers only if the client did not ask for the close.
func linger(c *Call) {
	const timeMax = 500 * time.Millisecond
	if c.code == 0 || !c.Close || c.Body == http.NoBody {
		return
	}
	control := http.NewResponseController(c.ResponseWriter)
	if err := errors.Join(control.Flush(), control.SetReadDeadline(time.Now().Add(timeMax))); err != nil {
		return // the client has disconnected
	}
	_, _ = io.Copy(io.Discard, c.Body)
}

// Header values of every response. Handlers share them, so they must not change. loadNothing is for a browser that
// shows a response as a page. Static files and pages replace it and noStore. strictTransport (RFC 6797) is for
// connections with TLS. It does not include other hosts of the domain, which may have no TLS.
var (
	nosniff         = []string{"nosniff"}
	loadNothing     = []string{"default-src 'none'; base-uri 'none'; frame-ancestors 'none'"}
	noStore         = []string{"no-store"}
	strictTransport = []string{"max-age=31536000"}
)

// serve finds the route of a request, checks the credential before it reads the body, and calls the function of the
// route.
func (h *handler) serve(c *Call) error {
	if err := c.checkForwarded(); err != nil {
		return err
	}
	if h.preflight(c) {
		return nil
	}
	r := c.Request
	if err := h.checkTarget(r); err != nil {
		return err
	}
	if h.guard != nil {
		if err := h.guard.check(r); err != nil {
			return h.serveLink(c, err)
		}
	}
	at := h.routes.find(r)
	if h.notOpen != nil && (at == nil || !at.first.early) {
		return unready(h.notOpen(), h.guard == nil)
	}
	if at == nil {
		return &plant.Error{Code: plant.CodeNotFound, Message: h.notFound}
	}
	route, ok := at.byMethod[r.Method]
	if !ok {
		c.route = at.first
		c.Header().Set("Allow", at.allow)
		return plant.Errorf(plant.CodeMethodNotAllowed,
			"method must be %s; got %s", strings.ReplaceAll(at.allow, ", ", " or "), Shorten(r.Method))
	}
	c.route, c.scope = route, route.required(r)
	_, err := c.authenticated(h.authorize(c, false))
	h.recordAccess(c, err)
	if err != nil {
		return err
	}
	if c.scope != 0 {
		c.admit()
		if r.Body == http.NoBody {
			c.hasArrived()
		}
	}
	if h.slots != nil && c.scope != 0 {
		if _, ok := h.slots.Acquire(c.Principal.TokenID); !ok {
			return plant.Errorf(plant.CodeTooManyAtOnce,
				"%d requests with this credential are in progress; wait for the end of one", adminAtOnce)
		}
		defer h.slots.Release(c.Principal.TokenID)
	}
	if h.guard != nil && c.scope != 0 && c.conn != nil {
		c.protect()
		defer c.conn.EndServing()
	}
	if h.quotas != nil && c.scope != 0 {
		return h.quotas.handle(c, route.Handle)
	}
	if route.Bulk {
		leave, err := h.enterBulk(c)
		if err != nil {
			return err
		}
		defer leave()
	}
	if h.guard != nil && c.scope != 0 {
		return h.watched(c)
	}
	return route.Handle(c)
}

// checkTarget refuses a request whose target is an absolute URL of another host (RFC 9110 section 7.4).
func (h *handler) checkTarget(r *http.Request) error {
	if h.host != "" && r.URL.Host != "" && r.Method != http.MethodConnect &&
		!strings.EqualFold(hostPort(r.URL), h.host) {
		return plant.Errorf(plant.CodeMisdirected,
			"host of the request target must be %q; got %q", h.host, Shorten(hostPort(r.URL)))
	}
	return nil
}

// fail writes the error response. No other function turns an error into a response.
func (h *handler) fail(c *Call, err error) {
	e := asPlantError(err)
	c.code = e.Code
	if e.Code == plant.CodeInternal {
		c.cause = err
	}
	if h.respondsWithPage(c) {
		h.browser.ServeError(c, e)
		return
	}
	c.writeError(e)
}

// finish responds to a request whose handler panicked, and records every request in the metrics and the log.
func (h *handler) finish(c *Call) {
	switch v := recover(); {
	case v == nil:
	case v == http.ErrAbortHandler: //nolint:errorlint // net/http compares it in the same way
		c.aborted = true
	case c.status == 0:
		h.fail(c, panicError(v))
	default:
		c.cause = panicError(v)
		c.aborted = true // the client has received a part of the response, and must detect the abort
	}
	took := time.Since(c.started)
	h.count(c, took)
	h.logRequest(c, took)
	if c.span != nil {
		h.endSpan(c)
	}
	if c.aborted {
		panic(http.ErrAbortHandler) // net/http closes the connection
	}
}

// panicError returns the error of a panic, with the stack of the calling goroutine.
func panicError(v any) error { return fmt.Errorf("panic: %v\n%s", v, debug.Stack()) }

func (h *handler) count(c *Call, took time.Duration) {
	if c.status == 0 {
		return // an abort before the response
	}
	route := h.unmatched
	if c.route != nil {
		route = c.route.metrics
	}
	route.count(c.status, took, c.span)
	if c.code != 0 {
		h.metrics.errors[c.code].Add(1)
	}
}
