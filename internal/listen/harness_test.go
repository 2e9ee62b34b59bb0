package listen_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"plantstore/internal/listen"
)

// served is a listener with its clients.
type served struct {
	*listen.Listener
	log      *lockedBuffer
	registry *prometheus.Registry

	accepting sync.Mutex // held from a dial to its Accept

	mu     sync.Mutex // guards the rest
	dialed []net.Conn
}

func serve(t *testing.T, c listen.Config) *served {
	t.Helper()
	s := &served{log: &lockedBuffer{}, registry: prometheus.NewRegistry()}
	c.Name, c.Address, c.Metrics = "public", "127.0.0.1:0", s.registry
	c.Log = slog.New(slog.NewJSONHandler(s.log, nil))
	l, err := listen.Listen(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	s.Listener = l
	t.Cleanup(func() { _ = l.Close(); s.closeDialed() })
	return s
}

// dial opens a connection from an address.
func (s *served) dial(t *testing.T, from string) net.Conn {
	t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := dialer.DialContext(t.Context(), "tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dialed = append(s.dialed, c)
	return c
}

func (s *served) closeDialed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.dialed {
		_ = c.Close()
	}
}

// connect opens a connection from an address and accepts it.
func (s *served) connect(t *testing.T, from string) (client net.Conn, server *listen.Conn) {
	t.Helper()
	s.accepting.Lock()
	defer s.accepting.Unlock()
	client = s.dial(t, from)
	accepted, err := s.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = accepted.Close() })
	return client, accepted.(*listen.Conn)
}

// count compares the numbers of refused or evicted connections by reason.
func (s *served) count(t *testing.T, what string, want map[string]int) {
	t.Helper()
	metric := "plantstore_connections_" + what + "_total"
	help := map[string]string{
		"refused": "Connections that the listener refused.",
		"evicted": "Connections that the listener closed because of their number.",
	}
	text := fmt.Sprintf("# HELP %s %s\n# TYPE %s counter\n", metric, help[what], metric)
	for _, reason := range slices.Sorted(maps.Keys(want)) {
		text += fmt.Sprintf("%s{listener=\"public\",reason=%q} %d\n", metric, reason, want[reason])
	}
	if err := testutil.GatherAndCompare(s.registry, strings.NewReader(text), metric); err != nil {
		t.Error(err)
	}
}

// lockedBuffer is the output of a log.
type lockedBuffer struct {
	mu  sync.Mutex // guards the text
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
