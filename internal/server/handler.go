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
	unmatched *routeMetrics // of requests that match no route
	inFlight  prometheus.Gauge
	log       *slog.Logger
	routes    routes
	store     *writepath.Store
	origins   origins
	host      string   // host:port that a request target may name; empty: any
	guard     *guard   // of the admin listener; nil: any Host and Origin is allowed
	browser   *Browser // of the admin listener; nil: none
	audit     *audit.Recorder
	notFound  string // the message about a path without a route
	limits    Limits
	proxies   proxies
	failures  *failures                    // nil: no limit
	quotas    *quotas                      // nil: no limit
	slots     *limit.Slots[int64]          // of the admin listener: requests in progress of each credential
	bulk      *limit.Places[any]           // of the admin listener
	proofs    *limit.Places[limit.Network] // of AuthenticateBy, on the admin listener
	tracer    *trace.Tracer                // nil: off
	public    *handler                     // of the public listener; nil on the public listener
}

// ServeHTTP assigns the request id, responds in every case, and logs the request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := &responseRecorder{ResponseWriter: w, handler: h, conn: connOf(r), started: time.Now()}
	rec.id[0] = requestID(r.Header)
	header := w.Header()
	header["X-Request-Id"] = rec.id[:]
	header["X-Content-Type-Options"] = nosniff
	header["Content-Security-Policy"] = loadNothing
	header["Cache-Control"] = noStore
	if rec.secure() {
		header["Strict-Transport-Security"] = strictTransport
	}
	if len(h.proxies) > 0 {
		rec.forwarded = h.proxies.forwarded(r)
	}
	if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
		// RFC 9112 section 6.1: a request with both Content-Length and Transfer-Encoding may be an attempt at smuggling,
		// and so may an HTTP/1.0 request with Transfer-Encoding; the server must close its connection. net/http removes
		// one of the two headers.
		header["Connection"] = []string{"close"}
	} else if rec.conn != nil && h.guard == nil { // a disconnect cancels requests of the admin listener only
		rec.conn.SetResponding(true)
		defer rec.conn.SetResponding(false)
	}
	if h.tracer != nil {
		r = h.startSpan(rec, r)
	}
	defer rec.responds() // if the handler panics
	defer linger(rec, r)
	h.inFlight.Inc()
	defer h.inFlight.Dec()
	defer h.finish(rec, r)
	if err := h.serve(rec, r); err != nil {
		h.fail(rec, r, err)
	}
}

// linger reads the rest of a refused request for up to 500 ms before net/http closes the connection. A close with
// unread data resets the connection, and the client might not receive the response (RFC 9112 section 9.6). net/http
// itself lingers only if the client did not ask for the close.
func linger(rec *responseRecorder, r *http.Request) {
	const timeMax = 500 * time.Millisecond
	if rec.code == 0 || !r.Close || r.Body == http.NoBody {
		return
	}
	c := http.NewResponseController(rec.ResponseWriter)
	if err := errors.Join(c.Flush(), c.SetReadDeadline(time.Now().Add(timeMax))); err != nil {
		return // the client has disconnected
	}
	_, _ = io.Copy(io.Discard, r.Body)
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
func (h *handler) serve(rec *responseRecorder, r *http.Request) error {
	if err := rec.checkForwarded(r); err != nil {
		return err
	}
	if h.origins.preflight(rec, r) {
		return nil
	}
	if err := h.checkTarget(r); err != nil {
		return err
	}
	if h.guard != nil {
		if err := h.guard.check(r); err != nil {
			return h.serveLink(rec, r, err)
		}
	}
	at := h.routes.find(r)
	if at == nil {
		return &plant.Error{Code: plant.CodeNotFound, Message: h.notFound}
	}
	route, ok := at.byMethod[r.Method]
	if !ok {
		rec.route = at.first
		rec.Header().Set("Allow", at.allow)
		return plant.Errorf(plant.CodeMethodNotAllowed,
			"method must be %s; got %s", strings.ReplaceAll(at.allow, ", ", " or "), Shorten(r.Method))
	}
	rec.route, rec.scope = route, route.required(r)
	principal, err := rec.authenticated(h.authorize(rec, r, false))
	h.recordAccess(rec, r, principal, err)
	if err != nil {
		return err
	}
	if rec.scope != 0 {
		rec.admit(principal)
		if r.Body == http.NoBody {
			rec.hasArrived()
		}
	}
	if h.slots != nil && (rec.scope != 0 || route.Bulk) {
		if _, ok := h.slots.Acquire(principal.TokenID); !ok {
			return plant.Errorf(plant.CodeTooManyAtOnce,
				"%d requests with this credential, or without one, are in progress; wait for the end of one", adminAtOnce)
		}
		defer h.slots.Release(principal.TokenID)
	}
	if h.guard != nil && rec.scope != 0 && rec.conn != nil {
		rec.protect(principal)
		defer rec.conn.EndServing()
	}
	if h.quotas != nil && rec.scope != 0 {
		return h.quotas.handle(rec, r, principal, route.Handle)
	}
	if route.Bulk {
		leave, err := h.enterBulk(r.Context(), rec, principal)
		if err != nil {
			return err
		}
		defer leave()
	}
	if h.guard != nil && rec.scope != 0 {
		return h.watched(rec, r, principal)
	}
	return route.Handle(rec, r, principal)
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
func (h *handler) fail(rec *responseRecorder, r *http.Request, err error) {
	e := asPlantError(err)
	rec.code = e.Code
	if e.Code == plant.CodeInternal {
		rec.cause = err
	}
	if h.respondsWithPage(rec, r) {
		h.browser.ServeError(rec, r, e)
		return
	}
	writeError(rec, e, rec.scope)
}

// finish responds to a request whose handler panicked, and records every request in the metrics and the log.
func (h *handler) finish(rec *responseRecorder, r *http.Request) {
	switch v := recover(); {
	case v == nil:
	case v == http.ErrAbortHandler: //nolint:errorlint // net/http compares it in the same way
		rec.aborted = true
	case rec.status == 0:
		h.fail(rec, r, panicError(v))
	default:
		rec.cause = panicError(v)
		rec.aborted = true // the client has received a part of the response, and must detect the abort
	}
	took := time.Since(rec.started)
	h.count(rec, took)
	h.logRequest(rec, r, took)
	if rec.span != nil {
		h.endSpan(rec, r)
	}
	if rec.aborted {
		panic(http.ErrAbortHandler) // net/http closes the connection
	}
}

// panicError returns the error of a panic, with the stack of the calling goroutine.
func panicError(v any) error { return fmt.Errorf("panic: %v\n%s", v, debug.Stack()) }

func (h *handler) count(rec *responseRecorder, took time.Duration) {
	if rec.status == 0 {
		return // an abort before the response
	}
	route := h.unmatched
	if rec.route != nil {
		route = rec.route.metrics
	}
	route.count(rec.status, took, rec.span)
	if rec.code != 0 {
		h.metrics.errors[rec.code].Add(1)
	}
}
