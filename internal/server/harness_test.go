package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/admin"
	"plantstore/internal/adminapi"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/listen"
	"plantstore/internal/plant"
	"plantstore/internal/server"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/trace"
	"plantstore/internal/writepath"
)

// setup has the options of a harness.
type setup struct {
	path        string // file of the store; empty: a new file
	token       string // secret of a token in the file; empty: a new token
	seed        func(*sqlite.Engine)
	wrap        func(writepath.Engine) writepath.Engine // wraps the real engine; nil: none
	jwt         writepath.VerifyJWT
	mayAccept   func() error
	queue       writepath.Limits
	limits      server.Limits
	connections listen.Limits // for the public listener
	admins      listen.Limits // for the admin listener
	prefix      string        // the path of the base URL
	base        string        // the whole base URL; empty: address of the public listener and prefix
	ownHostOnly bool
	origins     []string
	level       slog.Level // the log's
	pprof       bool
	api         bool // the admin API
	routes      []server.Route
	adminHosts  []string
	proxies     []netip.Prefix
	recorder    *audit.Recorder
	tracer      *trace.Tracer
	writeTime   time.Duration // WriteTimeout of the admin listener; 0: unchanged
	tls         *tlsSetup     // on the public listener; nil: no TLS
}

// harness is a running server: both listeners on 127.0.0.1, a store, and an engine with a file.
type harness struct {
	t         testing.TB
	path      string
	tls       *tlsSetup
	engine    *sqlite.Engine
	writePath *writepath.Service
	config    server.Config
	log       *logBuffer
	token     string // secret of the token gardener, which may create plants
	admins    string // secret of the token operator, which may use the admin listener; empty if the store is not new

	operations     *admin.Service // nil: no admin API
	publicServer   *server.Server
	publicListener *listen.Listener
	adminServer    *server.Server
	servers        []*server.Server // all running servers
	public, admin  string           // addresses
	document       *contract
	stopOnce       sync.Once
	running        sync.WaitGroup
}

const wait = 5 * time.Minute // timeout of every wait; a wait that succeeds is short

func start(t testing.TB, change ...func(*setup)) *harness {
	t.Helper()
	s := setup{
		queue: writepath.Limits{QueueMax: 1000, Bytes: 1 << 20, CommitTimeout: wait, AnswerTimeout: wait},
		level: slog.LevelDebug,
		limits: server.Limits{
			BodyMax: 64 << 10, HeaderMax: 16 << 10, RequestTimeout: wait, AnswerTimeout: wait, IdleTimeout: wait,
			QueueMax: 1000,
		},
	}
	for _, f := range change {
		f(&s)
	}
	if s.path == "" {
		s.path = filepath.Join(t.TempDir(), "plants.db")
	}
	h := &harness{t: t, path: s.path, token: s.token, tls: s.tls, log: newLogBuffer()}
	log := slog.New(slog.NewJSONHandler(h.log, &slog.HandlerOptions{Level: s.level}))
	var err error
	metrics := prometheus.NewRegistry()
	if h.engine, err = sqlite.Open(
		t.Context(), sqlite.Config{Path: s.path, Server: true, Log: log, Metrics: metrics},
	); err != nil {
		t.Fatal(err)
	}
	if h.token == "" {
		h.token = mint(t, h.engine, auth.Token{Name: "gardener", Scopes: auth.ScopeCreate})
		h.admins = mint(t, h.engine, auth.Token{Name: "operator", Scopes: auth.ScopeAdmin | auth.ScopeMetrics})
	}
	if s.seed != nil {
		s.seed(h.engine)
	}
	engine := writepath.Engine(h.engine)
	if s.wrap != nil {
		engine = s.wrap(engine)
	}
	if h.writePath, err = writepath.New(
		t.Context(), writepath.Config{
			Engine: engine, Limits: s.queue, JWT: s.jwt, MayAccept: s.mayAccept, Log: log, Metrics: metrics, Tracer: s.tracer,
		},
	); err != nil {
		t.Fatal(err)
	}
	h.serve(s, log, metrics)
	t.Cleanup(h.stop)
	return h
}

