package serve

import (
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"

	"plantstore/internal/config"
)

// sockets are the open listeners of systemd (sd_listen_fds(3)) that no listener of the server has taken, by name.
type sockets map[string]*net.TCPListener

// openSockets returns the listeners of systemd. A socket that belongs to no listener is a usage error: its clients
// would wait for ever. Call it once: it closes the descriptors of systemd.
func openSockets(s *config.Settings, log *slog.Logger) (sockets, error) {
	passed := sockets{}
	for _, file := range activation.Files(true) {
		l, err := socketListener(file)
		if err == nil {
			err = passed.add(file.Name(), l, s, log)
		}
		if err != nil {
			passed.close()
			return nil, err
		}
	}
	return passed, nil
}

// socketListener returns a listener on a copy of a descriptor of systemd, which it closes.
func socketListener(file *os.File) (*net.TCPListener, error) {
	defer file.Close()
	l, err := net.FileListener(file)
	if err != nil {
		return nil, config.Usagef("systemd: the socket %q does not accept connections; use ListenStream=HOST:PORT: %w",
			file.Name(), err)
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		_ = l.Close()
		return nil, config.Usagef("systemd: the socket %q is not a TCP socket; use ListenStream=HOST:PORT", file.Name())
	}
	return tcp, nil
}

// add keeps l, or closes it if it returns an error.
func (s sockets) add(name string, l *net.TCPListener, settings *config.Settings, log *slog.Logger) error {
	var setting, address string
	switch name {
	case "public":
		setting, address = "listen", settings.Listen
	case "admin":
		setting, address = "admin-listen", settings.AdminListen
	}
	switch {
	case setting == "":
		_ = l.Close()
		return config.Usagef("systemd: a socket has the name %q; set FileDescriptorName=public or admin in its unit", name)
	case s[name] != nil:
		_ = l.Close()
		return config.Usagef("systemd: two sockets have the name %q; use one ListenStream for each name", name)
	}
	s[name] = l
	if at := l.Addr().String(); settings.Sources[setting] != "default" && address != at {
		log.Warn("the socket of systemd replaces a setting; change ListenStream of its unit",
			"setting", setting, "value", address, "socket", at)
	}
	return nil
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

// manager reports the state of the server to systemd (sd_notify(3)), if systemd has started it.
type manager struct {
	watchdog <-chan time.Time // when alive is due; nil: never
	log      *slog.Logger
	failed   bool // the log has a line about it
}

// startManager reports that the server is ready. The caller ends the manager with stopping.
func startManager(log *slog.Logger) *manager {
	m := &manager{log: log}
	// A malformed variable is none: systemd writes it.
	if timeout, err := daemon.SdWatchdogEnabled(false); err == nil && timeout > 0 {
		m.watchdog = time.Tick(timeout / 2) // as sd_watchdog_enabled(3) recommends
	}
	m.notify(daemon.SdNotifyReady)
	return m
}

// alive tells the watchdog that the loop that reloads settings and ends the server still runs.
func (m *manager) alive() { m.notify(daemon.SdNotifyWatchdog) }

// stopping reports that the server ends.
func (m *manager) stopping() { m.notify(daemon.SdNotifyStopping) }

// notify logs the first error. The server continues: systemd ends it if it needs the notification.
func (m *manager) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil && !m.failed {
		m.failed = true
		m.log.Warn("could not report the state of the server to systemd", "error", err)
	}
}
