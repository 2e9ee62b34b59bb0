// Package systemd implements two protocols between systemd and a service: sockets that systemd has opened
// (sd_listen_fds(3)), and notifications about the state of the service (sd_notify(3)).
package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

const (
	firstDescriptor = 3 // SD_LISTEN_FDS_START
	descriptorsMax  = 16
)

// Listeners returns the TCP listeners that systemd has passed to the process pid, by name (FileDescriptorName= of the
// socket unit). The map is empty if the variables name no socket or another process. The caller closes the listeners.
// Call it once: it closes the descriptors of systemd.
func Listeners(environ map[string]string, pid int) (_ map[string]*net.TCPListener, err error) {
	if environ["LISTEN_PID"] != strconv.Itoa(pid) {
		return nil, nil //nolint:nilnil // a nil map has no listeners
	}
	n, err := strconv.Atoi(environ["LISTEN_FDS"])
	if err != nil || n < 0 || n > descriptorsMax {
		return nil, fmt.Errorf("systemd: LISTEN_FDS must be between 0 and %d; got %q", descriptorsMax, environ["LISTEN_FDS"])
	}
	names := strings.Split(environ["LISTEN_FDNAMES"], ":")
	listeners := map[string]*net.TCPListener{}
	defer func() {
		if err != nil {
			for _, l := range listeners {
				_ = l.Close()
			}
		}
	}()
	var problems []error
	for i := range n {
		name := "" // old versions of systemd pass no names
		if i < len(names) {
			name = names[i]
		}
		l, err := listener(firstDescriptor+i, name)
		switch {
		case err != nil:
			problems = append(problems, err)
		case listeners[name] != nil:
			problems = append(problems, fmt.Errorf("systemd: two sockets have the name %q; use one ListenStream for each name",
				name), l.Close())
		default:
			listeners[name] = l
		}
	}
	return listeners, errors.Join(problems...)
}

// listener returns a listener on a copy of a descriptor, which it closes.
func listener(descriptor int, name string) (*net.TCPListener, error) {
	file := os.NewFile(uintptr(descriptor), name)
	defer file.Close()
	l, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("systemd: the socket %q does not accept connections; use ListenStream: %w", name, err)
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("systemd: the socket %q is not a TCP socket; use ListenStream=HOST:PORT", name),
			l.Close())
	}
	return tcp, nil
}

// Notifier sends the state of a service to systemd. The zero value sends nothing.
type Notifier struct {
	address string // of a datagram socket; empty: none
	timeout time.Duration
}

// NewNotifier returns the notifier that the variables of the process pid describe.
func NewNotifier(environ map[string]string, pid int) Notifier {
	n := Notifier{address: environ["NOTIFY_SOCKET"]}
	us, err := strconv.ParseInt(environ["WATCHDOG_USEC"], 10, 64)
	of := environ["WATCHDOG_PID"]
	if n.address == "" || err != nil || us <= 0 || us > int64(24*time.Hour/time.Microsecond) ||
		of != "" && of != strconv.Itoa(pid) {
		return n
	}
	n.timeout = time.Duration(us) * time.Microsecond
	return n
}

// AliveEvery returns the interval between calls of Alive; 0: none. It is half of WatchdogSec=, as
// sd_watchdog_enabled(3) recommends.
func (n Notifier) AliveEvery() time.Duration { return n.timeout / 2 }

// Ready reports that the service has started.
func (n Notifier) Ready() error { return n.send("READY=1") }

// Alive resets the watchdog.
func (n Notifier) Alive() error { return n.send("WATCHDOG=1") }

// Stopping reports that the service has begun to end.
func (n Notifier) Stopping() error { return n.send("STOPPING=1") }

func (n Notifier) send(state string) error {
	if n.address == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.address, Net: "unixgram"}) // @: an abstract socket
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	const writeTimeMax = time.Second // a full socket buffer would block
	_ = c.SetWriteDeadline(time.Now().Add(writeTimeMax))
	_, err = c.Write([]byte(state))
	if err = errors.Join(err, c.Close()); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	return nil
}