// serve starts both servers.
func (h *harness) serve(s setup, log *slog.Logger, metrics *prometheus.Registry) {
	h.t.Helper()
	s.connections.Proxies = s.proxies
	public := h.listen("public", log, metrics, s.connections)
	admin := h.listen("admin", log, metrics, s.admins)
	h.public, h.admin = public.Addr().String(), admin.Addr().String()
	if s.base == "" {
		s.base = h.scheme() + "://" + h.public + s.prefix
	}
	base, err := url.Parse(s.base)
	if err != nil {
		h.t.Fatal(err)
	}
	h.config = server.Config{
		Warnings:  func(context.Context) any { return []string{"a warning"} },
		WritePath: h.writePath, Log: log, BaseURL: base, OwnHostOnly: s.ownHostOnly, CORSOrigins: s.origins, Limits: s.limits,
		Metrics: metrics, Pprof: s.pprof, AdminHosts: s.adminHosts,
		TrustedProxies: s.proxies, Audit: s.recorder, Tracer: s.tracer,
	}
	h.document = documentAt(h.t, strings.TrimSuffix(base.Path, "/"))
	if s.api {
		h.config.AdminRoutes = h.apiRoutes()
	}
	h.config.AdminRoutes = append(h.config.AdminRoutes, s.routes...)
	publicServer, adminServer, err := server.New(h.config)
	if err != nil {
		h.t.Fatal(err)
	}
	h.publicServer, h.adminServer, h.publicListener = publicServer, adminServer, public
	if s.writeTime > 0 {
		adminServer.SetWriteTimeout(s.writeTime)
	}
	h.run(publicServer, public)
	h.run(adminServer, admin)
}

// apiRoutes returns the routes of the admin API.
func (h *harness) apiRoutes() []server.Route {
	h.t.Helper()
	var err error
	if h.operations, err = admin.New(admin.Config{
		Engine: h.engine, Settings: func() []admin.Setting { return nil },
	}); err != nil {
		h.t.Fatal(err)
	}
	routes, err := adminapi.New(h.operations, slog.New(slog.DiscardHandler)).Routes()
	if err != nil {
		h.t.Fatal(err)
	}
	return routes
}

func (h *harness) listen(
	name string, log *slog.Logger, metrics prometheus.Registerer, limits listen.Limits,
) *listen.Listener {
	h.t.Helper()
	l, err := listen.Listen(
		h.t.Context(), listen.Config{Name: name, Address: "127.0.0.1:0", Limits: limits, Log: log, Metrics: metrics},
	)
	if err != nil {
		h.t.Fatal(err)
	}
	if h.tls != nil && name == "public" {
		l.UseTLS(h.tls.config())
	}
	return l
}

// run serves a listener until stop.
func (h *harness) run(s *server.Server, l *listen.Listener) {
	h.servers = append(h.servers, s)
	h.running.Go(func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			h.t.Errorf("serve: %v", err)
		}
	})
}

// stop closes the servers, the store and the engine.
func (h *harness) stop() {
	h.stopOnce.Do(func() {
		for _, s := range h.servers {
			_ = s.Close()
		}
		h.running.Wait()
		if h.operations != nil {
			h.operations.Close()
		}
		h.writePath.Close()
		if err := h.engine.Close(); err != nil {
			h.t.Error(err)
		}
	})
}

// mint creates a token and returns its secret.
func mint(t testing.TB, engine *sqlite.Engine, token auth.Token) string {
	t.Helper()
	secret := auth.Mint()
	token.Hash, token.CreatedAt = auth.HashOf(secret), time.Now()
	if _, err := engine.CreateToken(t.Context(), token, audit.Origin{}); err != nil {
		t.Fatal(err)
	}
	return secret
}

// scopesOf parses scopes.
func scopesOf(t testing.TB, text string) auth.Scopes {
	t.Helper()
	scopes, err := auth.ParseScopes(text)
	if err != nil {
		t.Fatal(err)
	}
	return scopes
}

// stored returns the record of an id.
func (h *harness) stored(id int64) plant.Record {
	h.t.Helper()
	record, err := h.engine.Get(h.t.Context(), id)
	if err != nil {
		h.t.Fatalf("plant %d: %v", id, err)
	}
	return record
}

// notStored fails the test if the store has a record of an id.
func (h *harness) notStored(id int64) {
	h.t.Helper()
	if record, err := h.engine.Get(h.t.Context(), id); !errors.Is(err, store.ErrNotFound) {
		h.t.Errorf("plant %d: got %+v, %v, want none", id, record, err)
	}
}

// send sends a request to the public listener over a new connection. It compares the response with the API document and
// returns it.
func (h *harness) send(raw string) response { return h.sendTo(h.public, raw) }

