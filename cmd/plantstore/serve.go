package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"plantstore/internal/auth"
	"plantstore/internal/server"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
)

func newServe(p *program) *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server until SIGTERM or Ctrl-C; then it answers what it has accepted
and ends. A second signal ends it at once. SIGHUP is logged and ignored: a
server does not reload its settings.

On a store without any token it makes the first one, and prints it on standard
output with a curl command that creates a plant. The log goes to standard error.`,
		Example: `  plantstore serve
  plantstore serve --db /var/lib/plantstore/plantstore.db --listen 0.0.0.0:8080 --backup-dir /mnt/backup`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := s.load(p, cmd); err != nil {
				return err
			}
			return p.serve(cmd.Context(), s)
		},
	}
	s.bindStore(cmd.Flags())
	s.bindServe(cmd.Flags())
	return cmd
}

const (
	drainTimeMax   = 8 * time.Second // leaves time for the rest within the 10 s that service managers give
	commitDrainMax = 6 * time.Second // for commits that wait for another process; their requests are answered then
	firstTokenName = "first"

	firstTokenTimeMax = 2 * time.Second // for standard output to be read
)

// serve is the whole wiring: settings, engine, store, HTTP servers, signals, drain.
func (p *program) serve(ctx context.Context, s *settings) (err error) {
	hangups := ignoreSignals()
	defer signal.Stop(hangups)
	if err := errors.Join(s.checkStore(), s.checkBackupDir()); err != nil { // before anything is created
		return err
	}
	p.tuneRuntime()
	log := newLogger(p, s)
	metrics := newMetrics()
	metrics.MustRegister(p.logs.dropped)
	h, err := listen(ctx, s, log, metrics) // first, so that a start that fails leaves nothing behind
	if err != nil {
		return err
	}
	defer h.close()

	engine, err := s.openEngine(ctx, engineOptions{server: true, migrate: true, log: log, metrics: metrics})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	warnOfMove(ctx, engine, log)
	commits, within := s.commits()
	st, err := store.New(ctx, store.Config{
		Engine:  engine,
		Commits: commits,
		Limits:  store.Limits{QueueMax: s.queueMax.n, CommitTime: within, AnswerTimeout: time.Duration(s.answerTimeout)},
		Log:     log,
		Metrics: metrics,
	})
	if err != nil {
		return err
	}
	defer st.Close()
	if err := h.open(s, st, log, metrics); err != nil {
		return err
	}
	// Last, because it is shown only once: nothing after it can fail. The store
	// looks for a token that it does not know, so this one works at once.
	if err := p.firstToken(ctx, engine, h.url, log); err != nil {
		return err
	}
	stopBackups := startSchedule(s, log, metrics)
	defer stopBackups()
	h.serve()
	log.Info("ready", "listen", h.publicListener.Addr().String(), "public", h.url.String(), "admin", guessURL(h.adminListener.Addr()).String(), "db", s.db.String(), "version", version)

	cause := h.run(ctx, st, hangups, log)
	err = errors.Join(cause, h.drain(st, log))
	log.Info("stopped")
	return err
}

// ignoreSignals keeps SIGHUP, and SIGPIPE of a reader of the log that has ended,
// from ending the server. It returns a channel of the former, for the log. It
// handles SIGHUP also if it was ignored when the program started, so that a
// server under nohup(1) does the same.
func ignoreSignals() chan os.Signal {
	signal.Ignore(syscall.SIGPIPE, syscall.SIGHUP) // undoes main's Notify, too, which would cancel the context
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	return hangups
}

// run waits until the server has to end, and returns the reason if it is a
// fault.
func (h *httpServers) run(ctx context.Context, st *store.Store, hangups <-chan os.Signal, log *slog.Logger) error {
	for {
		select {
		case <-ctx.Done():
			log.Info("shutting down: answering what was accepted")
			return nil
		case <-st.Broken():
			return fmt.Errorf("%w: see the log; what was answered with 200 is stored", store.ErrBroken)
		case err := <-h.failed:
			return err
		case <-hangups:
			log.Warn("SIGHUP ignored: restart the server to change its settings")
		}
	}
}

// warnOfMove logs a move of the store that was interrupted. A check that fails does
// not keep the server from starting: all that it would find is a cost.
func warnOfMove(ctx context.Context, engine anyEngine, log *slog.Logger) {
	switch left, err := engine.Interrupted(ctx); {
	case err != nil:
		log.Warn("could not check whether a move of this store was interrupted", "error", err)
	case left:
		log.Warn("a move of this store was interrupted, and each new plant is noted for it: run the same command again, or plantstore move --from … --abandon")
	}
}

// httpServers are the two HTTP servers and their listeners.
type httpServers struct {
	public, admin                 *http.Server
	publicListener, adminListener net.Listener
	url                           *url.URL // where clients reach the public listener

	running sync.WaitGroup
	failed  chan error // the error of a server that ended by itself; buffers one of each
}

// listen opens both listeners; their servers start later. The caller closes
// them.
func listen(ctx context.Context, s *settings, log *slog.Logger, metrics prometheus.Registerer) (_ *httpServers, err error) {
	h := &httpServers{failed: make(chan error, 2)}
	defer func() {
		if err != nil {
			h.close()
		}
	}()
	if h.publicListener, err = server.Listen(ctx, server.ListenConfig{
		Name: "public", Address: string(s.listen), ConnectionsMax: connectionsMax(), Log: log, Metrics: metrics,
	}); err != nil {
		return nil, fmt.Errorf("%w: give another address with --listen", err)
	}
	if h.adminListener, err = server.Listen(ctx, server.ListenConfig{Name: "admin", Address: string(s.adminListen), Log: log, Metrics: metrics}); err != nil {
		return nil, fmt.Errorf("%w: give another address with --admin-listen", err)
	}
	if address := h.adminListener.Addr().(*net.TCPAddr); !address.IP.IsLoopback() {
		log.Warn("the admin listener has no authentication, and it listens beyond loopback: let only the operator's network reach it", "address", address.String())
	}
	h.url = s.baseURL.url
	if h.url == nil {
		h.url = guessURL(h.publicListener.Addr())
	}
	return h, nil
}

// open makes the servers.
func (h *httpServers) open(s *settings, st *store.Store, log *slog.Logger, metrics *prometheus.Registry) (err error) {
	config := server.Config{
		Store:       st,
		Log:         log,
		BaseURL:     h.url,
		OwnHostOnly: s.baseURL.url != nil,
		CORSOrigins: s.corsOrigins.items,
		AdminHosts:  s.adminHost.items,
		Metrics:     metrics,
		Pprof:       bool(s.pprof),
		Limits: server.Limits{
			BodyMax:        s.bodyMax.n,
			HeaderMax:      int(s.headerMax.n),
			RequestTimeout: time.Duration(s.requestTimeout),
			AnswerTimeout:  time.Duration(s.answerTimeout),
			IdleTimeout:    time.Duration(s.idleTimeout),
			QueueMax:       s.queueMax.n,
		},
	}
	h.public, h.admin, err = server.New(config)
	return err
}

// newMetrics returns the registry of a server, with what Go and the system
// tell of every process.
func newMetrics() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "plantstore_build_info",
			Help:        "Always 1; its labels tell the version.",
			ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version(), "sqlite": sqlite.Version()},
		}, func() float64 { return 1 }),
	)
	return r
}

// guessURL returns a URL at which this machine reaches a listener.
func guessURL(a net.Addr) *url.URL {
	host, port, _ := net.SplitHostPort(a.String())
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return &url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}
}

// serve begins to accept. drain waits for the goroutines.
func (h *httpServers) serve() {
	for _, served := range []struct {
		server   *http.Server
		listener net.Listener
	}{{h.public, h.publicListener}, {h.admin, h.adminListener}} {
		h.running.Go(func() {
			if err := served.server.Serve(served.listener); !errors.Is(err, http.ErrServerClosed) {
				h.failed <- fmt.Errorf("serve on %s: %w", served.listener.Addr(), err)
			}
		})
	}
}

// drain closes the public listener first, answers what was accepted, and then
// closes the admin listener, so that readiness can be seen until the end.
func (h *httpServers) drain(st *store.Store, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeMax)
	defer cancel()
	st.Retire(commitDrainMax)
	err := h.public.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		// They did not arrive whole, so they were never accepted: no failure of ours.
		log.Warn("requests that were still arriving were broken off", "after_us", drainTimeMax.Microseconds())
		err = h.public.Close()
	}
	st.Close()
	err = errors.Join(err, h.admin.Close())
	h.running.Wait()
	return err
}

// close closes the listeners; a server that ran has closed its own already.
func (h *httpServers) close() {
	for _, l := range []net.Listener{h.publicListener, h.adminListener} {
		if l != nil {
			_ = l.Close()
		}
	}
}

// firstToken mints a token for a store that never had one, and prints it with
// a command that works.
func (p *program) firstToken(ctx context.Context, engine store.Engine, base *url.URL, log *slog.Logger) error {
	secret := auth.Mint()
	created, err := engine.CreateFirstToken(ctx, auth.Token{
		Name:      firstTokenName,
		Hash:      auth.HashOf(secret),
		Prefix:    auth.PrefixOf(secret),
		Scopes:    auth.ScopeCreate,
		CreatedAt: time.Now(),
	})
	if err != nil || !created {
		return err
	}
	text := fmt.Sprintf(`This store has no token yet, so here is its first one. It never expires, and it is shown only now:

%s

Create a plant with it:

curl -i %s/plants \
  -H 'Authorization: Bearer %s' \
  -H 'Content-Type: application/json' \
  -d '{"id": 1, "name": "Rosa canina", "tag": "shrub"}'

`, secret, strings.TrimRight(base.String(), "/"), secret)
	printed := make(chan error, 1)
	go func() { // ends when standard output is read, or with the process
		_, err := io.WriteString(p.stdout, text)
		printed <- err
	}()
	select {
	case err = <-printed:
		if err != nil {
			return fmt.Errorf("print the first token: %w; create another one with plantstore token create", err)
		}
		return nil
	case <-ctx.Done(): // the next start would not print one
	case <-time.After(firstTokenTimeMax):
	}
	log.Warn("could not print the first token: standard output is not read; create another one with plantstore token create")
	return nil
}
