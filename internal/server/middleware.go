package server

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// door is the handler of one listener: every request to it goes through
// ServeHTTP and nothing else.
type door struct {
	meters  *meters
	none    *routeMeters // of requests that match no route
	flying  prometheus.Gauge
	log     *slog.Logger
	routes  routes
	store   *store.Store
	origins origins
	host    string // host:port that a target may name; empty: any
	guard   *guard // nil: every Host and Origin is served

	detectsDisconnects bool // a request's context ends when its client leaves
}

// exchange is one request and what became of it, for the log.
type exchange struct {
	http.ResponseWriter
	id     [1]string // as the value of a header
	status int
	bytes  int
	route  *route // nil if there is none
	who    string // the name of the credential
	code   plant.Code
	cause  error // what an internal error hid from the client
	begun  time.Time
}

// WriteHeader notes the status.
func (x *exchange) WriteHeader(status int) {
	x.status = status
	x.ResponseWriter.WriteHeader(status)
}

// Write notes the bytes.
func (x *exchange) Write(p []byte) (int, error) {
	if x.status == 0 {
		x.status = http.StatusOK
	}
	n, err := x.ResponseWriter.Write(p)
	x.bytes += n
	return n, err
}

// Unwrap lets http.ResponseController reach the connection's deadlines.
func (x *exchange) Unwrap() http.ResponseWriter { return x.ResponseWriter }

// ServeHTTP gives the request its id, answers it whatever happens, and logs it.
func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{ResponseWriter: w, begun: time.Now()}
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
	d.flying.Inc()
	defer d.flying.Dec()
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
func linger(x *exchange, r *http.Request) {
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
func (d *door) serve(x *exchange, r *http.Request) error {
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

func (d *door) authorize(r *http.Request, route *route) (auth.Principal, error) {
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
func (d *door) checkTarget(r *http.Request) error {
	if r.ProtoMajor != 1 {
		return &plant.Error{Code: plant.CodeHTTPVersion, Message: "HTTP/2 is not served without TLS: use HTTP/1.1"}
	}
	if d.host != "" && r.URL.Host != "" && r.Method != http.MethodConnect && !strings.EqualFold(hostPort(r.URL), d.host) {
		return &plant.Error{Code: plant.CodeMisdirected, Message: "the request's target names another host than this store's"}
	}
	return nil
}

// fail is the one place where an error becomes an answer.
func (d *door) fail(x *exchange, err error) {
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
func (d *door) finish(x *exchange, r *http.Request) {
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
	took := time.Since(x.begun)
	d.count(x, took)
	d.logRequest(x, r, took)
	if v != nil && x.cause != nil && x.code == 0 {
		panic(http.ErrAbortHandler) // the answer had begun: only breaking it off tells the client
	}
}

func (d *door) count(x *exchange, took time.Duration) {
	meters := d.none
	if x.route != nil {
		meters = x.route.meters
	}
	meters.count(x.status, took)
	if x.code != 0 {
		d.meters.errors[x.code].Inc()
	}
}

// LevelAccess is the least level of a log at which requests that succeeded are
// logged, between debug and info: at info an operator has everything but these.
// Their lines have the level INFO, which every reader of logs knows.
const LevelAccess = slog.Level(-2)

func (d *door) logRequest(x *exchange, r *http.Request, took time.Duration) {
	level, least := slog.LevelInfo, slog.LevelInfo
	switch {
	case x.cause != nil:
		level, least = slog.LevelError, slog.LevelError
	case x.status < http.StatusBadRequest:
		least = LevelAccess
	}
	if !d.log.Enabled(context.Background(), least) {
		return
	}
	attrs := make([]slog.Attr, 0, 8)
	attrs = append(attrs,
		slog.String("request_id", x.id[0]),
		slog.Int("status", x.status),
		slog.Int("bytes", x.bytes),
		slog.Int64("took_us", took.Microseconds()),
	)
	if x.who != "" {
		attrs = append(attrs, slog.String("credential", x.who))
	}
	if x.code != 0 {
		attrs = append(attrs, slog.Int("error_code", int(x.code)))
	}
	if x.cause != nil {
		attrs = append(attrs, slog.Any("error", x.cause))
	}
	// By the handler itself: a logger would look up its caller first, which is
	// always this line.
	line := slog.NewRecord(x.begun.Add(took), level, "request", 0)
	line.AddAttrs(attrs...)
	_ = d.logOf(x, r).Handle(context.Background(), line) // there is nowhere to tell it
}

// logOf returns a handler that logs where a request came from and what it
// asked for, without a query. A connection that asks for the same again uses
// the same handler, in which that is formatted already.
func (d *door) logOf(x *exchange, r *http.Request) slog.Handler {
	c := connOf(r)
	same := c != nil && x.route != nil && c.logged == x.route && c.loggedMethod == r.Method
	if same {
		return c.logTo
	}
	client, _, _ := net.SplitHostPort(r.RemoteAddr)
	path := d.loggedPath(r.URL.Path)
	if x.route != nil {
		path = x.route.path
	}
	to := d.log.Handler().WithAttrs([]slog.Attr{
		slog.String("client", client),
		slog.String("method", loggedMethod(r.Method)),
		slog.String("path", path),
	})
	if c != nil {
		c.logged, c.loggedMethod, c.logTo = x.route, r.Method, to
	}
	return to
}

// harmless returns a client's text as an answer to it may repeat it: not too
// long, and without what may be a secret in the wrong place.
func harmless(text string) string {
	const bytesMax = 100
	switch {
	case auth.LooksLikeSecret(text):
		return "(hidden: it may have a token)"
	case len(text) > bytesMax:
		return strings.ToValidUTF8(text[:bytesMax], "") + "…"
	}
	return text
}

// requestID returns the request's own id if it is one line of harmless
// characters, or makes one of 128 random bits.
func requestID(header http.Header) string {
	if id := header["X-Request-Id"]; len(id) == 1 && saneID(id[0]) {
		return id[0]
	}
	return newRequestID()
}

func newRequestID() string {
	var random [16]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	var id [2 * len(random)]byte
	hex.Encode(id[:], random[:])
	return string(id[:])
}

func saneID(id string) bool {
	const bytesMax = 128
	if id == "" || len(id) > bytesMax || auth.LooksLikeSecret(strings.ToLower(id)) {
		return false
	}
	for i := range len(id) {
		c := id[i]
		alphanumeric := '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
		if !alphanumeric && strings.IndexByte("._~+/=:@-", c) < 0 {
			return false
		}
	}
	return true
}
