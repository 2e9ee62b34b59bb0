package serve

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"plantstore/internal/config"
)

// TestBlockedManager tests that a systemd that reads no notifications does not block the loop that ends the server.
func TestBlockedManager(t *testing.T) { //nolint:paralleltest // it sets a variable
	at := &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"}
	reader, err := net.ListenUnixgram(at.Net, at)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	writer, err := net.DialUnix(at.Net, nil, at)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	for err == nil { // until the queue of the socket is full
		_ = writer.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, err = writer.Write([]byte("x"))
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", at.Name)
	var log bytes.Buffer
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		m := newManager(slog.New(slog.NewTextHandler(&log, nil)))
		m.ready()
		m.stopping()
	}()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatal("the notifications block")
	}
	if got := strings.Count(log.String(), "could not report the state of the server to systemd"); got != 1 {
		t.Errorf("got %d lines, want 1: %s", got, log.String())
	}
}

// TestMalformedSockets tests numbers of sockets that are none: the clients of the sockets would wait for ever.
func TestMalformedSockets(t *testing.T) { //nolint:paralleltest // it sets variables
	for _, number := range []string{"", "x", "-1", "17", "1000000000000"} {
		t.Setenv("LISTEN_PID", strconv.Itoa(os.Getpid()))
		t.Setenv("LISTEN_FDS", number)
		want := fmt.Sprintf("systemd: LISTEN_FDS must be between 0 and 16; got %q", number)
		sockets, err := openSockets(&config.Settings{}, slog.New(slog.DiscardHandler))
		if _, usage := errors.AsType[*config.UsageError](err); !usage || err.Error() != want {
			t.Errorf("%q: got %v, %v; want %s", number, sockets, err, want)
		}
	}
}
