package serve

import (
	"context"
	"crypto/sha256"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/config"
	"plantstore/internal/server"
	"plantstore/internal/store"
)

// reloadEvery is the interval between two looks at the settings file.
const reloadEvery = 2 * time.Second

// settingsFile has the sums of the settings file.
type settingsFile struct {
	applied [sha256.Size]byte // at the last reload
	seen    [sha256.Size]byte // at the last look
}

// publish sets the settings that list returns.
func (v *instance) publish() {
	listed := ListSettings(v.Settings)
	v.listed.Store(&listed)
}

// ListSettings returns the settings in force by name, without the name of the settings file.
func ListSettings(s *config.Settings) (list []admin.Setting) {
	for _, group := range s.Groups() {
		for _, row := range group.Settings {
			if row.Name != "config" {
				list = append(list, admin.Setting{
					Name: row.Name, Value: row.Value.String(), Source: s.Sources[row.Name], Reloadable: row.Reloadable(),
					Group: group.Title, Usage: strings.ReplaceAll(row.Usage, "`", ""),
				})
			}
		}
	}
	slices.SortFunc(list, func(a, b admin.Setting) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// adminConfig returns the configuration of the operations of the operator.
func (v *instance) adminConfig() admin.Config {
	temp := ""
	if db := v.Settings.DB; !db.IsDatabase() {
		temp = filepath.Dir(db.Path)
	}
	return admin.Config{
		TempDir: temp,
		Engine:  v.engine, Deliveries: v.events.status, WritePath: v.writePath, Log: v.log,
		Audit: v.audit.Recorder, Backups: v.backups, Numbers: v.numbers, Open: v.servers.open, Settings: v.list,
		Issuer: v.Settings.OIDC.Issuer, DB: v.Settings.DB.String(), Version: v.Version,
		Unrecorded: func(u *store.Unrecorded) {
			v.log.Warn("revoked a credential without an entry in the audit log", "error", u.Cause)
			for _, event := range u.Events {
				v.audit.Record(event)
			}
		},
	}
}

// list returns the settings in force by name. The caller must not change them. Any goroutine may call it.
func (v *instance) list() []admin.Setting { return *v.listed.Load() }

// look loads the settings again if the settings file has changed since the last reload. It does so only at the
// second look that finds the same contents, because an editor may be writing the file. It ignores a file that is not
// regular, because a look would consume the contents of a FIFO.
func (v *instance) look(ctx context.Context) {
	sum, ok := sumOf(v.Settings.Config)
	if ok && sum == v.settingsFile.seen && sum != v.settingsFile.applied {
		v.reload(ctx)
	}
	v.settingsFile.seen = sum
}

// sumOf returns the sum of a regular file.
func sumOf(path string) (sum [sha256.Size]byte, ok bool) {
	text, err := config.ReadRegular(path)
	return sha256.Sum256(text), err == nil
}

// hangup is reload for SIGHUP: the operator says that all files are whole, also the certificates.
func (v *instance) hangup(ctx context.Context) {
	if err := v.servers.certificates.reload(v.Settings); err != nil {
		v.log.Error("could not reload the certificates; the previous ones stay in use", "error", v.Env.Hide(err.Error()))
	}
	v.reload(ctx)
}

// reload loads the settings again. The settings in force stay if it fails.
func (v *instance) reload(ctx context.Context) {
	v.settingsFile.applied, _ = sumOf(v.Settings.Config)
	next, changed, waiting, err := v.prepare(ctx)
	if err == nil {
		err = v.apply(ctx, next)
	}
	if err != nil {
		v.log.Error("could not reload the settings; the previous ones stay in force", "error", v.Env.Hide(err.Error()))
		return
	}
	v.Settings = next
	v.publish()
	v.log.Info("settings reloaded", "changed", strings.Join(changed, ","))
	if len(waiting) > 0 {
		v.log.Warn("changed settings wait for a restart of the server", "settings", strings.Join(waiting, ","))
	}
	v.record(changed)
}

// prepare returns the settings that a reload puts in force, after their checks, with the names of those that change
// and those that wait for a restart.
func (v *instance) prepare(ctx context.Context) (next *config.Settings, changed, waiting []string, err error) {
	loaded, err := v.load(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	next, changed, waiting = v.merge(loaded)
	if err := next.CheckReload(v.Env); err != nil {
		return nil, nil, nil, err
	}
	sameSecrets := reflect.DeepEqual(next.Webhook.Secrets, v.Settings.Webhook.Secrets)
	if !sameSecrets && !slices.Contains(changed, config.SecretFileSetting) {
		changed = append(changed, config.SecretFileSetting)
	}
	return next, changed, waiting, nil
}

// record appends the changed settings to the audit log.
func (v *instance) record(changed []string) {
	if len(changed) == 0 {
		return
	}
	details := slices.DeleteFunc(auditDetails(v.Settings, v.Env), func(d audit.Detail) bool {
		_, name, _ := strings.Cut(d.Key, ".")
		return !slices.Contains(changed, name)
	})
	v.audit.Record(v.audit.event(audit.ServerReload, details...))
}

// load returns the settings of the command line, the environment and the file.
func (v *instance) load(ctx context.Context) (*config.Settings, error) {
	if path := v.Settings.Config; path != "" {
		if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
			return nil, errors.New("the settings file is not a regular file; restart the server to read it again")
		}
	}
	loaded := &config.Settings{}
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	loaded.BindServe(flags)
	for name, value := range v.Flags {
		if err := flags.Set(name, value); err != nil {
			return nil, err
		}
	}
	_ = flags.Set("config", v.Settings.Config) // a default file that appears, or another store, must not change it
	return loaded, loaded.Load(ctx, v.Env, flags)
}

// merge returns the settings in force with the loaded values that the server reloads, the names of those that change,
// and the names of those that wait for a restart.
func (v *instance) merge(loaded *config.Settings) (next *config.Settings, changed, waiting []string) {
	next = new(*v.Settings)
	next.Sources = maps.Clone(next.Sources)
	rows := next.AllSettings()
	for i, row := range loaded.AllSettings() {
		text := config.TextOf(row.Value)
		switch {
		case text == config.TextOf(rows[i].Value):
		case row.Reloadable():
			changed = append(changed, row.Name)
			_ = rows[i].Value.Set(text) // loaded has accepted it
		default:
			waiting = append(waiting, row.Name)
			continue
		}
		next.Sources[row.Name] = loaded.Sources[row.Name]
	}
	return next, changed, waiting
}

// apply puts settings in force. Webhooks come first: only they can fail, and then nothing has changed.
func (v *instance) apply(ctx context.Context, next *config.Settings) error {
	if v.standby == nil {
		if err := v.events.reload(ctx, v.Settings, next); err != nil {
			return err
		}
	}
	v.reloadNotifier(ctx, next)
	v.Log.level.Set(next.LowestLevel())
	return server.Reload(v.servers.public, v.servers.admin, v.servers.configOf(next))
}
