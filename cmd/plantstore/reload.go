package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/backup"
	"plantstore/internal/server"
	"plantstore/internal/store"
	"plantstore/internal/writepath"
)

// reloadable are the settings that a running server changes. Every other setting waits for a restart.
var reloadable = []string{
	"log-level",
	"auth-failures", "credential-rate", "credential-burst", "credential-concurrency",
	"webhook-url", "webhook-secret-file", "webhook-allow-private", "webhook-rate", "webhook-give-up",
}

// reloadEvery is the interval between two looks at the settings file.
const reloadEvery = 2 * time.Second

// reloader changes the settings of a running server. Only the goroutine of httpServers.run uses it, except for list.
type reloader struct {
	p        *program
	settings *settings         // in force
	flags    map[string]string // of the command line
	log      *slog.Logger
	level    *slog.LevelVar
	metrics  *prometheus.Registry
	trace    *serverAudit
	servers  *httpServers
	store    *writepath.Store
	issuer   issuer
	backups  *backup.Service // nil: none
	events   *eventSender

	// Sums of the settings file.
	applied [sha256.Size]byte // at the last reload
	seen    [sha256.Size]byte // at the last look

	mu     sync.Mutex
	listed []admin.Setting // the settings in force; guarded by mu
}

// publish sets the settings that list returns.
func (r *reloader) publish(s *settings) {
	var listed []admin.Setting
	for _, row := range s.allSettings() {
		if row.name == "config" {
			continue
		}
		listed = append(listed, admin.Setting{
			Name: row.name, Value: row.value.String(), Source: s.sources[row.name],
			Reloadable: slices.Contains(reloadable, row.name),
		})
	}
	slices.SortFunc(listed, func(a, b admin.Setting) int { return strings.Compare(a.Name, b.Name) })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listed = listed
}

// begin starts the HTTP servers, and the work that they do in the background.
func (r *reloader) begin(ctx context.Context) {
	if r.backups != nil {
		r.backups.Start()
	}
	r.servers.console.SetIssuer(r.issuer.client)
	r.servers.serve()
	r.events.start()
	if client := r.servers.certificates.acme; client != nil {
		client.start(ctx)
	}
}

// operations returns the configuration of the operations of the operator.
func (r *reloader) operations(engine wholeEngine) admin.Config {
	return admin.Config{
		Engine: engine, Deliveries: r.events.status, Store: r.store, Log: r.log,
		Backups: r.backups, Metrics: r.metrics, Settings: r.list,
		Issuer: string(r.settings.oidc.issuer), DB: r.settings.db.String(), Version: version,
		Unrecorded: func(u *store.Unrecorded) {
			r.log.Warn("revoked a credential without an entry in the audit log", "error", u.Cause)
			for _, event := range u.Events {
				r.trace.Record(event)
			}
		},
	}
}

// list returns the settings in force by name. The caller must not change them. Any goroutine may call it.
func (r *reloader) list() []admin.Setting {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.listed
}

// changedFlags returns the values of the flags of the command line.
func changedFlags(flags *pflag.FlagSet) map[string]string {
	values := map[string]string{}
	flags.Visit(func(f *pflag.Flag) { values[f.Name] = textOf(f.Value) })
	return values
}

// open opens the issuer of the settings. The caller calls close.
func (r *reloader) open() (err error) {
	r.applied = r.settings.configSum
	r.publish(r.settings)
	r.issuer, err = r.settings.openIssuer(r.log, r.servers.consoleURL, r.metrics)
	return err
}

func (r *reloader) close() { r.issuer.close() }

// look loads the settings again if the settings file differs from that of the last reload. It does so only at the
// second look that finds the same contents, because an editor may be writing the file. It ignores a file that is not
// regular, because a look would take the contents of a FIFO.
func (r *reloader) look(ctx context.Context) {
	sum, ok := sumOf(string(r.settings.config))
	if ok && sum == r.seen && sum != r.applied {
		r.reload(ctx)
	}
	r.seen = sum
}

// sumOf returns the sum of a regular file.
func sumOf(path string) (sum [sha256.Size]byte, ok bool) {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return sum, false
	}
	f, err := os.Open(path)
	if err != nil {
		return sum, false
	}
	defer f.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, io.LimitReader(f, configBytesMax+1))
	return [sha256.Size]byte(hash.Sum(nil)), err == nil
}

