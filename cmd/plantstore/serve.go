package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"plantstore/internal/audit"
	"plantstore/internal/store"
	"plantstore/internal/trace"
	"plantstore/internal/writepath"
)

func newServe(p *program) *cobra.Command {
	s := &settings{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server until SIGTERM or Ctrl-C. It then responds to the requests that it
has accepted, and exits. A second signal ends it at once. SIGHUP, or a change of the
settings file, reloads the settings that need no restart. If standard input is a
terminal, SIGHUP stops the server, because a closed terminal sends it.

If the store has no token, the server creates the first two and prints them: one
creates plants, the other is for the admin listener. It does so only if standard
output is a terminal, or with --print-tokens. It writes its log to standard error.`,
		Example: `  plantstore serve
  plantstore serve --db /var/lib/plantstore/plantstore.db --backup-dir /mnt/backup
  plantstore serve --listen 0.0.0.0:8443 --tls-cert cert.pem --tls-key key.pem`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			signal.Ignore(syscall.SIGPIPE) // a closed log pipe must not end the server
			hangups := p.reloadSignals()
			defer signal.Stop(hangups)
			switch err := s.load(p, cmd); {
			case errors.Is(err, errInterrupted):
				return nil // like any stop before the server is ready
			case err != nil:
				return err
			}
			return p.serve(cmd.Context(), s, start{changedFlags(cmd.Flags()), hangups, p.firstTokens})
		},
	}
	s.bindStore(cmd.Flags())
	s.bindServe(cmd.Flags())
	return cmd
}

// start is the part of a server that differs between the commands which run one.
type start struct {
	flags   map[string]string // of the command line, for a reload
	hangups <-chan os.Signal  // each one reloads the settings; nil: none

	// greet is the last step of the start: it creates the first tokens and prints them.
	greet func(context.Context, wholeEngine, *settings, *httpServers, *slog.Logger) error
}

// serve wires the whole server: settings, engine, store, HTTP servers, signals, drain.
func (p *program) serve(ctx context.Context, s *settings, begin start) (err error) {
	log, level := newLogger(p, s)
	if err := p.checkStart(ctx, s); err != nil { // before anything is created
		return stoppedEarly(ctx, err, log)
	}
	p.tuneRuntime()
	metrics := newMetrics()
	metrics.MustRegister(p.logs.dropped)
	h, err := p.openListeners(ctx, s, log, metrics) // before the engine creates files
	if err != nil {
		return stoppedEarly(ctx, err, log)
	}
	defer h.close()
	h.tracer = p.startTracing(log, metrics)
	engine, err := s.openServed(ctx, p.operator(), h.tracer != nil, log, metrics)
	if err != nil {
		return stoppedEarly(ctx, err, log)
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	r := &reloader{p: p, settings: s, flags: begin.flags, log: log, level: level, metrics: metrics, servers: h}
	if err := r.open(); err != nil {
		return err
	}
	defer r.close()
	st, err := s.startStore(ctx, engine, h.tracer, r.issuer.verify(), log, metrics)
	if err != nil {
		return stoppedEarly(ctx, err, log)
	}
	defer st.Close()
	trace := p.startAudit(ctx, s, engine, log)
	defer trace.stop()
	if r.backups, err = p.newBackups(s, trace, log, metrics); err != nil {
		return err
	}
	defer r.backups.Close()
	if r.events, err = s.openEvents(ctx, engine, p.operator(), log, metrics); err != nil {
		return stoppedEarly(ctx, err, log)
	}
	defer r.events.close()
	r.store, r.trace, h.audit = st, trace, trace.Recorder
	if err := h.open(s, r.operations(engine), metrics); err != nil {
		return err
	}
	if client := h.certificates.acme; client != nil {
		if err := client.open(ctx, s, engine, log, metrics); err != nil {
			return stoppedEarly(ctx, err, log)
		}
		defer client.stop()
	}
	// The tokens are printed once, so every step that can fail comes before. They are valid at once, because the store
	// reloads its tokens when it receives an unknown one.
	if err := begin.greet(ctx, engine, s, h, log); err != nil {
		return stoppedEarly(ctx, err, log)
	}
	r.begin(ctx)
	h.logReady(s, log)
	cause := h.run(ctx, st, begin.hangups, r)
	r.events.retire()
	h.certificates.acme.retire()
	err = errors.Join(cause, h.drain(st, log), failureOf(st))
	log.Info("stopped")
	return err
}

// checkStart returns the usage errors of a server with these settings, and reads the files with secrets.
func (p *program) checkStart(ctx context.Context, s *settings) error {
	return cmp.Or(p.checkServe(ctx, s), p.readTracing(), s.webhook.check(p, s), s.signIn.readSecret(p, s))
}

func (h *httpServers) logReady(s *settings, log *slog.Logger) {
	log.Info("ready", "listen", h.publicListener.Addr().String(), "public", h.url.String(),
		"admin", h.adminURL.String(), "db", s.db.String(), "version", version)
}

// openServed opens the engine of a server, and warns of an interrupted move.
func (s *settings) openServed(
	ctx context.Context, by audit.Origin, traced bool, log *slog.Logger, metrics prometheus.Registerer,
) (wholeEngine, error) {
	engine, err := s.openEngine(ctx, engineOptions{
		server: true, migrate: true, log: log, metrics: metrics, traced: traced, by: by,
	})
	if err == nil {
		warnOfMove(ctx, engine, log)
	}
	return engine, err
}

// startStore starts a store on an engine; verify is nil if the server accepts no JWTs. The caller closes the store.
func (s *settings) startStore(
	ctx context.Context, engine wholeEngine, tracer *trace.Tracer, verify writepath.VerifyJWT, log *slog.Logger,
	metrics prometheus.Registerer,
) (*writepath.Store, error) {
	commits, within := s.commits()
	return writepath.New(ctx, writepath.Config{
		Engine:  engine,
		Commits: commits,
		Limits:  writepath.Limits{CommitTimeout: within},
		JWT:     verify,
		Log:     log,
		Metrics: metrics,
		Tracer:  tracer,
	})
}

// failureOf returns an error if the store has failed, also after a signal or during the drain.
func failureOf(st *writepath.Store) error {
	select {
	case <-st.Broken():
		return fmt.Errorf("%w; see the log; every acknowledged plant is stored", store.ErrBroken)
	default:
		return nil
	}
}

// stoppedEarly returns nil if SIGTERM or Ctrl-C caused err, an error of the start: an operator may stop a server at any
// time. Another error, and an unknown outcome of a write, stay.
func stoppedEarly(ctx context.Context, err error, log *slog.Logger) error {
	lasting := errors.Is(err, store.ErrOutcomeUnknown) || errors.Is(err, store.ErrBroken)
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) && !errors.Is(err, errInterrupted) || lasting {
		return err
	}
	log.Info("stopped before it was ready")
	return nil
}

// reloadSignals returns a channel of the SIGHUPs, also under nohup(1), which starts the program with SIGHUP ignored.
// With a terminal as standard input it returns nil, and SIGHUP interrupts the server like any command: the terminal was
// closed, and the server must not keep its port.
func (p *program) reloadSignals() chan os.Signal {
	if _, ok := isTerminal(p.stdin); ok && !signal.Ignored(syscall.SIGHUP) {
		return nil
	}
	signal.Ignore(syscall.SIGHUP) // also removes it from main's context
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	return hangups
}

// warnOfMove logs a warning after an interrupted move of the store, whose capture costs time. The server also starts if
// the check fails.
func warnOfMove(ctx context.Context, engine wholeEngine, log *slog.Logger) {
	switch interrupted, err := engine.Interrupted(ctx); {
	case err != nil:
		log.Warn("could not check for an interrupted move of the store", "error", err)
	case interrupted:
		log.Warn("an interrupted move still captures each new plant; " +
			"run the same move again, or plantstore move --from … --abandon")
	}
}