func (h *harness) sendTo(address, raw string) response {
	h.t.Helper()
	if address == h.admin { // which refuses other hosts
		raw = strings.ReplaceAll(raw, "{token}", h.admins)
		raw = strings.Replace(raw, "\r\nHost: plants.example\r\n", "\r\nHost: "+address+"\r\n", 1)
	}
	raw = h.fill(raw)
	c := h.dial(h.t, address)
	defer c.Close()
	c.write(raw)
	method, _, _ := strings.Cut(raw, " ")
	a := c.read(method)
	if req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw))); err == nil {
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			c.closeWrite() // net/http has responded, but waits for the rest of the body
		}
	}
	if a.Header.Get("Connection") == "close" {
		c.expectClosed()
	}
	if address == h.public {
		h.validate(raw, a)
	}
	return a
}

// documents caches the contracts by the path of their base URL. Parsing one takes longer than a test.
var documents struct {
	sync.Mutex
	byPath map[string]*contract
}

func documentAt(t testing.TB, path string) *contract {
	t.Helper()
	documents.Lock()
	defer documents.Unlock()
	if documents.byPath == nil {
		documents.byPath = map[string]*contract{}
	}
	if documents.byPath[path] == nil {
		documents.byPath[path] = newContract(t, newDocument(t, "http://plants.example"+path))
	}
	return documents.byPath[path]
}

// fill replaces {token} by the secret.
func (h *harness) fill(raw string) string { return strings.ReplaceAll(raw, "{token}", h.token) }

// validate compares a response with the API document, which describes all responses of the operation and the errors of
// other paths.
func (h *harness) validate(raw string, a response) {
	h.t.Helper()
	if a.Header["X-Request-Id"] == nil { // from net/http
		return
	}
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
	if err != nil {
		req, _ = http.NewRequestWithContext(context.Background(), http.MethodPost, "/plants", http.NoBody)
	}
	plants := strings.TrimSuffix(h.config.BaseURL.Path, "/") + "/plants"
	isPlants := err != nil || req.URL.Path == plants
	if req.Method == http.MethodHead || a.Status < 400 && (!isPlants || a.Status == http.StatusNoContent) {
		return
	}
	req.URL = &url.URL{Scheme: "http", Host: "plants.example", Path: req.URL.Path}
	if err != nil {
		req.URL.Path = plants
	}
	body, _ := io.ReadAll(req.Body) // may be incomplete
	res := &http.Response{StatusCode: a.Status, Header: a.Header}
	if a.Header.Get("X-Request-Id") == generatedID {
		res.Header = a.Header.Clone()
		res.Header.Set("X-Request-Id", "generated")
	}
	h.document.check(h.t, req, body, res, []byte(a.Body))
}

// withT returns the harness for a subtest.
func (h *harness) withT(t *testing.T) *harness {
	return &harness{
		t: t, path: h.path, tls: h.tls, engine: h.engine, writePath: h.writePath, config: h.config,
		log: h.log, token: h.token, admins: h.admins, public: h.public, admin: h.admin, document: h.document,
	}
}

// logBuffer is the log of a server.
type logBuffer struct {
	mu      sync.Mutex
	text    bytes.Buffer  // guarded by mu
	changed chan struct{} // closed and replaced when text grows; guarded by mu
}

func newLogBuffer() *logBuffer { return &logBuffer{changed: make(chan struct{})} }

func (b *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func (b *logBuffer) string() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Write implements io.Writer.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.changed)
	b.changed = make(chan struct{})
	return b.text.Write(p)
}

// line is one line of the log.
type line map[string]any

// lines returns the lines about requests without time and duration.
func (b *logBuffer) lines(t testing.TB) (lines []line, changed <-chan struct{}) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for text := range strings.Lines(b.text.String()) {
		var l line
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if _, ok := l["request_id"]; ok {
			maps.DeleteFunc(l, func(key string, _ any) bool { return key == "time" || key == "took_us" })
			lines = append(lines, l)
		}
	}
	return lines, b.changed
}

// awaitMessage waits for a line with a message.
func (b *logBuffer) awaitMessage(t testing.TB, text string) {
	t.Helper()
	timeout := time.After(wait)
	for {
		b.mu.Lock()
		found, changed := strings.Contains(b.text.String(), `"msg":"`+text+`"`), b.changed
		b.mu.Unlock()
		if found {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("no line %q in the log:\n%s", text, b.string())
		}
	}
}

// await waits for the line about a request and returns it.
func (b *logBuffer) await(t testing.TB, id string) line {
	t.Helper()
	timeout := time.After(wait)
	for {
		lines, changed := b.lines(t)
		for _, l := range lines {
			if l["request_id"] == id {
				return l
			}
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("no line about %s in the log:\n%s", id, &b.text)
		}
	}
}
