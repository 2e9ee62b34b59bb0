package adminapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/admin"
	"plantstore/internal/adminapi"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/backup"
	"plantstore/internal/listen"
	"plantstore/internal/plant"
	"plantstore/internal/server"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/webhook"
	"plantstore/internal/writepath"
)

// setup has the options of a harness.
type setup struct {
	plants []store.Create                          // stored before the start
	wrap   func(admin.Engine) admin.Engine         // wraps the real engine of the service; nil: none
	insert func(writepath.Engine) writepath.Engine // wraps the real engine of the store; nil: none

	issuer   string
	settings []admin.Setting
	backups  bool // the server makes backups
	limits   listen.Limits

	deliveries map[int64]webhook.Status // what the server reports
	unrecorded func(*store.Unrecorded)  // set in the service
}

// harness is a server with the admin API, over a store in a file.
type harness struct {
	t         testing.TB
	path      string // path of the store
	engine    *sqlite.Engine
	backups   *backup.Service // nil: none
	service   *admin.Service
	api       *adminapi.API
	writePath *writepath.Service
	metrics   *prometheus.Registry
	url       string // the API's
	secret    string // secret of a token with the scope plants:read
	admins    string // secret of a token with the scope admin
	audited   func() // writes the counted events to the audit log; no request may follow
	log       syncBuffer
	client    http.Client
	router    routers.Router // has the routes of the API document
}

// createdAt is the time of creation of the plants of the tests.
var createdAt = time.Date(2026, 11, 21, 9, 30, 0, 123456000, time.UTC)

