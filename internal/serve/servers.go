package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/adminapi"
	"plantstore/internal/config"
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
)

type httpServers struct {
	public, admin                 *server.Server
	publicListener, adminListener *listen.Listener
	Addresses
	certificates        certificates
	publicTLS, adminTLS bool

	operations *admin.Service   // nil until open
	console    *console.Console // nil until open
	config     server.Config    // without the settings

	tracer *trace.Tracer // nil: no traces

	running sync.WaitGroup
	failed  chan error // why a server stopped by itself, or cannot go on; buffers one error of each
}

// Addresses are the URLs of a server.
type Addresses struct {
	Public  *url.URL // at which clients reach the public listener
	Admin   *url.URL
	Console *url.URL // at which browsers reach the console
}

// openListeners opens both listeners, or uses the sockets of systemd; serve starts their servers. It returns all faults
// of listeners, certificates and traces.
func (v *instance) openListeners(ctx context.Context) error {
	v.Log.measure(v.metrics)
	s := v.Settings
	sockets, err := v.sockets, error(nil)
	if sockets == nil {
		sockets, err = openSockets(s, v.log)
	}
	if err != nil {
		return err
	}
	h := &httpServers{failed: make(chan error, 3)}
	v.servers = h
	v.onClose(h.close)
	var faults [4]error
	h.publicListener, faults[0] = v.openListener(ctx, "listen", listen.Config{
		Name: "public", Address: s.Listen, TCP: sockets["public"], Limits: connectionLimits(s),
	})
	h.adminListener, faults[1] = v.openListener(ctx, "admin-listen", listen.Config{
		Name: "admin", Address: s.AdminListen, TCP: sockets["admin"], Limits: adminLimits(),
	})
	if h.certificates, faults[2] = v.openCertificates(); faults[2] == nil {
		faults[2] = h.secure(s)
	}
	if trace.Enabled(v.Env.Vars) {
		if h.tracer, err = trace.New(v.Env.Vars, v.Version, v.log, v.metrics); err != nil {
			faults[3] = config.Usagef("%w", err)
		}
	}
	if err := errors.Join(faults[:]...); err != nil || v.checking {
		return err
	}
	h.Public = s.BaseURL
	if h.Public == nil {
		h.Public = withDomain(config.GuessURL(h.publicListener.Addr().String(), h.publicTLS), s)
	}
	h.Admin = config.GuessURL(h.adminListener.Addr().String(), h.adminTLS)
	h.Console = cmp.Or(s.ConsoleURL, h.Admin)
	return nil
}

// secure adds TLS to the listeners. The admin listener has TLS unless its address is a loopback address, where health
// checks and scrapes need no certificate. Only the public listener requires client certificates: health checks come
// from machines that have none.
func (h *httpServers) secure(s *config.Settings) error {
	public := h.certificates.tls
	admin := public
	admin.ClientCAs = nil
	h.publicTLS = public.GetCertificate != nil
	publicAt, adminAt := addressOf(h.publicListener, s.Listen), addressOf(h.adminListener, s.AdminListen)
	if !h.publicTLS {
		return errors.Join(s.TLS.CheckExposed(s, "listen", publicAt), s.TLS.CheckExposed(s, "admin-listen", adminAt))
	}
	h.adminTLS = !adminAt.IP.IsLoopback()
	if h.adminTLS && h.adminListener != nil {
		h.adminListener.UseTLS(admin)
	}
	if h.publicListener != nil {
		h.publicListener.UseTLS(public)
	}
	return nil
}

// addressOf returns the address of a listener, or what the setting names if it is not open; loopback if that is none.
func addressOf(l *listen.Listener, setting string) *net.TCPAddr {
	if l != nil {
		return l.Addr().(*net.TCPAddr)
	}
	if at, err := net.ResolveTCPAddr("tcp", setting); err == nil {
		return at
	}
	return &net.TCPAddr{IP: net.IPv6loopback}
}

// answerEarly starts the servers of the listeners before the store is open, which may take hours: a probe must find
// that the process lives, and clients must go to another server. notOpen returns why it is not open, see server.Config.
func (v *instance) answerEarly(ctx context.Context, notOpen func() error) (err error) {
	if err := v.openACME(ctx); err != nil {
		return err
	}
	h := v.servers
	h.config = server.Config{Log: v.log, Metrics: v.metrics, Tracer: h.tracer, NotOpen: notOpen}
	if h.public, h.admin, err = server.New(h.configOf(v.Settings)); err != nil {
		return err
	}
	h.start()
	v.log.Info("the store is not open yet: requests receive 503", "listen", h.publicListener.Addr().String(),
		"public", h.Public.String(), "admin", h.Admin.String())
	return nil
}