// hangup is reload for SIGHUP: the operator says that all files are whole, also the certificates.
func (r *reloader) hangup(ctx context.Context) {
	if err := r.servers.certificates.reload(r.settings); err != nil {
		r.log.Error("could not reload the certificates; the previous ones stay in use", "error", r.hide(err.Error()))
	}
	r.reload(ctx)
}

// reload loads the settings again. The settings in force stay if it fails.
func (r *reloader) reload(ctx context.Context) {
	r.applied, _ = sumOf(string(r.settings.config))
	next, changed, waiting, err := r.prepare(ctx)
	if err == nil {
		err = r.apply(ctx, next)
	}
	if err != nil {
		r.log.Error("could not reload the settings; the previous ones stay in force", "error", r.hide(err.Error()))
		return
	}
	r.settings = next
	r.publish(next)
	r.log.Info("settings reloaded", "changed", strings.Join(changed, ","))
	if len(waiting) > 0 {
		r.log.Warn("changed settings wait for a restart of the server", "settings", strings.Join(waiting, ","))
	}
	r.record(changed)
}

// prepare returns the settings that a reload puts in force, after their checks, with the names of those that change and
// of those that wait for a restart.
func (r *reloader) prepare(ctx context.Context) (next *settings, changed, waiting []string, err error) {
	if next, err = r.load(ctx); err != nil {
		return nil, nil, nil, err
	}
	changed, waiting = r.merge(next)
	err = errors.Join(next.check(), r.p.checkServe(ctx, next), next.webhook.check(r.p, next))
	if err != nil {
		return nil, nil, nil, err
	}
	if !next.webhook.sameSecrets(&r.settings.webhook) && !slices.Contains(changed, secretFileSetting) {
		changed = append(changed, secretFileSetting)
	}
	next.signIn.secret = r.settings.signIn.secret
	return next, changed, waiting, nil
}

func (r *reloader) hide(text string) string { return hideSecrets(text, r.p.values) }

// record appends the changed settings to the audit log.
func (r *reloader) record(changed []string) {
	if len(changed) == 0 {
		return
	}
	var details []audit.Detail
	for _, d := range r.settings.auditDetails(r.p) {
		if _, name, _ := strings.Cut(d.Key, "."); slices.Contains(changed, name) {
			details = append(details, d)
		}
	}
	r.trace.Record(r.trace.event(audit.ServerReload, details...))
}

// load returns the settings of the command line, the environment and the file.
func (r *reloader) load(ctx context.Context) (*settings, error) {
	if path := string(r.settings.config); path != "" {
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return nil, errors.New("the settings file is not a regular file; restart the server to read it again")
		}
	}
	next := &settings{}
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	next.bindStore(flags)
	next.bindServe(flags)
	for name, value := range r.flags {
		if flags.Lookup(name) == nil {
			continue // --help and the like
		}
		if err := flags.Set(name, value); err != nil {
			return nil, err
		}
	}
	return next, next.loadFlags(ctx, r.p, flags)
}

// merge returns the names of the changed settings that the server reloads, and of those that wait for a restart. next
// receives the values in force of the latter.
func (r *reloader) merge(next *settings) (changed, waiting []string) {
	old := r.settings.allSettings()
	for i, row := range next.allSettings() {
		switch {
		case textOf(row.value) == textOf(old[i].value):
		case slices.Contains(reloadable, row.name):
			changed = append(changed, row.name)
		default:
			waiting = append(waiting, row.name)
			reflect.ValueOf(row.value).Elem().Set(reflect.ValueOf(old[i].value).Elem())
			next.sources[row.name] = r.settings.sources[row.name]
		}
	}
	return changed, waiting
}

// apply puts settings in force. Webhooks come first: only they can fail, and then nothing has changed.
func (r *reloader) apply(ctx context.Context, next *settings) error {
	if err := r.events.reload(ctx, r.settings, next); err != nil {
		return err
	}
	r.level.Set(next.lowestLevel())
	return server.Reload(r.servers.public, r.servers.admin, r.servers.configOf(next))
}
