package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"maps"
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
)

// reloadable are the settings that a running server changes. Every other setting waits for a restart.
var reloadable = []string{
	"log-level",
	"body-max", "queue-max",
	"connections-max", "connections-per-address", "incomplete-max",
	"auth-failures", "credential-rate", "credential-burst", "credential-concurrency",
	"tls-cert", "tls-key", "client-ca",
	"oidc-issuer", "oidc-audience", "oidc-scopes", "oidc-scope-claim", "oidc-name-claim",
	"oidc-client-id", "oidc-client-secret-file", "oidc-client-scopes", "oidc-console-claim", "oidc-console-grants",
	"cors-origins", "admin-host",
	"backup-every", "backup-keep",
	"webhook-url", "webhook-secret-file", "webhook-allow-private", "webhook-timeout", "webhook-concurrency",
	"webhook-rate", "webhook-give-up", "webhook-keep",
}

// reloadEvery is the interval between two looks at the settings file.
const reloadEvery = 2 * time.Second

// retryLooksMax bounds the looks between two attempts of a reload that fails: one minute.
const retryLooksMax = 30

// reloader changes the settings of a running server. Only the goroutine of httpServers.run uses it, except for list and
// acceptedIssuer.
type reloader struct {
	p        *program
	settings *settings         // in force
	flags    map[string]string // of the command line
	log      *slog.Logger
	level    *slog.LevelVar
	metrics  *prometheus.Registry
	trace    *serverAudit
	servers  *httpServers
	store    *store.Store
	issuer   issuer
	backups  *backup.Service // nil: none
	events   *eventSender

	// Sums of the settings file.
	applied [sha256.Size]byte // at the last reload
	seen    [sha256.Size]byte // at the last look

	hungUp      bool   // no reload has succeeded since the last SIGHUP
	fault       string // of the last reload; empty: it succeeded
	wait, pause int    // looks until the next attempt after a fault, and between the next two

	mu      sync.Mutex      // guards the fields below
	listed  []admin.Setting // the settings in force
	trusted string          // the issuer in force; empty: none
}

// publish makes settings, and the values that wait for a restart, those of list and acceptedIssuer.
func (r *reloader) publish(s *settings, pending map[string]admin.Pending) {
	var listed []admin.Setting
	for _, row := range s.allSettings() {
		if row.name == "config" {
			continue
		}
		l := admin.Setting{
			Name: row.name, Value: row.value.String(), Source: s.sources[row.name],
			Reloadable: slices.Contains(reloadable, row.name),
		}
		if waiting, ok := pending[row.name]; ok {
			l.Pending = &waiting
		}
		listed = append(listed, l)
	}
	slices.SortFunc(listed, func(a, b admin.Setting) int { return strings.Compare(a.Name, b.Name) })
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listed, r.trusted = listed, string(s.oidc.issuer)
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
func (r *reloader) operations(engine store.Engine) admin.Config {
	return admin.Config{
		Engine: engine, Outbox: r.events.outbox, Deliveries: r.events.status, Store: r.store, Log: r.log,
		Backups: r.backups, Metrics: r.metrics, Settings: r.list,
		Issuer: r.acceptedIssuer, Record: r.trace.Record, DB: r.settings.db.String(), Version: version,
	}
}

// list returns the settings in force by name. The caller must not change them. Any goroutine may call it.
func (r *reloader) list() []admin.Setting {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.listed
}

// acceptedIssuer returns the issuer in force; empty: none. Any goroutine may call it.
func (r *reloader) acceptedIssuer() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trusted
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
	r.publish(r.settings, nil)
	if r.issuer, err = r.settings.openIssuer(r.log, r.servers.consoleURL); err == nil {
		issuer{}.replaceBy(r.issuer, r.metrics)
	}
	return err
}

func (r *reloader) close() { r.issuer.close() }

