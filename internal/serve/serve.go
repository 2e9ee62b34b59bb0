// Package serve runs a server: it opens the parts that the settings ask for, serves, reloads the settings, and drains.
package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/acme"
	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/backup"
	"plantstore/internal/certs"
	"plantstore/internal/config"
	"plantstore/internal/notify"
	"plantstore/internal/oidc"
	"plantstore/internal/postgres"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/terminal"
	"plantstore/internal/writepath"
)

// Config configures a server.
type Config struct {
	Settings *config.Settings  // loaded
	Flags    map[string]string // from the command line, for a reload
	Env      *config.Environment
	Log      *Log
	Version  string
	By       audit.Origin     // recorded with changes of the store that the server makes itself
	Hangups  <-chan os.Signal // each one reloads the settings; nil: none

	// Greet is the last step of the start: it creates the first tokens and prints them.
	Greet func(context.Context, Engine, Addresses) error
}

// Run runs a server until ctx ends or the store fails. After ctx has ended it responds to the accepted requests and
// returns nil. Its errors are usage errors, store.ErrBroken, backup.FencedError, and the errors of listeners and of the
// engine. One of two machines runs as a standby or as the owner, see role.go.
func Run(ctx context.Context, c Config) error {
	m := newManager(c.Log.Logger)
	for next := (role{}); ; {
		v := &instance{Config: c, role: next, manager: m, log: c.Log.Logger, metrics: newMetrics(c.Version)}
		cause, err := v.live(ctx)
		if v.successor == nil || err != nil {
			return errors.Join(cause, err)
		}
		next, c.Settings = *v.successor, v.Settings
	}
}

// live runs a server from its start to its end. cause is why it has ended.
func (v *instance) live(ctx context.Context) (cause, err error) {
	opened := v.manager.opening()
	cause = v.open(ctx)
	opened()
	if cause == nil {
		cause, err = v.serve(ctx)
	} else if v.succeed(ctx, cause); v.successor == nil {
		cause = stoppedEarly(ctx, cause, v.log)
	}
	err = errors.Join(err, v.close())
	v.keepUnreleased()
	return cause, err
}

// instance is a running server. Only the goroutine of serve changes its settings and the parts that a reload replaces.
type instance struct {
	Config
	role

	manager *manager
	log     *slog.Logger
	metrics *prometheus.Registry

	servers   *httpServers
	engine    Engine
	verifier  *oidc.Verifier // nil: no issuer
	signIn    *oidc.Client   // signs in to the console at the issuer; nil: none
	writePath *writepath.Service
	audit     *serverAudit
	restored  []audit.Detail                 // about the restore of the missing store; nil: it was there
	standby   *backup.Standby                // nil: not a standby
	owner     atomic.Pointer[backup.Service] // backups, once they are open
	backups   *backup.Service                // nil: none
	copied    *copiedEngine                  // engine; nil without --backup-sync
	events    *eventSender
	notifier  *notify.Notifier
	acme      *acme.Source // nil: none

	// What the parts do later: each part adds its functions when it opens.
	starting []func(context.Context) // once the server accepts requests
	retiring []func()                // start no new work, before the server drains
	closing  []func() error          // in reverse order

	checking bool // Check runs, which changes nothing
	served   bool // a server of the store may run

	settingsFile settingsFile
	listed       atomic.Pointer[[]admin.Setting] // the settings in force
}

// open opens the parts of the server, each after those that it needs.
func (v *instance) open(ctx context.Context) error {
	v.settingsFile.applied = v.Settings.FileSum
	v.publish()
	for _, step := range []struct {
		open  func(context.Context) error
		owner bool // a standby does not need it
	}{
		{v.check, false},         // before anything is created
		{v.openListeners, false}, // before the engine creates files
		{v.openStandby, false},
		{v.openMissing, true},
		{v.openEngine, false},
		{v.openIssuer, false},
		{v.openStore, false},
		{v.openAudit, false},
		{v.openBackups, true},
		{v.recordStart, true},
		{v.openWebhooks, false},
		{v.openServers, false},
		{v.openNotifier, false},
		{v.openACME, false},
		{v.greet, true}, // prints the tokens once, so it follows every step that can fail
	} {
		if step.owner && v.standby != nil {
			continue
		}
		if err := step.open(ctx); err != nil {
			return err
		}
	}
	return nil
}

// close closes the parts that open has opened.
func (v *instance) close() (err error) {
	for _, f := range slices.Backward(v.closing) {
		err = errors.Join(err, f())
	}
	return err
}

func (v *instance) onStart(f func(context.Context)) { v.starting = append(v.starting, f) }

func (v *instance) onRetire(f func()) { v.retiring = append(v.retiring, f) }

func (v *instance) onClose(f func()) {
	v.closing = append(v.closing, func() error { f(); return nil })
}

// check returns the usage errors of the server, and logs the settings without effect.
func (v *instance) check(ctx context.Context) error {
	if v.sockets != nil { // an earlier role has checked them; the directory of the backups may be away now
		return nil
	}
	none := v.Settings.WithoutEffect()
	for _, name := range slices.Sorted(maps.Keys(none)) {
		v.log.Warn("a setting has no effect", "setting", name, "source", v.Settings.Sources[name], "remedy", none[name])
	}
	return v.Settings.CheckServe(ctx, v.Env)
}

