package serve

import (
	"cmp"
	"context"
	"os"
	"reflect"

	"plantstore/internal/config"
	"plantstore/internal/notify"
	"plantstore/internal/webhook"
)

// openNotifier makes the notifier, which starts with the server and ends before its drain.
func (v *instance) openNotifier(context.Context) error {
	v.notifier = v.newNotifier(v.Settings)
	v.onStart(func(ctx context.Context) { v.notifier.Start(ctx) })
	v.onRetire(func() { v.notifier.Retire() })
	v.onClose(func() { v.notifier.Close() })
	return nil
}

func (v *instance) newNotifier(s *config.Settings) *notify.Notifier {
	name, _ := os.Hostname()
	heartbeat := s.HeartbeatURL
	if v.standby != nil {
		heartbeat = "" // only the owner sends it: a standby cannot tell that all is well
	}
	return notify.New(notify.Config{
		HeartbeatURL: heartbeat, WarningURL: s.WarningURL, Warnings: v.servers.operations.Warnings,
		Client: webhook.NewClient(webhook.Config{
			AllowPrivate: s.Webhook.AllowPrivate, Secrets: s.Webhook.Secrets, UserAgent: v.events.userAgent,
		}),
		Server: cmp.Or(name, v.servers.Console.Host), ConsoleURL: v.servers.Console.String(), Log: v.log,
	})
}

// reloadNotifier replaces the notifier if its settings have changed. The new one sends the warnings that hold again.
func (v *instance) reloadNotifier(ctx context.Context, next *config.Settings) {
	now, old := next.Webhook, v.Settings.Webhook
	if next.HeartbeatURL == v.Settings.HeartbeatURL && next.WarningURL == v.Settings.WarningURL &&
		now.AllowPrivate == old.AllowPrivate && reflect.DeepEqual(now.Secrets, old.Secrets) {
		return
	}
	v.notifier.Close()
	v.notifier = v.newNotifier(next)
	v.notifier.Start(ctx)
}