func start(t testing.TB, s setup) *harness {
	t.Helper()
	h := &harness{t: t}
	log := slog.New(slog.NewTextHandler(&h.log, &slog.HandlerOptions{Level: server.LevelAccess}))
	var err error
	metrics := prometheus.NewRegistry()
	h.path = filepath.Join(t.TempDir(), "plants.db")
	if h.engine, err = sqlite.Open(
		t.Context(), sqlite.Config{Path: h.path, Server: true, Metrics: metrics},
	); err != nil {
		t.Fatal(err)
	}
	if s.backups {
		h.startBackups(metrics)
	}
	h.secret = h.mint("reader", auth.ScopeRead)
	h.admins = h.mint("operator", auth.ScopeAdmin)
	if len(s.plants) > 0 {
		if _, err := h.engine.Insert(t.Context(), s.plants); err != nil {
			t.Fatal(err)
		}
	}
	inserting := writepath.Engine(h.engine)
	if s.insert != nil {
		inserting = s.insert(inserting)
	}
	st, err := writepath.New(t.Context(), writepath.Config{Engine: inserting, Metrics: metrics})
	if err != nil {
		t.Fatal(err)
	}
	h.writePath, h.metrics = st, metrics
	engine := admin.Engine(h.engine)
	if s.wrap != nil {
		engine = s.wrap(engine)
	}
	recorder := audit.NewRecorder(h.engine.AppendAudit, log)
	h.audited = sync.OnceFunc(recorder.Close)
	if h.service, err = admin.New(admin.Config{
		Engine: engine, Audit: recorder, Deliveries: func() map[int64]webhook.Status { return s.deliveries },
		WritePath: st, Log: log, Backups: h.backups, DB: "plants.db", Version: "test",
		Unrecorded: s.unrecorded, Issuer: s.issuer, Settings: func() []admin.Setting { return s.settings },
	}); err != nil {
		t.Fatal(err)
	}
	stop := h.serve(st, log, s.limits)
	t.Cleanup(func() {
		stop()
		h.service.Close()
		h.audited()
		if h.backups != nil {
			h.backups.Close()
		}
		st.Close()
		if err := h.engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// startBackups makes the backup service of the harness. It has no schedule.
func (h *harness) startBackups(metrics prometheus.Registerer) {
	h.t.Helper()
	var err error
	h.backups, err = backup.New(backup.Config{
		DB: h.path, Destination: h.t.TempDir(), Scratch: h.t.TempDir(), Every: time.Hour, Keep: 1,
		Record: func(e audit.Event) {
			if err := h.engine.AppendAudit(context.Background(), e); err != nil {
				h.t.Error(err)
			}
		},
		Log: slog.New(slog.DiscardHandler), Metrics: metrics,
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// serve starts the admin server and returns the function that ends it.
func (h *harness) serve(st *writepath.Service, log *slog.Logger, limits listen.Limits) (stop func()) {
	h.t.Helper()
	h.api = adminapi.New(h.service, log)
	routes, err := h.api.Routes()
	if err != nil {
		h.t.Fatal(err)
	}
	_, adminServer, err := server.New(server.Config{
		WritePath: st, Log: log, BaseURL: &url.URL{Scheme: "http", Host: "localhost"}, AdminRoutes: routes,
		Metrics: prometheus.NewRegistry(),
		Limits:  server.Limits{HeaderMax: 16 << 10, RequestTimeout: wait, AnswerTimeout: wait, IdleTimeout: wait},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	l, err := listen.Listen(h.t.Context(), listen.Config{Name: "admin", Address: "127.0.0.1:0", Limits: limits})
	if err != nil {
		h.t.Fatal(err)
	}
	h.url = "http://" + l.Addr().String() + "/api/v1"
	var running sync.WaitGroup
	running.Go(func() {
		if err := adminServer.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			h.t.Errorf("serve: %v", err)
		}
	})
	h.router = routerOf(h.t, h.get("/openapi.json").body)
	return func() {
		_ = adminServer.Close()
		running.Wait()
		h.client.CloseIdleConnections()
	}
}

const wait = 5 * time.Minute // timeout of every wait; a wait that succeeds is short

func (h *harness) mint(name string, scopes auth.Scopes) (secret string) {
	h.t.Helper()
	secret = auth.Mint()
	if _, err := h.engine.CreateToken(h.t.Context(), auth.Token{
		Name: name, Hash: auth.HashOf(secret), Scopes: scopes, CreatedAt: time.Now(),
	}, audit.Origin{}); err != nil {
		h.t.Fatal(err)
	}
	return secret
}

// response is a response with the headers that differ between responses.
type response struct {
	status      int
	contentType string
	body        string
}

const ndjson = "application/x-ndjson"

func init() {
	openapi3filter.RegisterBodyDecoder(ndjson, openapi3filter.JSONBodyDecoder) // a line is JSON
	openapi3filter.RegisterBodyDecoder("text/csv", openapi3filter.PlainBodyDecoder)
	openapi3filter.RegisterBodyDecoder("application/vnd.sqlite3", openapi3filter.FileBodyDecoder)
}

func ok(body string) response { return response{200, "application/json", body + "\n"} }

// get sends a GET request for a target below the API's path, and compares the response with the API document.
func (h *harness) get(target string) response {
	h.t.Helper()
	res := h.open(http.MethodGet, target)
	defer res.Body.Close()
	return h.read(res)
}

// post sends a POST request with a JSON body and further headers, and compares the response with the API document.
func (h *harness) post(target, body string, headers ...string) response {
	h.t.Helper()
	res := h.send(http.MethodPost, target, body, headers...)
	defer res.Body.Close()
	return h.read(res)
}

// read reads a response and compares it with the API document.
func (h *harness) read(res *http.Response) response {
	h.t.Helper()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	switch {
	case h.router == nil, res.Request.Method == http.MethodHead, len(body) == 0:
	case res.Header.Get("Content-Type") == ndjson:
		lines := slices.Collect(bytes.Lines(body))
		const most = 20 // a comparison takes longer than a line
		for _, line := range append(lines[:min(most, len(lines)-1)], lines[len(lines)-1]) {
			h.validate(res, line)
		}
	default:
		h.validate(res, body)
	}
	return response{res.StatusCode, res.Header.Get("Content-Type"), string(body)}
}

// open sends a request and returns the response, whose body the caller closes.
func (h *harness) open(method, target string) *http.Response {
	h.t.Helper()
	return h.send(method, target, "")
}

// send sends a request with a body, and with further headers of the form Name: value.
func (h *harness) send(method, target, body string, headers ...string) *http.Response {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url+target, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	secret := h.admins
	if strings.HasPrefix(target, "/plants") {
		secret = h.secret
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	if body != "" || method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		req.Header.Set(name, value)
	}
	res, err := h.client.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	return res
}

// documents caches the router of the document. Parsing it takes longer than a test.
var documents struct {
	sync.Mutex
	router routers.Router
}

func routerOf(t testing.TB, document string) routers.Router {
	t.Helper()
	documents.Lock()
	defer documents.Unlock()
	if documents.router != nil {
		return documents.router
	}
	doc, err := loadDocument(document)
	if err != nil {
		t.Fatal(err)
	}
	router, err := legacy.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	documents.router = router
	return router
}

// loadDocument parses the API document and validates it with its examples.
func loadDocument(text string) (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(text))
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background(), openapi3.IsOpenAPI31OrLater(), openapi3.EnableExamplesValidation())
}

// validate compares a response with the API document.
func (h *harness) validate(res *http.Response, body []byte) {
	h.t.Helper()
	if err := h.fault(res, body); err != nil {
		h.t.Errorf("%s %s: status %d, %s: not as in the API document: %v",
			res.Request.Method, res.Request.URL, res.StatusCode, body, err)
	}
}

func (h *harness) fault(res *http.Response, body []byte) error {
	req := res.Request.Clone(h.t.Context())
	if req.GetBody != nil {
		var err error
		if req.Body, err = req.GetBody(); err != nil {
			return err
		}
	}
	req.URL = &url.URL{Path: req.URL.Path, RawQuery: req.URL.RawQuery} // as the document's server
	route, path, err := h.router.FindRoute(req)
	if err != nil {
		return err
	}
	in := &openapi3filter.RequestValidationInput{
		Request: req, Route: route, PathParams: path, QueryParams: req.URL.Query(),
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true,
		},
	}
	return errors.Join(openapi3filter.ValidateResponse(h.t.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: res.StatusCode, Header: res.Header,
		Body: io.NopCloser(bytes.NewReader(body)), Options: in.Options,
	}), acceptedOnlyValid(res.StatusCode, openapi3filter.ValidateRequest(h.t.Context(), in)))
}

// acceptedOnlyValid returns an error if the server accepted a request that the document does not allow.
func acceptedOnlyValid(status int, fault error) error {
	if status == http.StatusOK {
		return fault
	}
	return nil
}

// create returns a create of the operator.
func create(id int64, name string, tag plant.Tag) store.Create {
	return store.Create{Plant: plant.NewPlant{ID: id, Plant: plant.Plant{Name: name, Tag: tag}}, At: createdAt}
}

// syncBuffer is the log of a server.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *syncBuffer) string() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
