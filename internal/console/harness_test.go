package console_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/backup"
	"plantstore/internal/console"
	"plantstore/internal/listen"
	"plantstore/internal/oidc"
	"plantstore/internal/plant"
	"plantstore/internal/server"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
	"plantstore/internal/webhook"
	"plantstore/internal/writepath"
)

const wait = 5 * time.Minute // timeout of every wait; a wait that succeeds is short

// harness is a server with the console, over a store in a file.
type harness struct {
	t         testing.TB
	engine    storetest.Engine
	writePath *writepath.Service
	console   *console.Console
	backups   *backup.Service
	host      string // the admin listener's
	admin     string // secret of the token operator, with the scopes admin, plants:read and plants:create
	routes    []server.Route
	down      func() // closes the admin listener and its connections
	audit     *audit.Recorder
	audited   func() // writes the counted refusals to the audit log; no request may follow

	deliveries map[int64]webhook.Status // what the server reports; set before a request

	verifier *atomic.Pointer[oidc.Verifier] // to nil: no JWT is valid
	follows  *atomic.Pointer[backup.StandbyStatus]
}

// mayAccept returns why the server accepts no changes: it is a standby if follows is set.
func (h *harness) mayAccept() error {
	if s := h.follows.Load(); s != nil {
		return *s
	}
	return nil
}

func (h *harness) verifyJWT(ctx context.Context, token string, now time.Time, wait bool) (*auth.Claims, error) {
	if v := h.verifier.Load(); v != nil {
		return v.Verify(ctx, token, now, wait)
	}
	return nil, &auth.Invalid{}
}

func (h *harness) status() map[int64]webhook.Status { return h.deliveries }

func start(t testing.TB, plants ...store.Create) *harness {
	t.Helper()
	file := filepath.Join(t.TempDir(), "plants.db")
	return startOn(t, file, func(metrics prometheus.Registerer) (storetest.Engine, error) {
		return sqlite.Open(t.Context(), sqlite.Config{Path: file, Server: true, Metrics: metrics})
	}, plants...)
}