func (v *instance) openEngine(ctx context.Context) (err error) {
	v.engine, err = OpenEngine(ctx, v.Settings, EngineOptions{
		Server: v.standby == nil, ReadOnly: v.standby != nil, MayWrite: v.mayAccept, Migrate: true, By: v.By,
		Log: v.log, Metrics: v.metrics, Traced: v.servers.tracer != nil,
	})
	if err != nil {
		return err
	}
	v.closing = append(v.closing, v.engine.Close)
	file, isFile := v.engine.(*sqlite.Engine)
	switch c := v.Settings.Backup; {
	case !isFile:
	case v.standby != nil:
		v.engine = &standbyEngine{file, v.log}
	case c.Sync || c.Failover > 0:
		v.copied = &copiedEngine{Engine: file, destination: c.Destination, sync: c.Sync}
		v.engine = v.copied
	}
	return nil
}

// openStore starts the store. SQLite has one writer. PostgreSQL may be remote: several commits hide its latency, and
// the engine repeats a commit of unknown outcome while its requests wait.
func (v *instance) openStore(ctx context.Context) (err error) {
	c := writepath.Config{
		Engine: v.engine, Commits: 1, MayAccept: v.mayAccept, Log: v.log, Metrics: v.metrics, Tracer: v.servers.tracer,
	}
	if v.Settings.OIDC.Audience != "" { // else the issuer is for the console alone
		c.JWT = v.verifier.Verify
	}
	if v.Settings.DB.IsDatabase() {
		c.Commits, c.Limits.CommitTimeout = postgres.CommitsMax, writepath.AnswerTimeout
	}
	if v.copied != nil && v.copied.sync {
		c.Commits = copiedCommits
	}
	if v.writePath, err = writepath.New(ctx, c); err != nil {
		return err
	}
	v.onClose(v.writePath.Close)
	return nil
}

func (v *instance) greet(ctx context.Context) error {
	return v.Greet(ctx, v.engine, v.servers.Addresses)
}

// serve starts the server, and ends it after a signal, a failure of the store or of a listener, or when its role ends.
// cause is why it has ended, nil for a signal.
func (v *instance) serve(ctx context.Context) (cause, err error) {
	for _, start := range v.starting {
		start(ctx)
	}
	state := "ready"
	if v.standby != nil {
		state = "ready as a standby"
	}
	v.log.Info(state, "listen", v.servers.publicListener.Addr().String(), "public", v.servers.Public.String(),
		"admin", v.servers.Admin.String(), "db", v.Settings.DB.String(), "version", v.Version)
	v.manager.ready()
	cause = v.run(ctx)
	failure := v.failure()
	cause = errors.Join(cause, failure)
	if v.succeed(ctx, cause); v.successor == nil {
		v.manager.stopping()
	}
	for _, retire := range v.retiring {
		retire()
	}
	err = v.servers.drain(v.writePath, v.log)
	if late := v.failure(); failure == nil && late != nil { // during the drain
		cause = errors.Join(cause, late)
		if errors.Is(late, store.ErrBroken) {
			v.successor = nil
		}
	}
	if v.successor == nil {
		v.log.Info("stopped")
	}
	return cause, err
}

// run waits until the server must stop. It returns nil after a signal and after a failure of the store. It loads the
// settings again after SIGHUP and when the settings file has changed, and certificates when their files have changed.
func (v *instance) run(ctx context.Context) error {
	changes, certificates := time.Tick(reloadEvery), time.Tick(certs.CheckEvery)
	for {
		select {
		case <-v.manager.watchdog:
			v.manager.alive()
		case <-ctx.Done():
			v.log.Info("shutting down: responding to accepted requests", "cause", context.Cause(ctx))
			return nil
		case <-v.writePath.Broken():
			return nil
		case <-v.fenced():
			return nil
		case <-v.roleEnds():
			return errRoleEnds
		case err := <-v.servers.failed:
			return err
		case <-v.Hangups:
			v.hangup(ctx)
		case <-changes:
			v.look(ctx)
		case <-certificates:
			v.servers.certificates.check()
		}
	}
}

// failure returns an error if the store has failed, or another server has taken over, even after a signal or during the
// drain.
func (v *instance) failure() error {
	select {
	case <-v.writePath.Broken():
		return fmt.Errorf("%w; see the log", store.ErrBroken)
	case <-v.fenced():
		return v.backups.Fault()
	default:
		return nil
	}
}

// stoppedEarly returns nil if SIGTERM or Ctrl-C caused err, an error of the start: an operator may stop a server at any
// time. Another error, and an unknown outcome of a write, stay.
func stoppedEarly(ctx context.Context, err error, log *slog.Logger) error {
	lasting := errors.Is(err, store.ErrOutcomeUnknown) || errors.Is(err, store.ErrBroken)
	if ctx.Err() == nil || !errors.Is(err, context.Canceled) && !errors.Is(err, terminal.ErrInterrupted) || lasting {
		return err
	}
	log.Info("stopped before it was ready")
	return nil
}
