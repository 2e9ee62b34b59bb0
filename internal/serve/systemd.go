package serve

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"

	"plantstore/internal/config"
)

// openSockets returns the listeners of systemd (sd_listen_fds(3)) by name: public and admin. A socket that belongs to
// no listener is a usage error: its clients would wait for ever. Call it once: it closes the descriptors of systemd.
func openSockets(s *config.Settings, log *slog.Logger) (map[string]*net.TCPListener, error) {
	const socketsMax = 16
	number := os.Getenv("LISTEN_FDS")
	n, err := strconv.Atoi(number) // activation ignores what is no number, and allocates memory for any number
	if os.Getenv("LISTEN_PID") == strconv.Itoa(os.Getpid()) && (err != nil || n < 0 || n > socketsMax) {
		return nil, config.Usagef("systemd: LISTEN_FDS must be between 0 and %d; got %q", socketsMax, number)
	}
	sockets := map[string]*net.TCPListener{}
	for _, file := range activation.Files(true) {
		name := file.Name()
		l, err := net.FileListener(file) // on a copy of the descriptor
		_ = file.Close()
		tcp, isTCP := l.(*net.TCPListener)
		setting, address := "listen", s.Listen
		if name == "admin" {
			setting, address = "admin-listen", s.AdminListen
		}
		switch {
		case name != "public" && name != "admin":
			return nil, config.Usagef("systemd: a socket has the name %q; set FileDescriptorName=public or admin in its unit",
				name)
		case sockets[name] != nil:
			return nil, config.Usagef("systemd: two sockets have the name %q; use one ListenStream for each name", name)
		case err != nil:
			return nil, config.Usagef("systemd: the socket %q does not accept connections; use ListenStream=HOST:PORT: %w",
				name, err)
		case !isTCP:
			return nil, config.Usagef("systemd: the socket %q is not a TCP socket; use ListenStream=HOST:PORT", name)
		}
		sockets[name] = tcp
		if at := tcp.Addr().String(); s.Sources[setting] != config.Default && address != at {
			log.Warn("the socket of systemd replaces a setting; change ListenStream of its unit",
				"setting", setting, "value", address, "socket", at)
		}
	}
	return sockets, nil
}

// manager reports the state of the server to systemd (sd_notify(3)), if systemd has started it.
type manager struct {
	watchdog <-chan time.Time // when alive is due; nil: never
	log      *slog.Logger
	started  bool // the server was ready
	failed   bool // the log has a line about it
}

func newManager(log *slog.Logger) *manager {
	m := &manager{log: log}
	// A malformed variable counts as absent: only systemd writes it.
	if timeout, err := daemon.SdWatchdogEnabled(false); err == nil && timeout > 0 {
		m.watchdog = time.Tick(timeout / 2) // as sd_watchdog_enabled(3) recommends
	}
	return m
}

// opening reports until end that the server opens its parts, even if one of them hangs. A restore may take longer than
// TimeoutStartSec=, and after a change of the role longer than WatchdogSec=.
func (m *manager) opening() (end func()) {
	const every, extend = 10 * time.Second, "EXTEND_TIMEOUT_USEC=60000000"
	tick, state := time.Tick(every), extend
	if m.started {
		tick, state = m.watchdog, daemon.SdNotifyWatchdog
	}
	ended := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for {
			m.notify(state)
			select {
			case <-tick:
			case <-ended:
				return
			}
		}
	})
	return func() { close(ended); running.Wait() }
}

// ready reports that the server is ready.
func (m *manager) ready() {
	m.started = true
	m.notify(daemon.SdNotifyReady)
}

// alive tells the watchdog that the loop that reloads settings and ends the server still runs.
func (m *manager) alive() { m.notify(daemon.SdNotifyWatchdog) }

// stopping reports that the server ends.
func (m *manager) stopping() { m.notify(daemon.SdNotifyStopping) }

// notify logs the first error. The server continues: systemd ends it if it needs the notification.
func (m *manager) notify(state string) {
	if err := notifySystemd(state); err != nil && !m.failed {
		m.failed = true
		m.log.Warn("could not report the state of the server to systemd", "error", err)
	}
}

// notifySystemd is daemon.SdNotify with a time limit: a systemd that does not read would block the server for ever.
func notifySystemd(state string) (err error) {
	const writeTimeMax = time.Second
	at := &net.UnixAddr{Name: os.Getenv("NOTIFY_SOCKET"), Net: "unixgram"} // @: an abstract socket
	if at.Name == "" {
		return nil
	}
	c, err := net.DialUnix(at.Net, nil, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.SetWriteDeadline(time.Now().Add(writeTimeMax)); err != nil {
		return err
	}
	_, err = c.Write([]byte(state))
	return err
}
