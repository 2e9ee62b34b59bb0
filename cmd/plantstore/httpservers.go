package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/console"
	"plantstore/internal/listen"
	"plantstore/internal/server"
	"plantstore/internal/trace"
	"plantstore/internal/writepath"
)

const (
	drainTimeMax   = 8 * time.Second // service managers allow 10 s in all
	commitDrainMax = 6 * time.Second // then commits that wait for a lock fail, and their requests receive an error
	// Then the admin listener closes the connection of a client that does not read the end of a search or download.
	responseDrainMax = time.Second
	requestDrainMax  = time.Second // for requests of accepted connections to arrive
)

// httpServers are the HTTP servers and their listeners.
type httpServers struct {
	public, admin                 *server.Server
	challenges                    *server.Server // of ACME; nil: none
	publicListener, adminListener net.Listener
	publicTCP                     *listen.Listener // below publicListener
	url                           *url.URL         // at which clients reach the public listener
	adminURL                      *url.URL
	consoleURL                    *url.URL // at which browsers reach the console
	certificates                  certificates
	publicTLS, adminTLS           bool

	operations *admin.Service   // of the operator; nil until open
	console    *console.Console // nil until open
	config     server.Config    // the part that is not of the settings

	audit  *audit.Recorder
	tracer *trace.Tracer // nil: no traces

	running sync.WaitGroup
	failed  chan error // of a server that stopped by itself; buffers one error of each
}

// openListeners opens both listeners, or uses those of systemd; serve starts their servers. The caller closes them.
func (p *program) openListeners(
	ctx context.Context, s *settings, log *slog.Logger, metrics prometheus.Registerer,
) (_ *httpServers, err error) {
	sockets, err := p.sockets(s, log)
	if err != nil {
		return nil, err
	}
	defer sockets.close()
	h := &httpServers{failed: make(chan error, 3)}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	public, err := s.openListener(ctx, listen.Config{
		Name: "public", Address: string(s.listen), TCP: sockets.take("public"),
		Limits: s.connectionLimits(log), Log: log, Metrics: metrics,
		ProxyProtocol: bool(s.proxies.protocol), TrustedProxies: s.proxies.prefixes(),
		HeaderTimeout: time.Duration(s.requestTimeout),
	})
	if err != nil {
		return nil, fmt.Errorf("%w; use another address with --listen", err)
	}
	h.publicTCP, h.publicListener = public, public // until its TLS is known, so that close closes it
	admin, err := s.openListener(ctx, listen.Config{
		Name: "admin", Address: string(s.adminListen), TCP: sockets.take("admin"),
		Limits: s.adminLimits(), Log: log, Metrics: metrics,
	})
	if err != nil {
		return nil, fmt.Errorf("%w; use another address with --admin-listen", err)
	}
	h.adminListener = admin
	if err := s.checkAdminOpen(admin.Addr()); err != nil {
		return nil, err
	}
	if err := h.secure(s, log, metrics); err != nil {
		return nil, err
	}
	if h.certificates.acme != nil {
		if err := h.certificates.acme.prepare(ctx, s, log, metrics); err != nil {
			return nil, err
		}
	}
	h.url = s.baseURL.url
	if h.url == nil {
		h.url = s.acme.nameIn(guessURL(h.publicListener.Addr(), h.publicTLS))
	}
	h.adminURL = guessURL(h.adminListener.Addr(), h.adminTLS)
	h.consoleURL = cmp.Or(s.signIn.consoleURL.url, h.adminURL)
	return h, nil
}

// secure adds TLS to the listeners. The admin listener has TLS unless its address is a loopback address, where health
// checks and scrapes need no certificate.
func (h *httpServers) secure(s *settings, log *slog.Logger, metrics prometheus.Registerer) (err error) {
	if h.certificates, err = s.tls.open(s, log, metrics); err != nil {
		return err
	}
	h.publicTLS = h.certificates.enabled()
	h.adminTLS = h.publicTLS && !h.adminListener.Addr().(*net.TCPAddr).IP.IsLoopback()
	for _, l := range []struct {
		listener      *net.Listener
		name, setting string
		secure        bool
	}{{&h.publicListener, "public", "listen", h.publicTLS}, {&h.adminListener, "admin", "admin-listen", h.adminTLS}} {
		if l.secure {
			*l.listener = server.NewTLSListener(*l.listener, h.certificates.tlsConfig(l.name, log, metrics))
			continue
		}
		if err := s.tls.checkExposed(s, l.setting, (*l.listener).Addr()); err != nil {
			return err
		}
		*l.listener = server.NewListener(*l.listener)
	}
	return nil
}

