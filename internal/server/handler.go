package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
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
	guard     *guard   // nil: any Host and Origin is allowed
	browser   *Browser // of the errors without a route; nil: none
	audit     *audit.Recorder
	notFound  string        // the message about a path without a route
	secure    bool          // the listener has TLS
	timeout   time.Duration // for a request to arrive whole
	proxies   proxies
	failures  *failures     // nil: no limit
	quotas    *quotas       // nil: no limit
	turns     *turns        // of the admin listener
	tracer    *trace.Tracer // nil: off
	public    *handler      // of the public listener; nil: this is it

	detectsDisconnects bool // a disconnect cancels the context of its request
}

// ServeHTTP assigns the request id, responds in every case, and logs the request.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rec := &responseRecorder{ResponseWriter: w, handler: h, started: time.Now()}
	rec.id[0] = requestID(r.Header)
	header := w.Header()
	header["X-Request-Id"] = rec.id[:]
	header["X-Content-Type-Options"] = nosniff
	header["Content-Security-Policy"] = loadNothing
	header["Cache-Control"] = noStore
	if h.secure {
		header["Strict-Transport-Security"] = strictTransport
	}
	c := connOf(r)
	rec.conn = c
	if len(h.proxies) > 0 {
		rec.forwarded = h.proxies.forwarded(r)
	}
	if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
		// RFC 9112 section 6.1: a request with both Content-Length and
		// Transfer-Encoding may be an attempt at smuggling, and so may an HTTP/1.0
		// request with Transfer-Encoding; the server must close its connection.
		// net/http removes one of the two headers of such a request.
		header["Connection"] = []string{"close"}
	} else if c != nil && !h.detectsDisconnects {
		c.responding.Store(true)
		defer c.responding.Store(false)
	}
	if r.Body == http.NoBody {
		rec.hasArrived()
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

// linger reads the rest of a refused request for up to 500 ms before net/http
// closes the connection. A close with unread data resets the connection, and the
// client might not receive the response (RFC 9112 section 9.6). net/http itself
// lingers only if the client would have kept the connection.
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

// Header values of every response. Handlers share them, so they must not change.
// loadNothing is for a browser that shows a response as a page. The files of the API
// document replace it and noStore. strictTransport (RFC 6797) is for listeners with
// TLS. It does not include other hosts of the domain, which may have no TLS.
var (
	nosniff         = []string{"nosniff"}
	loadNothing     = []string{"default-src 'none'; base-uri 'none'; frame-ancestors 'none'"}
	noStore         = []string{"no-store"}
	strictTransport = []string{"max-age=31536000"}
)

// serve finds the route of a request, checks the credential, and calls the
// function of the route. It checks the credential before it reads the body.
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
			return h.enter(rec, r, err)
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
		return &plant.Error{
			Code:    plant.CodeMethodNotAllowed,
			Message: "method must be " + strings.ReplaceAll(at.allow, ", ", " or ") + "; got " + Shorten(r.Method),
		}
	}
	rec.route = route
	scope := route.required(r)
	principal, err := h.authorize(rec, r, scope, (*handler).authenticate)
	rec.principal = principal.Name
	h.trace(rec, r, principal, scope, err)
	if err != nil {
		if invalid := (*auth.Invalid)(nil); errors.As(err, &invalid) {
			rec.reason = invalid.Reason
		}
		return &denied{error: err, scope: scope}
	}
	if scope != 0 {
		rec.admit()
	}
	if h.guard != nil && scope != 0 && rec.conn != nil {
		rec.conn.serves(1) // until the end of the response: the listener must not evict a download for a stranger
		defer rec.conn.serves(-1)
	}
	if h.quotas != nil && scope != 0 {
		return h.quotas.handle(rec, r, principal, route.handle)
	}
	if route.bulk {
		leave, err := h.turns.enter(r.Context(), principal)
		if err != nil {
			return err
		}
		defer leave()
	}
	if h.guard != nil && scope != 0 {
		return h.watched(rec, r, principal)
	}
	return route.handle(rec, r, principal)
}

// denied is the refusal of a credential, with the scope that the route requires.
type denied struct {
	error
	scope auth.Scopes
}

func (e *denied) Unwrap() error { return e.error }

// authorize returns the principal of a request that requires a scope, 0 for none. check returns that of a credential.
func (h *handler) authorize(
	rec *responseRecorder, r *http.Request, scope auth.Scopes,
	check func(*handler, *responseRecorder, *http.Request, string) (auth.Principal, error),
) (auth.Principal, error) {
	if scope == 0 {
		return auth.Principal{}, nil
	}
	route := rec.route
	if route.browser != nil {
		principal, err := route.browser.Authenticate(r, func(credential string) (auth.Principal, error) {
			return check(h, rec, r, credential)
		})
		if err != nil {
			return auth.Principal{}, err
		}
		return principal, route.check(principal, scope)
	}
	credential, err := auth.Bearer(r.Header)
	if err != nil {
		return auth.Principal{}, err
	}
	if route.stale {
		if principal, err := h.store.AuthenticateStale(credential); err == nil {
			return principal, route.check(principal, scope)
		}
	}
	principal, err := check(h, rec, r, credential)
	if err != nil {
		return auth.Principal{}, err
	}
	return principal, route.check(principal, scope)
}

// checkTarget refuses a request whose target is an absolute URL of another host
// (RFC 9110 section 7.4).
func (h *handler) checkTarget(r *http.Request) error {
	if h.host != "" && r.URL.Host != "" && r.Method != http.MethodConnect &&
		!strings.EqualFold(hostPort(r.URL), h.host) {
		return &plant.Error{
			Code: plant.CodeMisdirected,
			Message: "host of the request target must be " + strconv.Quote(h.host) +
				"; got " + strconv.Quote(Shorten(hostPort(r.URL))),
		}
	}
	return nil
}

// fail writes the error response. No other function turns an error into a
// response.
func (h *handler) fail(rec *responseRecorder, r *http.Request, err error) {
	refusal := asPlantError(err)
	rec.code = refusal.Code
	if refusal.Code == plant.CodeInternal {
		rec.cause = err
	}
	if page := h.pageOf(rec, r); page != nil {
		page.Refuse(rec, r, refusal)
		return
	}
	scope := auth.Scopes(0)
	if d, ok := err.(*denied); ok { //nolint:errorlint // serve returns it unwrapped
		scope = d.scope
	}
	writeError(rec, refusal, scope)
}

// finish responds to a request whose handler panicked, and records every request
// in the metrics and the log.
func (h *handler) finish(rec *responseRecorder, r *http.Request) {
	switch v := recover(); {
	case v == nil:
	case v == http.ErrAbortHandler: //nolint:errorlint // net/http compares it in the same way
		rec.aborted = true
	case rec.status == 0:
		h.fail(rec, r, panicError(v))
	default:
		rec.cause = panicError(v)
		rec.aborted = true // the client received a part of the response and must detect the abort
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
		h.metrics.errors[rec.code].Inc()
	}
}