// startOn starts a server on a store in a file, or elsewhere without a file, which open opens.
func startOn(
	t testing.TB, file string, open func(prometheus.Registerer) (storetest.Engine, error), plants ...store.Create,
) *harness {
	t.Helper()
	h := &harness{t: t, verifier: new(atomic.Pointer[oidc.Verifier]), follows: new(atomic.Pointer[backup.StandbyStatus])}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	metrics := prometheus.NewRegistry()
	var err error
	if h.engine, err = open(metrics); err != nil {
		t.Fatal(err)
	}
	h.admin = h.mint("operator", auth.ScopeAdmin|auth.ScopeRead|auth.ScopeCreate)
	if len(plants) > 0 {
		if _, err := h.engine.Insert(t.Context(), plants); err != nil {
			t.Fatal(err)
		}
	}
	config := writepath.Config{Engine: h.engine, JWT: h.verifyJWT, MayAccept: h.mayAccept, Metrics: metrics}
	if h.writePath, err = writepath.New(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	h.audit = audit.NewRecorder(h.engine.AppendAudit, log)
	h.audited = sync.OnceFunc(h.audit.Close)
	if file != "" {
		c := backup.Config{
			DB: file, Destination: t.TempDir(), Scratch: t.TempDir(), Every: time.Hour, Keep: 3, Record: h.audit.Record,
			Log: log, Metrics: metrics,
		}
		var ok bool
		if c.Engine, ok = h.engine.(*sqlite.Engine); ok {
			c.Lag = time.Second
		}
		if h.backups, err = backup.New(c); err != nil {
			t.Fatal(err)
		}
	}
	stop := h.serve(log, metrics)
	t.Cleanup(func() {
		stop()
		if h.backups != nil {
			h.backups.Close()
		}
		h.audited()
		h.writePath.Close()
		if err := h.engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// serve starts the admin server and returns the function that ends it.
func (h *harness) serve(log *slog.Logger, metrics *prometheus.Registry) (stop func()) {
	h.t.Helper()
	operations, err := admin.New(h.adminConfig())
	if err != nil {
		h.t.Fatal(err)
	}
	public := &url.URL{Scheme: "https", Host: "plants.example"}
	var adminServer *server.Server
	h.console = console.New(console.Config{
		Operations: operations, WritePath: h.writePath, PublicURL: public, Log: log,
		Audit: h.audit, Version: "1.0.0-test", Requests: func() server.Numbers { return adminServer.Numbers() },
	})
	if h.routes, err = h.console.Routes(); err != nil {
		h.t.Fatal(err)
	}
	_, adminServer, err = server.New(server.Config{
		WritePath: h.writePath, Log: log, BaseURL: public, AdminRoutes: h.routes,
		Browser: h.console.Browser(), Metrics: metrics,
		Audit: h.audit,
		Limits: server.Limits{
			BodyMax: 64 << 10, HeaderMax: 32 << 10, RequestTimeout: wait, AnswerTimeout: wait, IdleTimeout: wait,
			AuthFailures: 100,
		},
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, // X-Forwarded-For is the address of a client
	})
	if err != nil {
		h.t.Fatal(err)
	}
	l, err := listen.Listen(h.t.Context(), listen.Config{Name: "admin", Address: "127.0.0.1:0"})
	if err != nil {
		h.t.Fatal(err)
	}
	h.host = l.Addr().String()
	var running sync.WaitGroup
	running.Go(func() {
		if err := adminServer.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			h.t.Errorf("serve: %v", err)
		}
	})
	h.console.Start()
	h.down = func() { _ = adminServer.Close() }
	return func() {
		h.down()
		running.Wait()
		h.console.Close()
		operations.Close()
	}
}

func (h *harness) mint(name string, scopes auth.Scopes) (secret string) {
	h.t.Helper()
	secret = auth.Mint()
	h.create(auth.Token{Name: name, Hash: auth.HashOf(secret), Scopes: scopes, CreatedAt: time.Now()})
	return secret
}

func (h *harness) create(t auth.Token) {
	h.t.Helper()
	by := audit.Origin{Actor: audit.Actor{Kind: audit.User, ID: "0", Name: "root"}}
	if _, err := h.engine.CreateToken(h.t.Context(), t, by); err != nil {
		h.t.Fatal(err)
	}
}

// code returns a new sign-in code.
func (h *harness) code(now time.Time) string {
	h.t.Helper()
	return h.codeFor("", now)
}

// codeFor returns a new sign-in code for a person.
func (h *harness) codeFor(person string, now time.Time) string {
	h.t.Helper()
	t, code := console.NewCode(person)
	t.CreatedAt, t.ExpiresAt = now, now.Add(t.ExpiresAt.Sub(t.CreatedAt))
	h.create(t)
	return code
}

// client is a browser without scripts.
type client struct {
	h      *harness
	cookie string // name=value; empty: none
	header http.Header
	host   string // in the header; empty: the listener's
}

// response is a response with its body.
type response struct {
	*http.Response

	status int
	body   string // without the places where a line may end
}

func (c *client) do(method, target string, form url.Values) response {
	c.h.t.Helper()
	var body io.Reader = http.NoBody
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(c.h.t.Context(), method, "http://"+c.h.host+target, body)
	if err != nil {
		c.h.t.Fatal(err)
	}
	if c.header != nil {
		req.Header = c.header.Clone()
	}
	if c.host != "" {
		req.Host = c.host
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if c.cookie != "" {
		req.Header.Set("Cookie", c.cookie)
	}
	res, err := http.DefaultTransport.RoundTrip(req) // follows no redirect
	if err != nil {
		c.h.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.h.t.Fatal(err)
	}
	for _, cookie := range res.Cookies() {
		if c.cookie = cookie.Name + "=" + cookie.Value; cookie.MaxAge < 0 {
			c.cookie = ""
		}
	}
	return response{res, res.StatusCode, strings.ReplaceAll(string(text), "<wbr>", "")}
}

func (c *client) get(target string) response { return c.do(http.MethodGet, target, nil) }

func (c *client) post(target string, form url.Values) response {
	return c.do(http.MethodPost, target, form)
}

// signIn returns a client with a session of a credential.
func (h *harness) signIn(credential string) *client {
	h.t.Helper()
	c := &client{h: h}
	if res := c.post("/sign-in", url.Values{"credential": {credential}}); res.status != http.StatusSeeOther {
		h.t.Fatalf("sign in: got %d, %s", res.status, res.body)
	}
	return c
}

// stored returns a plant that the operator stored.
func stored(id int64, name string, tag plant.Tag) store.Create {
	return store.Create{
		Plant: plant.NewPlant{ID: id, Plant: plant.Plant{Name: name, Tag: tag}},
		At:    time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC),
	}
}

// adminConfig returns the configuration of the operations.
func (h *harness) adminConfig() admin.Config {
	return admin.Config{
		Engine: h.engine, WritePath: h.writePath, Audit: h.audit, Backups: h.backups, Deliveries: h.status,
		Open: func() map[string]int64 { return map[string]int64{"public": 14} },
		Settings: func() []admin.Setting {
			return []admin.Setting{
				{
					Name: "listen", Value: "127.0.0.1:8080", Source: "default", Group: "Common settings",
					Usage: "address of the public listener",
				},
				{Name: "admin-listen", Value: "127.0.0.1:8081", Source: "default", Group: "Listeners"},
				{Name: "base-url", Value: "https://plants.example", Source: "/etc/plantstore/plantstore.yaml", Group: "Listeners"},
				{
					Name: "db", Value: "/var/lib/plantstore/plantstore.db", Source: "/etc/plantstore/plantstore.yaml",
					Group: "Common settings",
				},
				{
					Name: "backup-dir", Value: "/mnt/backup/plantstore", Source: "PLANTSTORE_BACKUP_DIR",
					Group: "Common settings",
				},
				{Name: "backup-every", Value: "24h0m0s", Source: "default", Group: "Durability and backups"},
				{Name: "body-max", Value: "64KiB", Source: "default", Group: "Limits"},
				{Name: "cors-origins", Source: "default", Group: "Listeners"},
				{Name: "credential-rate", Value: "0", Source: "default", Reloadable: true, Group: "Limits"},
			}
		},
	}
}

func plantTag(text string) plant.Tag { return plant.Tagged(text) }