// open creates the servers.
func (h *httpServers) open(
	s *settings, operations admin.Config, metrics *prometheus.Registry,
) (err error) {
	if h.operations, err = admin.New(operations); err != nil {
		return err
	}
	if err := h.openConsole(s, console.Config{
		Store: operations.Store, Log: operations.Log,
	}); err != nil {
		return err
	}
	routes, err := admin.Routes(h.operations)
	if err != nil {
		return err
	}
	pages, err := h.console.Routes()
	if err != nil {
		return err
	}
	h.config = server.Config{
		Store: operations.Store, Log: operations.Log, Audit: h.audit, Metrics: metrics,
		AdminRoutes: append(routes, pages...), Browser: h.console.Browser(),
		PublicTLS: h.publicTLS, AdminTLS: h.adminTLS, Tracer: h.tracer,
	}
	config := h.configOf(s)
	h.public, h.admin, err = server.New(config)
	if client := h.certificates.acme; err == nil && client != nil && client.listener != nil {
		h.challenges = server.NewChallenges(config, h.public, client.keyAuthorization)
	}
	return err
}

// configOf returns the configuration of the servers with these settings.
func (h *httpServers) configOf(s *settings) server.Config {
	c := h.config
	c.BaseURL, c.OwnHostOnly = h.url, s.baseURL.url != nil
	c.CORSOrigins, c.AdminHosts = s.corsOrigins.items, s.adminHost.items
	if u := s.signIn.consoleURL.url; u != nil {
		c.AdminHosts = append(slices.Clone(c.AdminHosts), u.Hostname())
	}
	c.AdminOpen, c.Pprof = bool(s.admin.open), bool(s.pprof)
	c.TrustedProxies = s.proxies.headerPrefixes()
	const headerMax = 16 << 10 // bytes
	c.Limits = server.Limits{
		BodyMax:        s.bodyMax.n,
		HeaderMax:      headerMax,
		RequestTimeout: time.Duration(s.requestTimeout),
		AnswerTimeout:  writepath.AnswerTimeout,
		IdleTimeout:    idleTimeout,
		QueueMax:       writepath.QueueMax,
		AuthFailures:   s.rate.authFailures.n,
		Rate:           s.rate.rate.n,
		Burst:          s.rate.burst.n,
		Concurrency:    s.rate.concurrency.n,
	}
	return c
}

// guessURL returns a URL at which this machine reaches a listener.
func guessURL(a net.Addr, secure bool) *url.URL {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	host, port, _ := net.SplitHostPort(a.String())
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return &url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port)}
}

// serve starts the servers. drain waits for their goroutines.
func (h *httpServers) serve() {
	h.console.Start()
	h.start(h.public, h.publicListener)
	h.start(h.admin, h.adminListener)
	if h.challenges != nil {
		h.start(h.challenges, h.certificates.acme.listener)
	}
}

func (h *httpServers) start(s *server.Server, l net.Listener) {
	h.running.Go(func() {
		if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			h.failed <- fmt.Errorf("serve on %s: %w", l.Addr(), err)
		}
	})
}

// drain closes the public listener, responds to the accepted requests, and then closes the admin listener, so that its
// health checks respond until the end.
func (h *httpServers) drain(st *writepath.Store, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeMax)
	defer cancel()
	defer stopTracing(h.tracer, time.Now())
	st.Retire(commitDrainMax)
	h.operations.Retire()
	h.retirePublic(ctx)
	err := h.public.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		// Incomplete requests were never accepted, so this is not an error.
		log.Warn("closed connections with incomplete requests", "after_us", drainTimeMax.Microseconds())
		err = h.public.Close()
	}
	st.Close()
	stalled := time.AfterFunc(responseDrainMax, func() { _ = h.admin.Close() }) // ends the writes of operations
	h.operations.Close()
	stalled.Stop()
	err = errors.Join(err, h.admin.Close())
	if h.challenges != nil {
		err = errors.Join(err, h.challenges.Close())
	}
	h.running.Wait()
	h.console.Close()
	return err
}

// retirePublic responds to the requests of the connections that the public listener has accepted. A new connection is
// refused, or waits for the next process in the socket of systemd.
func (h *httpServers) retirePublic(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, requestDrainMax)
	defer cancel()
	h.public.Retire()
	h.publicTCP.Retire(ctx)
}

// close closes the listeners that no server has closed, and ends the watchers of the certificates and the tracer.
func (h *httpServers) close() {
	defer h.certificates.end()
	defer stopTracing(h.tracer, time.Now())
	for _, l := range []net.Listener{h.publicListener, h.adminListener} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// run reports to systemd that the server is ready, and waits until the server must stop. It returns nil after a signal
// and after a failure of the store, which failureOf returns.
// It loads the settings again when a value arrives on hangups and when the settings file has changed.
func (h *httpServers) run(ctx context.Context, st *writepath.Store, hangups <-chan os.Signal, r *reloader) error {
	changes := time.NewTicker(reloadEvery)
	defer changes.Stop()
	manager := r.p.startManager(r.log)
	defer manager.stopping()
	for {
		select {
		case <-manager.watchdog:
			manager.alive()
		case <-ctx.Done():
			r.log.Info("shutting down: responding to accepted requests", "cause", context.Cause(ctx))
			return nil
		case <-st.Broken():
			return nil
		case err := <-h.failed:
			return err
		case <-hangups:
			r.hangup(ctx)
		case <-changes.C:
			r.look(ctx)
		}
	}
}
