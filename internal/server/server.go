// Package server has the HTTP servers of the program: for the public listener, where clients create plants, and for the
// admin listener of the operator. routes.go lists the paths; handler.go handles every request.
package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/audit"
	"plantstore/internal/limit"
	"plantstore/internal/listen"
	"plantstore/internal/trace"
	"plantstore/internal/writepath"
)

// Config configures both servers. Log, BaseURL and Metrics are required, and WritePath without NotOpen.
type Config struct {
	WritePath *writepath.Service
	Log       *slog.Logger

	// NotOpen returns why the store is not open yet, an error that wraps store.ErrNotOpen. Then /livez responds, and
	// every other request receives the error. Reload ends that.
	NotOpen func() error

	// BaseURL is the address of the public listener for clients. Its path is the prefix of every path but the health
	// check.
	BaseURL *url.URL
	// OwnHostOnly is true if BaseURL is a setting and not a guess. The server then refuses requests whose target names
	// another host, and the API document names the host.
	OwnHostOnly bool

	// CORSOrigins are the origins whose pages may call the public listener (the CORS protocol of the Fetch standard), or
	// "*" for all. Empty: CORS is off.
	CORSOrigins []string

	Limits Limits

	// TrustedProxies are proxies that send the address of the client in Forwarded (RFC 7239) or X-Forwarded-For. Each
	// proxy must add to one of the two headers and remove the other.
	TrustedProxies []netip.Prefix

	// AdminHosts are the host names and IP addresses, without a port, that requests to the admin listener may have as
	// their Host, besides loopback names and the address of the listener.
	AdminHosts []string
	// AdminCertifies reports whether the certificate of the admin listener is valid for a host, which requests may then
	// have as their Host too; nil: the listener has no certificate. A page of another name cannot get through DNS
	// rebinding: the browser compares the name with the certificate.
	AdminCertifies func(host string) bool
	// Warnings returns the conditions that need the operator, for the operator's readiness check.
	Warnings func(context.Context) any
	// AdminRoutes are further routes of the admin listener.
	AdminRoutes []Route
	Browser     *Browser // required by routes with Page

	// Metrics is the registry of /metrics. New registers the metrics of requests there, so a registry is for one call of
	// New.
	Metrics *prometheus.Registry
	Pprof   bool // serve net/http/pprof on the admin listener

	Tracer *trace.Tracer // nil: no traces

	Audit *audit.Recorder // receives refused scopes and sign-ins; nil: none
}

// headerSlack is the number of bytes that net/http allows above MaxHeaderBytes.
const headerSlack = 4 << 10

// New returns the servers of the public and the admin listener.
func New(c Config) (public, admin *Server, err error) {
	publicHandler, adminHandler, err := newHandlers(c, newMetrics(c.Metrics))
	if err != nil {
		return nil, nil, err
	}
	return newServer(c, publicHandler), newServer(c, adminHandler), nil
}

// Reload replaces the configuration of the servers between two requests. The timeouts and the HeaderMax of c have no
// effect, and fields that are not settings must be the same as for New, unless that had NotOpen. Counts of failed
// credentials and of quotas stay unless their limits have changed. After an error everything is as it was.
func Reload(public, admin *Server, c Config) error {
	old := public.handler.Load()
	publicHandler, adminHandler, err := newHandlers(c, old.metrics)
	if err != nil {
		return err
	}
	now, before := c.Limits, old.limits
	if now.AuthFailures == before.AuthFailures {
		publicHandler.failures, adminHandler.failures = old.failures, old.failures
	}
	if now.Rate == before.Rate && now.Concurrency == before.Concurrency {
		publicHandler.quotas = old.quotas
	}
	running := admin.handler.Load()
	adminHandler.slots, adminHandler.bulk, adminHandler.proofs = running.slots, running.bulk, running.proofs
	public.handler.Store(publicHandler)
	admin.handler.Store(adminHandler)
	return nil
}