// look loads the settings again if the settings file differs from that of the last reload. It does so only at the
// second look that finds the same contents, because an editor may be writing the file. It ignores a file that is not
// regular, because a look would take the contents of a FIFO. After a failed reload it tries again: the cause may be in
// another file, such as a key that a deployment writes later.
func (r *reloader) look(ctx context.Context) {
	sum, ok := sumOf(string(r.settings.config))
	same := sum == r.seen
	r.seen = sum
	switch {
	case !ok || !same:
	case sum != r.applied:
		r.reload(ctx)
	case r.fault != "":
		if r.wait--; r.wait <= 0 {
			r.attempt(ctx)
		}
	}
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

// hangup is reload for SIGHUP: the operator says that the files are whole, also the certificates of the same names.
func (r *reloader) hangup(ctx context.Context) {
	r.hungUp = true
	r.reload(ctx)
}

// reload loads the settings again. The settings in force stay if it fails.
func (r *reloader) reload(ctx context.Context) {
	r.fault, r.pause = "", 1
	r.attempt(ctx)
}

// attempt is reload, and logs an error only if it differs from that of the previous attempt.
func (r *reloader) attempt(ctx context.Context) {
	r.applied, _ = sumOf(string(r.settings.config))
	next, changed, pending, err := r.prepare(ctx)
	if err == nil {
		err = r.apply(ctx, next)
	}
	if err != nil {
		r.failed(r.hide(err.Error()))
		return
	}
	r.fault, r.hungUp = "", false
	r.settings = next
	r.publish(next, pending)
	r.log.Info("settings reloaded", "changed", strings.Join(changed, ","))
	if len(pending) > 0 {
		names := strings.Join(slices.Sorted(maps.Keys(pending)), ",")
		r.log.Warn("changed settings wait for a restart of the server", "settings", names)
	}
	r.record(changed)
}

// failed logs the error of a reload, and doubles the pause before the next attempt.
func (r *reloader) failed(fault string) {
	if fault != r.fault {
		r.log.Error("could not reload the settings; the previous ones stay in force", "error", fault)
	}
	r.fault, r.wait, r.pause = fault, r.pause, min(2*r.pause, retryLooksMax)
}

// prepare returns the settings that a reload puts in force, after their checks, with the names of those that change and
// the values of those that wait for a restart.
func (r *reloader) prepare(
	ctx context.Context,
) (next *settings, changed []string, pending map[string]admin.Pending, err error) {
	if next, err = r.load(ctx); err != nil {
		return nil, nil, nil, err
	}
	if err := next.checkSecretFiles(); err != nil {
		return nil, nil, nil, err
	}
	changed, pending = r.merge(next)
	err = errors.Join(next.check(), r.p.checkServe(ctx, next), next.webhook.check(r.p, next),
		next.signIn.readSecret(r.p, next))
	if err != nil {
		return nil, nil, nil, err
	}
	if !next.webhook.sameSecrets(&r.settings.webhook) && !slices.Contains(changed, secretFileSetting) {
		changed = append(changed, secretFileSetting)
	}
	if next.signIn.secret != r.settings.signIn.secret && !slices.Contains(changed, "oidc-client-secret-file") {
		changed = append(changed, "oidc-client-secret-file")
	}
	return next, changed, pending, nil
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

// checkSecretFiles returns a usage error for a file with a secret that is not regular. A reload does not read it,
// because opening a FIFO waits for a writer. The errors do not have the name, which may be a secret.
func (s *settings) checkSecretFiles() error {
	for name, path := range map[string]text{
		secretFileSetting: s.webhook.secretFile, "oidc-client-secret-file": s.signIn.secretFile,
	} {
		if info, err := os.Stat(string(path)); err == nil && !info.Mode().IsRegular() {
			return s.fault(name, "the file is not a regular file; restart the server to read it again")
		}
	}
	return nil
}

// merge returns the names of the changed settings that the server reloads, and the values of those that wait for a
// restart. next receives the values in force of the latter.
func (r *reloader) merge(next *settings) (changed []string, pending map[string]admin.Pending) {
	pending = map[string]admin.Pending{}
	old, nextTLS := r.settings.allSettings(), next.tls
	for i, row := range next.allSettings() {
		if textOf(row.value) == textOf(old[i].value) {
			continue
		}
		if slices.Contains(reloadable, row.name) && !r.settings.tls.switches(row.name, &nextTLS) {
			changed = append(changed, row.name)
			continue
		}
		pending[row.name] = admin.Pending{Value: row.value.String(), Source: next.sources[row.name]}
		reflect.ValueOf(row.value).Elem().Set(reflect.ValueOf(old[i].value).Elem())
		next.sources[row.name] = r.settings.sources[row.name]
	}
	return changed, pending
}

// apply puts settings in force. After an error everything is as it was.
func (r *reloader) apply(ctx context.Context, next *settings) error {
	var fresh issuer
	var err error
	otherIssuer := next.oidc.differs(&r.settings.oidc) || next.signIn.differs(&r.settings.signIn)
	if otherIssuer {
		if fresh, err = next.openIssuer(r.log, r.servers.consoleURL); err != nil {
			return err
		}
		if fresh.verifier != nil && r.issuer.verifier != nil {
			fresh.verifier.Adopt(r.issuer.verifier)
		}
	}
	if err = r.applyServers(ctx, next); err != nil {
		fresh.close()
		return err
	}
	if otherIssuer {
		r.store.SetJWT(fresh.verify())
		r.servers.console.SetIssuer(fresh.client)
		r.issuer.replaceBy(fresh, r.metrics)
		r.issuer = fresh
	}
	r.store.SetQueueMax(next.queueMax.n)
	r.servers.publicTCP.SetLimits(next.connectionLimits(r.log))
	r.level.Set(next.lowestLevel())
	if r.backups != nil {
		r.backups.SetSchedule(time.Duration(next.backup.every), next.backup.keep.n)
	}
	return nil
}

// applyServers puts the settings of certificates, servers and webhooks in force. After an error everything is as it
// was.
func (r *reloader) applyServers(ctx context.Context, next *settings) error {
	if err := r.servers.certificates.reload(r.settings, next, r.hungUp); err != nil {
		return err
	}
	err := server.Reload(r.servers.public, r.servers.admin, r.servers.configOf(next))
	if err == nil {
		if err = r.events.reload(ctx, r.settings, next); err == nil {
			return nil
		}
		err = errors.Join(err, server.Reload(r.servers.public, r.servers.admin, r.servers.configOf(r.settings)))
	}
	return errors.Join(err, r.servers.certificates.reload(next, r.settings, r.hungUp))
}
