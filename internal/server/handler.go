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

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// handler handles every request to one listener.
type handler struct {
	metrics   *metrics
	unmatched *routeMetrics // of requests that match no route
	inFlight  prometheus.Gauge
	log       *slog.Logger
	routes    routes
	store     *store.Store
	origins   origins
	host      string // host:port that a target may name; empty: any
	guard     *guard // nil: every Host and Origin is served

	detectsDisconnects bool // a request's context ends when its client leaves
}

// ServeHTTP gives the request its id, answers it whatever happens, and logs it.
func (d *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &responseRecorder{ResponseWriter: w, started: time.Now()}
	x.id[0] = requestID(r.Header)
	h := w.Header()
	h["X-Request-Id"] = x.id[:]
	h["X-Content-Type-Options"] = nosniff
	if len(r.TransferEncoding) > 0 || !r.ProtoAtLeast(1, 1) {
		// RFC 9112 section 6.1: a request with both Content-Length and
		// Transfer-Encoding may be an attempt at smuggling, and so may one of
		// HTTP/1.0 with Transfer-Encoding; its connection must be closed.
		// net/http hides the one header or the other of such a request.
		h["Connection"] = []string{"close"}
	} else if c := connOf(r); c != nil && !d.detectsDisconnects {
		c.answering.Store(true)
		defer c.answering.Store(false)
	}
	defer linger(x, r)
	d.inFlight.Inc()
	defer d.inFlight.Dec()
	defer d.finish(x, r)
	if err := d.serve(x, r); err != nil {
		d.fail(x, err)
	}
}

// linger reads on, for a moment, what a client is still sending of a request
// that was refused and after which its connection ends. To close it with
// something unread would reset it, and the client might never see the answer
// (RFC 9112 section 9.6). net/http itself does this only where the client would
// have kept the connection.
func linger(x *responseRecorder, r *http.Request) {
	const atMost = 500 * time.Millisecond
	if x.code == 0 || !r.Close || r.Body == http.NoBody {
		return
	}
	c := http.NewResponseController(x.ResponseWriter)
	if err := errors.Join(c.Flush(), c.SetReadDeadline(time.Now().Add(atMost))); err != nil {
		return // the client has left
	}
	_, _ = io.Copy(io.Discard, r.Body)
}

var nosniff = []string{"nosniff"}

// serve finds the route of a request, checks the credential before anything
// of the body is read, and lets the route answer.
func (d *handler) serve(x *responseRecorder, r *http.Request) error {
	if d.origins.preflight(x, r) {
		return nil
	}
	if err := d.checkTarget(r); err != nil {
		return err
	}
	if d.guard != nil {
		if err := d.guard.check(r); err != nil {
			return err
		}
	}
	at, ok := d.routes[r.URL.Path]
	if !ok {
		return &plant.Error{Code: plant.CodeNotFound, Message: "nothing is served at this path"}
	}
	route, ok := at.byMethod[r.Method]
	if !ok {
		x.route = at.first
		x.Header().Set("Allow", at.allow)
		return &plant.Error{Code: plant.CodeMethodNotAllowed, Message: "this path is not served with this method: use " + at.allow}
	}
	x.route = route
	who, err := d.authorize(r, route)
	x.who = who.Name
	if err != nil {
		return &denied{error: err, scope: route.scope}
	}
	return route.handle(x, r, who)
}

// denied is the refusal of a credential, with the scope that would do.
type denied struct {
	error
	scope auth.Scopes
}

func (e *denied) Unwrap() error { return e.error }

func (d *handler) authorize(r *http.Request, route *route) (auth.Principal, error) {
	if route.open {
		return auth.Principal{}, nil
	}
	credential, err := auth.Bearer(r.Header)
	if err != nil {
		return auth.Principal{}, err
	}
	who, err := d.store.Authenticate(r.Context(), credential)
	if err != nil {
		return auth.Principal{}, err
	}
	return who, who.Require(route.scope)
}

// checkTarget refuses a request whose target is a whole URL of another host
// (RFC 9110 section 7.4), and the opening of HTTP/2 without TLS, which
// net/http hands to handlers.
func (d *handler) checkTarget(r *http.Request) error {
	if r.ProtoMajor != 1 {
		return &plant.Error{Code: plant.CodeHTTPVersion, Message: "HTTP/2 is not served without TLS: use HTTP/1.1"}
	}
	if d.host != "" && r.URL.Host != "" && r.Method != http.MethodConnect && !strings.EqualFold(hostPort(r.URL), d.host) {
		return &plant.Error{Code: plant.CodeMisdirected, Message: "the request's target names another host than this store's"}
	}
	return nil
}

// fail is the one place where an error becomes an answer.
func (d *handler) fail(x *responseRecorder, err error) {
	refusal := asPlantError(err)
	x.code = refusal.Code
	if refusal.Code == plant.CodeInternal {
		x.cause = err
	}
	scope := auth.Scopes(0)
	if d, ok := err.(*denied); ok { //nolint:errorlint // made in serve and not wrapped since
		scope = d.scope
	}
	writeError(x, refusal, scope)
}

// finish answers a request whose handler panicked, and logs every request.
func (d *handler) finish(x *responseRecorder, r *http.Request) {
	v := recover()
	if v == http.ErrAbortHandler { //nolint:errorlint // net/http compares it like this
		panic(v)
	}
	if v != nil {
		err := fmt.Errorf("panic: %v\n%s", v, debug.Stack())
		if x.status == 0 {
			d.fail(x, err)
		} else {
			x.cause = err
		}
	}
	took := time.Since(x.started)
	d.count(x, took)
	d.logRequest(x, r, took)
	if v != nil && x.cause != nil && x.code == 0 {
		panic(http.ErrAbortHandler) // the answer had begun: only breaking it off tells the client
	}
}

func (d *handler) count(x *responseRecorder, took time.Duration) {
	route := d.unmatched
	if x.route != nil {
		route = x.route.metrics
	}
	route.count(x.status, took)
	if x.code != 0 {
		d.metrics.errors[x.code].Inc()
	}
}
