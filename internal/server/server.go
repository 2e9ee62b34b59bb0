// Package server has the HTTP servers of the program: the one of the public
// listener, where clients create plants, and the one of the admin listener, for
// the operator. routes.go lists the paths; handler.go handles every request.
package server

import (
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/store"
)

// Config configures both servers.
type Config struct {
	Store *store.Store
	Log   *slog.Logger

	// BaseURL is where clients reach the public listener. Its path is the prefix
	// under which everything but the health check is served; the whole of it
	// stands in the API document.
	BaseURL *url.URL
	// OwnHostOnly is set if the operator gave the address, and not if it was
	// guessed: requests whose target names another host are refused, and the
	// API document has the whole address.
	OwnHostOnly bool

	// CORSOrigins are the origins whose pages may call the public listener (the Fetch
	// standard's CORS protocol), or "*" for every one. None: CORS is off.
	CORSOrigins []string

	Limits Limits

	// AdminHosts are host names and IP addresses, without a port, that requests
	// to the admin listener may have as their Host besides loopback names and
	// the address that they were sent to.
	AdminHosts []string

	Metrics *prometheus.Registry // both servers register theirs; /metrics shows all
	Pprof   bool                 // serve net/http/pprof on the admin listener
}

// Limits bounds what a request may cost. All of them but IdleTimeout, which costs no
// request anything, stand in the API document.
type Limits struct {
	BodyMax        int64         // bytes of a request's body
	HeaderMax      int           // bytes of a request's line and headers together; at least 4 KiB are allowed in any case
	RequestTimeout time.Duration // for a request to arrive whole
	AnswerTimeout  time.Duration // for the store to answer after that
	IdleTimeout    time.Duration // for a connection between two requests
	QueueMax       int           // plants that may wait for the next commit
}

// headerSlack is what net/http allows on top of MaxHeaderBytes.
const headerSlack = 4 << 10

// New returns the servers of the public and the admin listener. The caller serves each on a
// listener of Listen.
func New(c Config) (public, admin *http.Server, err error) {
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
	metrics := newMetrics(c.Metrics)
	public = newServer(c, "public", routes, metrics)
	c.CORSOrigins, c.OwnHostOnly = nil, false
	admin = newServer(c, "admin", adminRoutes(c), metrics)
	h := admin.Handler.(*handler)
	h.guard, h.detectsDisconnects = &guard{hosts: hosts}, true
	return public, admin, nil
}

func newServer(c Config, name string, routes routes, metrics *metrics) *http.Server {
	log := c.Log.With("listener", name)
	for _, at := range routes {
		for _, route := range at.byMethod {
			route.metrics = metrics.forRoute(name, route.path, route.untimed)
		}
	}
	h := &handler{
		metrics:   metrics,
		unmatched: metrics.forRoute(name, noRoute, false),
		inFlight:  metrics.inFlight.WithLabelValues(name),
		log:       log,
		routes:    routes,
		store:     c.Store,
		origins:   newOrigins(c.CORSOrigins),
	}
	if c.OwnHostOnly {
		h.host = hostPort(c.BaseURL)
	}
	return &http.Server{
		Handler:     h,
		ConnContext: keepConn,
		// OPTIONS * is a request like any other: net/http would answer it without an id and a log line.
		DisableGeneralOptionsHandler: true,
		ReadTimeout:                  c.Limits.RequestTimeout,
		WriteTimeout:                 c.Limits.RequestTimeout + c.Limits.AnswerTimeout + 10*time.Second,
		IdleTimeout:                  c.Limits.IdleTimeout,
		MaxHeaderBytes:               max(c.Limits.HeaderMax-headerSlack, 1),
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelDebug), // clients that break off; nothing an operator must act on
	}
}

// hostPort returns a URL's host and port, the port also where it is the
// scheme's default.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Hostname() + ":" + port
}
