package systemd_test

import (
	"net"
	"path/filepath"
	"testing"
	"time"

	"plantstore/internal/systemd"
)

const pid = 4711

// TestListenersOfOthers tests variables that pass no socket. The test of the server in cmd/plantstore passes sockets.
func TestListenersOfOthers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		environ map[string]string
		want    string // the error; empty: none
	}{
		"none":            {nil, ""},
		"another process": {map[string]string{"LISTEN_PID": "4712", "LISTEN_FDS": "1"}, ""},
		"no number":       {map[string]string{"LISTEN_PID": "4711"}, `systemd: LISTEN_FDS must be between 0 and 16; got ""`},
		"negative": {
			map[string]string{"LISTEN_PID": "4711", "LISTEN_FDS": "-1"},
			`systemd: LISTEN_FDS must be between 0 and 16; got "-1"`,
		},
		"many": {
			map[string]string{"LISTEN_PID": "4711", "LISTEN_FDS": "17"},
			`systemd: LISTEN_FDS must be between 0 and 16; got "17"`,
		},
		"zero": {map[string]string{"LISTEN_PID": "4711", "LISTEN_FDS": "0"}, ""},
	} {
		listeners, err := systemd.Listeners(tt.environ, pid)
		got := ""
		if err != nil {
			got = err.Error()
		}
		if len(listeners) != 0 || got != tt.want {
			t.Errorf("%s: got %v, %q; want the error %q", name, listeners, got, tt.want)
		}
	}
}

// TestNotifier receives the notifications.
func TestNotifier(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := systemd.NewNotifier(map[string]string{"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "3000000"}, pid)
	for _, tt := range []struct {
		send func() error
		want string
	}{{n.Ready, "READY=1"}, {n.Alive, "WATCHDOG=1"}, {n.Stopping, "STOPPING=1"}} {
		if err := tt.send(); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 100)
		size, err := l.Read(got)
		if err != nil || string(got[:size]) != tt.want {
			t.Errorf("got %q, %v; want %q", got[:size], err, tt.want)
		}
	}
	if got := n.AliveEvery(); got != 1500*time.Millisecond {
		t.Errorf("AliveEvery: got %s, want 1.5s", got)
	}
	if err := systemd.NewNotifier(map[string]string{"NOTIFY_SOCKET": path + "x"}, pid).Ready(); err == nil {
		t.Error("no error without a socket")
	}
}

// TestNotifierWithout tests variables without a notifier or a watchdog.
func TestNotifierWithout(t *testing.T) {
	t.Parallel()
	for name, environ := range map[string]map[string]string{
		"none":            nil,
		"no socket":       {"WATCHDOG_USEC": "3000000"},
		"no watchdog":     {"NOTIFY_SOCKET": "/nowhere"},
		"another process": {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "4712"},
		"no number":       {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "3s"},
		"negative":        {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "-1"},
		"too long":        {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "9223372036854775807"},
	} {
		n := systemd.NewNotifier(environ, pid)
		if got := n.AliveEvery(); got != 0 {
			t.Errorf("%s: AliveEvery: got %s, want 0", name, got)
		}
		if err := n.Ready(); (err == nil) != (environ["NOTIFY_SOCKET"] == "") {
			t.Errorf("%s: Ready: %v", name, err)
		}
	}
}