// openServers creates the servers of the listeners, with the console and the admin API.
func (v *instance) openServers(context.Context) (err error) {
	h, s := v.servers, v.Settings
	if h.operations, err = admin.New(v.adminConfig()); err != nil {
		return err
	}
	h.console = console.New(console.Config{
		WritePath: v.writePath, Log: v.log, Operations: h.operations, PublicURL: h.Public, Audit: v.audit.Recorder,
		Requests: func() server.Numbers { return h.public.Numbers() },
		Version:  v.Version, Secure: h.adminTLS || h.Console.Scheme == "https",
	})
	h.console.SetIssuer(v.signIn)
	routes, err := adminapi.New(h.operations, v.log).Routes()
	if err != nil {
		return err
	}
	pages, err := h.console.Routes()
	if err != nil {
		return err
	}
	h.config = server.Config{
		WritePath: v.writePath, Log: v.log, Audit: v.audit.Recorder, Metrics: v.metrics,
		AdminRoutes: append(routes, pages...), Browser: h.console.Browser(),
		Warnings: func(ctx context.Context) any { return h.operations.Warnings(ctx) },
		Tracer:   h.tracer,
	}
	early := h.public != nil
	if !early {
		h.public, h.admin, err = server.New(h.configOf(s))
	}
	v.onStart(func(context.Context) {
		h.operations.Start()
		h.console.Start()
		if !early {
			h.start()
		} else if err := server.Reload(h.public, h.admin, h.configOf(s)); err != nil {
			h.failed <- err
		}
	})
	return err
}

// configOf returns the configuration of the servers with these settings.
func (h *httpServers) configOf(s *config.Settings) server.Config {
	c := h.config
	c.BaseURL, c.OwnHostOnly = h.Public, s.BaseURL != nil
	c.CORSOrigins, c.AdminHosts = s.CORSOrigins, s.AdminHosts
	if u := s.ConsoleURL; u != nil {
		c.AdminHosts = append(slices.Clone(c.AdminHosts), u.Hostname())
	}
	if h.adminTLS {
		c.AdminCertifies = h.certificates.isFor
	}
	c.Pprof = s.PProf
	c.TrustedProxies = s.Proxies()
	const headerMax = 16 << 10 // bytes
	c.Limits = s.Limits
	c.Limits.HeaderMax, c.Limits.IdleTimeout = headerMax, idleTimeout
	c.Limits.AnswerTimeout, c.Limits.QueueMax = writepath.AnswerTimeout, writepath.QueueMax
	return c
}

// open returns the number of open connections by listener.
func (h *httpServers) open() map[string]int64 {
	return map[string]int64{"public": int64(h.publicListener.Open()), "admin": int64(h.adminListener.Open())}
}

// start starts the servers. drain and close wait for their goroutines.
func (h *httpServers) start() {
	for s, l := range map[*server.Server]*listen.Listener{h.public: h.publicListener, h.admin: h.adminListener} {
		h.running.Go(func() {
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				h.failed <- fmt.Errorf("serve on %s: %w", l.Addr(), err)
			}
		})
	}
}

// drain closes the public listener, responds to the requests of accepted connections, and then closes the admin
// listener, so that its health checks respond until the end. A new connection is refused, or waits for the next process
// in the socket of systemd.
func (h *httpServers) drain(w *writepath.Service, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeMax)
	defer cancel()
	defer stopTracing(h.tracer, time.Now())
	w.Retire(commitDrainMax)
	h.operations.Retire()
	h.publicListener.Retire(ctx)
	err := h.public.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		// Incomplete requests were never accepted, so this is not an error.
		log.Warn("closed connections with incomplete requests", "after_us", drainTimeMax.Microseconds())
		err = h.public.Close()
	}
	w.Close()
	stalled := time.AfterFunc(responseDrainMax, func() { _ = h.admin.Close() }) // ends the writes of operations
	h.operations.Close()
	stalled.Stop()
	err = errors.Join(err, h.admin.Close())
	h.running.Wait()
	h.console.Close()
	return err
}

// close closes the servers that were not drained and the listeners without one, and ends the tracer.
func (h *httpServers) close() {
	defer stopTracing(h.tracer, time.Now())
	for _, s := range []*server.Server{h.public, h.admin} {
		if s != nil {
			_ = s.Close()
		}
	}
	h.running.Wait()
	for _, l := range []*listen.Listener{h.publicListener, h.adminListener} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// Limits of the export of the last spans, within the 10 s that service managers allow for a stop.
const (
	traceFlushLeast = 300 * time.Millisecond // even after a drain of drainTimeMax
	traceFlushMost  = 3 * time.Second
)

// stopTracing exports the last spans after a drain that began at that time.
func stopTracing(t *trace.Tracer, drain time.Time) {
	rest := time.Until(drain.Add(drainTimeMax))
	ctx, cancel := context.WithTimeout(context.Background(), min(max(rest, traceFlushLeast), traceFlushMost))
	defer cancel()
	t.Close(ctx)
}