func newHandlers(c Config, metrics *metrics) (public, admin *handler, err error) {
	hosts := make([]string, len(c.AdminHosts))
	for i, text := range c.AdminHosts {
		if hosts[i], err = ParseHost(text); err != nil {
			return nil, nil, err
		}
	}
	routes, err := publicRoutes(c)
	if err != nil {
		return nil, nil, err
	}
	failures := newFailures(c.Limits.AuthFailures, c.Log)
	public = newHandler(c, publicListener, routes, metrics)
	public.notFound += "; " + strings.TrimRight(c.BaseURL.EscapedPath(), "/") + "/docs describes the API"
	public.failures, public.quotas, public.origins = failures, newQuotas(c.Limits), c.CORSOrigins
	if c.OwnHostOnly {
		public.host = hostPort(c.BaseURL)
	}
	admin = newHandler(c, "admin", adminRoutes(c), metrics)
	admin.failures, admin.public, admin.browser = failures, public, c.Browser
	admin.guard = &guard{hosts: hosts, certifies: c.AdminCertifies}
	admin.slots, admin.bulk = limit.NewSlots[int64](adminAtOnce), newBulkLimit()
	admin.proofs = limit.NewPlaces[limit.Network](proofsMax, proofsOfNetwork)
	admin.notFound = "this path does not exist on the admin listener, which has the console at /, " +
		"the admin API at /api/v1, and /livez, /readyz and /metrics"
	return public, admin, nil
}

func newHandler(c Config, name string, routes routes, metrics *metrics) *handler {
	log := c.Log.With("listener", name)
	for _, at := range routes.byPath {
		for _, route := range at.byMethod {
			route.metrics = metrics.forRoute(name, route.Path, route.Untimed)
			route.log = withRequestLine(log, route.Method, route.Path)
		}
	}
	return &handler{
		listener:  name,
		metrics:   metrics,
		unmatched: metrics.forRoute(name, noRoute, false),
		inFlight:  metrics.inFlight.WithLabelValues(name),
		log:       log,
		routes:    routes,
		writePath: c.WritePath,
		notOpen:   c.NotOpen,
		audit:     c.Audit,
		notFound:  "this path does not exist; check the path and the base URL",
		limits:    c.Limits,
		proxies:   c.TrustedProxies,
		tracer:    c.Tracer,
	}
}

func newServer(c Config, h *handler) *Server {
	s := &Server{}
	s.handler.Store(h)
	s.http = &http.Server{
		Handler:     http.HandlerFunc(s.serveHTTP),
		ConnContext: keepConn,
		ConnState:   trackState,
		// net/http would respond to OPTIONS * without a request id and a log line.
		DisableGeneralOptionsHandler: true,
		ReadTimeout:                  c.Limits.RequestTimeout,
		WriteTimeout:                 c.Limits.RequestTimeout + c.Limits.AnswerTimeout + 10*time.Second,
		IdleTimeout:                  c.Limits.IdleTimeout,
		MaxHeaderBytes:               max(c.Limits.HeaderMax-headerSlack, 1),
		ErrorLog:                     slog.NewLogLogger(h.log.Handler(), slog.LevelDebug), // disconnects of clients
		Protocols:                    new(http.Protocols),
	}
	s.http.Protocols.SetHTTP1(true)
	return s
}

// Server is the HTTP/1.1 server of one listener.
type Server struct {
	http    *http.Server
	handler atomic.Pointer[handler]
}

func (s *Server) serveHTTP(w http.ResponseWriter, r *http.Request) { s.handler.Load().ServeHTTP(w, r) }

// Serve serves the connections of a listener. It returns http.ErrServerClosed after Shutdown or Close.
func (s *Server) Serve(l *listen.Listener) error { return s.http.Serve(l) }

// Shutdown closes the listener and waits until every request in flight has its response, or until the context ends.
func (s *Server) Shutdown(ctx context.Context) error { return s.http.Shutdown(ctx) }

// Close closes the listener and every connection.
func (s *Server) Close() error { return s.http.Close() }

// hostPort returns the host and the port of a URL, with the default port of the scheme if the URL has none.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}
