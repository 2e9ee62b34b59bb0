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
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/server"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
)

// setup is what a test may have otherwise than a harness usually has it.
type setup struct {
	path        string // the store's file; empty: a new one
	token       string // a secret that the file knows already; empty: a new one
	seed        func(store.Engine)
	wrap        func(store.Engine) store.Engine // what goes between the store and the real engine
	queue       store.Limits
	limits      server.Limits
	prefix      string // the path of the base URL
	base        string // the whole base URL; empty: the public listener's address and prefix
	ownHostOnly bool
	origins     []string
	level       slog.Level // of the log
	pprof       bool
	adminHosts  []string
	writeTime   time.Duration // WriteTimeout of the admin listener; 0: as it is
}

// harness is a running server: both listeners on 127.0.0.1, the real store, and a
// real engine on a file.
type harness struct {
	t      testing.TB
	path   string
	engine *sqlite.Engine
	store  *store.Store
	config server.Config
	log    *logBuffer
	token  string // named gardener, may create plants

	publicServer  *http.Server
	adminServer   *http.Server
	servers       []*http.Server // all that run
	public, admin string         // addresses
	document      *contract
	stopOnce      sync.Once
	running       sync.WaitGroup
}

const wait = 20 * time.Second // for anything that has to happen; nothing waits as long if all is well

func start(t testing.TB, change ...func(*setup)) *harness {
	t.Helper()
	s := setup{
		queue: store.Limits{QueueMax: 1000, Bytes: 1 << 20, CommitTime: wait, AnswerTimeout: wait},
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
	h := &harness{t: t, path: s.path, token: s.token, log: newLogBuffer()}
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
	}
	if s.seed != nil {
		s.seed(h.engine)
	}
	engine := store.Engine(h.engine)
	if s.wrap != nil {
		engine = s.wrap(engine)
	}
	if h.store, err = store.New(
		t.Context(), store.Config{Engine: engine, Limits: s.queue, Log: log, Metrics: metrics},
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
	public, admin := h.listen("public", log, metrics), h.listen("admin", log, metrics)
	h.public, h.admin = public.Addr().String(), admin.Addr().String()
	if s.base == "" {
		s.base = "http://" + h.public + s.prefix
	}
	base, err := url.Parse(s.base)
	if err != nil {
		h.t.Fatal(err)
	}
	h.config = server.Config{
		Store: h.store, Log: log, BaseURL: base, OwnHostOnly: s.ownHostOnly, CORSOrigins: s.origins, Limits: s.limits,
		Metrics: metrics, Pprof: s.pprof, AdminHosts: s.adminHosts,
	}
	h.document = documentAt(h.t, strings.TrimSuffix(base.Path, "/"))
	publicServer, adminServer, err := server.New(h.config)
	if err != nil {
		h.t.Fatal(err)
	}
	h.publicServer, h.adminServer = publicServer, adminServer
	if s.writeTime > 0 {
		adminServer.WriteTimeout = s.writeTime
	}
	h.run(publicServer, public)
	h.run(adminServer, admin)
}

func (h *harness) listen(name string, log *slog.Logger, metrics prometheus.Registerer) net.Listener {
	h.t.Helper()
	l, err := server.Listen(
		h.t.Context(), server.ListenConfig{Name: name, Address: "127.0.0.1:0", Log: log, Metrics: metrics},
	)
	if err != nil {
		h.t.Fatal(err)
	}
	return l
}

// run serves a listener until stop.
func (h *harness) run(s *http.Server, l net.Listener) {
	h.servers = append(h.servers, s)
	h.running.Go(func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			h.t.Errorf("serve: %v", err)
		}
	})
}

// stop ends the server and its store, as a restart does.
func (h *harness) stop() {
	h.stopOnce.Do(func() {
		for _, s := range h.servers {
			_ = s.Close()
		}
		h.running.Wait()
		h.store.Close()
		if err := h.engine.Close(); err != nil {
			h.t.Error(err)
		}
	})
}

// mint gives an engine one more token, and returns its secret.
func mint(t testing.TB, engine store.Engine, token auth.Token) string {
	t.Helper()
	secret := auth.Mint()
	token.Hash, token.CreatedAt = auth.HashOf(secret), time.Now()
	if _, err := engine.CreateToken(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	return secret
}

// scopesOf parses scopes; some of them only tokens of older versions have.
func scopesOf(t testing.TB, text string) auth.Scopes {
	t.Helper()
	scopes, err := auth.ParseScopes(text)
	if err != nil {
		t.Fatal(err)
	}
	return scopes
}

// stored returns what the store has under an id.
func (h *harness) stored(id int64) plant.Record {
	h.t.Helper()
	record, err := h.engine.Get(h.t.Context(), id)
	if err != nil {
		h.t.Fatalf("plant %d: %v", id, err)
	}
	return record
}

// notStored fails the test if the store has a plant with that id.
func (h *harness) notStored(id int64) {
	h.t.Helper()
	if record, err := h.engine.Get(h.t.Context(), id); !errors.Is(err, store.ErrNotFound) {
		h.t.Errorf("plant %d: got %+v, %v, want none", id, record, err)
	}
}

// send sends a request over a connection of its own to the public listener, and
// returns the answer, after holding it against the API document.
func (h *harness) send(raw string) answer { return h.sendTo(h.public, raw) }

func (h *harness) sendTo(address, raw string) answer {
	h.t.Helper()
	raw = h.fill(raw)
	if address == h.admin { // which serves no other host
		raw = strings.Replace(raw, "\r\nHost: plants.example\r\n", "\r\nHost: "+address+"\r\n", 1)
	}
	c := dial(h.t, address)
	defer c.Close()
	c.write(raw)
	method, _, _ := strings.Cut(raw, " ")
	a := c.read(method)
	if req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw))); err == nil {
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			c.done() // net/http has answered, but would wait for the rest of the body
		}
	}
	if a.Header.Get("Connection") == "close" {
		c.closed()
	}
	if address == h.public {
		h.validate(raw, a)
	}
	return a
}

// documents are the contracts that were read already, by the path of their
// base URL: reading one takes longer than a test.
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

// fill puts the token in its place.
func (h *harness) fill(raw string) string { return strings.ReplaceAll(raw, "{token}", h.token) }

// validate holds an answer against the API document, as far as the document
// speaks of it: all of the one operation, and every error.
func (h *harness) validate(raw string, a answer) {
	h.t.Helper()
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
	body, _ := io.ReadAll(req.Body) // what did not come is not there
	res := &http.Response{StatusCode: a.Status, Header: a.Header}
	if a.Header.Get("X-Request-Id") == madeID {
		res.Header = a.Header.Clone()
		res.Header.Set("X-Request-Id", "made")
	}
	h.document.check(h.t, req, body, res, []byte(a.Body))
}

// on is the harness for a subtest.
func (h *harness) on(t *testing.T) *harness {
	return &harness{
		t: t, path: h.path, engine: h.engine, store: h.store, config: h.config, log: h.log, token: h.token,
		public: h.public, admin: h.admin, document: h.document,
	}
}

// logBuffer is the log of a server.
type logBuffer struct {
	mu      sync.Mutex
	text    bytes.Buffer  // guarded by mu
	changed chan struct{} // closed and made anew when text grows; guarded by mu
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

// lines returns the lines about requests, without what differs in each run.
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

// await returns the line about the request of that id.
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
