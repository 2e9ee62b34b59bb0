package serve

import (
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"time"

	"plantstore/internal/config"
	"plantstore/internal/systemd"
)

// socketSettings are the names of systemd's sockets and the settings that they replace.
var socketSettings = map[string]string{"public": "listen", "admin": "admin-listen"}

// sockets are the open listeners of systemd that no listener of the server has taken, by name.
type sockets map[string]*net.TCPListener

// openSockets returns the listeners of systemd. A socket that belongs to no listener is a usage error: its clients
// would wait for ever.
func openSockets(env *config.Environment, s *config.Settings, log *slog.Logger) (_ sockets, err error) {
	passed, err := systemd.Listeners(env.Vars, os.Getpid())
	if err != nil {
		return nil, config.Usagef("%w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(passed)) {
		setting, known := socketSettings[name]
		if !known {
			sockets(passed).close()
			return nil, config.Usagef("systemd: a socket has the name %q; set FileDescriptorName=public or admin in its unit",
				name)
		}
		address := s.Listen
		if name == "admin" {
			address = s.AdminListen
		}
		if at := passed[name].Addr().String(); s.Sources[setting] != "default" && address != at {
			log.Warn("the socket of systemd replaces a setting; change ListenStream of its unit",
				"setting", setting, "value", address, "socket", at)
		}
	}
	return passed, nil
}

// take returns a listener, which its caller then owns; nil: none.
func (s sockets) take(name string) *net.TCPListener {
	l := s[name]
	delete(s, name)
	return l
}

// close closes the listeners that nothing has taken.
func (s sockets) close() {
	for _, l := range s {
		_ = l.Close()
	}
}

// manager reports the state of the server to systemd, if systemd has started it.
type manager struct {
	notifier systemd.Notifier
	watchdog <-chan time.Time // when alive is due; nil: never
	log      *slog.Logger
	failed   bool // the log has a line about it
}

// startManager reports that the server is ready. The caller ends the manager with stopping.
func startManager(env *config.Environment, log *slog.Logger) *manager {
	m := &manager{notifier: systemd.NewNotifier(env.Vars, os.Getpid()), log: log}
	if every := m.notifier.AliveEvery(); every > 0 {
		m.watchdog = time.Tick(every)
	}
	m.check(m.notifier.Ready())
	return m
}

// alive tells the watchdog that the loop that reloads settings and ends the server still runs.
func (m *manager) alive() { m.check(m.notifier.Alive()) }

// stopping reports that the server ends.
func (m *manager) stopping() { m.check(m.notifier.Stopping()) }

// check logs the first error. The server continues: systemd ends it if it needs the notification.
func (m *manager) check(err error) {
	if err != nil && !m.failed {
		m.failed = true
		m.log.Warn("could not report the state of the server to systemd", "error", err)
	}
}
