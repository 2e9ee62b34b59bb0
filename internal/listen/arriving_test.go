package listen_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"plantstore/internal/listen"
)

// arrive sends a part of a request and reads it on the server.
func arrive(t *testing.T, client net.Conn, server *listen.Conn, part string) {
	t.Helper()
	if _, err := io.WriteString(client, part); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(server, make([]byte, len(part))); err != nil {
		t.Fatal(err)
	}
}

// Above the limit of memory, the largest incomplete requests go. Short ones, those of valid credentials, bodies, and
// connections between two requests stay.
func TestIncompleteBytes(t *testing.T) {
	t.Parallel()
	const most = 10_000
	s := serve(t, listen.Config{Limits: listen.Limits{IncompleteBytes: most}})
	s.StopSweeper()
	open := func(part string) (net.Conn, *listen.Conn) {
		client, server := s.connect(t, "127.0.0.1")
		arrive(t, client, server, part)
		return client, server
	}
	text := func(beyond int) string { return strings.Repeat("a", listen.ArrivingFree+beyond) }
	short, _ := open(text(0))
	long, _ := open(text(4000))
	admitted, server := open(text(5000))
	server.Admit(netip.Addr{}, 1)
	arrive(t, admitted, server, text(100_000))
	served, server := open(text(5000))
	server.SetWaiting(listen.Idle)
	whole, server := s.connect(t, "127.0.0.1") // in one read
	arrive(t, whole, server, "GET / HTTP/1.1\r\n"+strings.Repeat("a:\r\n", 90)+"\r\n")
	refused, server := open("POST / HTTP/1.1\r\na:\r\n")
	arrive(t, refused, server, "\r\n")
	arrive(t, refused, server, text(9000)) // its body
	next, server := open(text(5000))       // the head of its next request is incomplete
	server.SetWaiting(listen.Idle)
	arrive(t, next, server, text(2000))
	s.Sweep()
	largest, _ := open(text(4001))
	s.Sweep()
	if got := s.Arriving(); got > most {
		t.Errorf("%d bytes, want at most %d", got, most)
	}
	fields, _ := open(strings.Repeat("a:\n", 45)) // more memory than bytes
	s.Sweep()
	wantClosed(t, largest, fields)
	wantOpen(t, short, long, admitted, served, whole, refused, next)
	s.count(t, "evicted", map[string]int{"bytes": 2, "idle": 0, "incomplete": 0, "share": 0})
	if got := s.Arriving(); got != 4000+2000 {
		t.Errorf("%d bytes are left, want 6000", got)
	}
}

// net/http may have read the start of the next request with the end of a refused one.
func TestIncompleteBytesOfNextRequest(t *testing.T) {
	t.Parallel()
	s := serve(t, listen.Config{Limits: listen.Limits{IncompleteBytes: 5000}})
	s.StopSweeper()
	const request = "GET / HTTP/1.1\r\n\r\n"
	fields := request + strings.Repeat("a:\r\n", 100)
	client, server := s.connect(t, "127.0.0.1")
	arrive(t, client, server, fields)
	server.SetWaiting(listen.Idle)
	known, server := s.connect(t, "127.0.0.1")
	arrive(t, known, server, fields)
	server.Admit(netip.Addr{}, 1)
	server.SetWaiting(listen.Idle)
	plant, server := s.connect(t, "127.0.0.1")
	arrive(t, plant, server, request+strings.Repeat("\n", 50))
	server.Admit(netip.Addr{}, 1)
	server.SetWaiting(listen.Idle)
	s.Sweep()
	wantClosed(t, client, known)
	wantOpen(t, plant)
	if got := s.Arriving(); got != 0 {
		t.Errorf("%d bytes are left", got)
	}
}

// At twice the limit, a connection closes by itself, without the sweeper.
func TestIncompleteBytesWithoutSweeper(t *testing.T) {
	t.Parallel()
	s := serve(t, listen.Config{Limits: listen.Limits{IncompleteBytes: 5000}})
	s.StopSweeper()
	other, server := s.connect(t, "127.0.0.2")
	arrive(t, other, server, strings.Repeat("a", listen.ArrivingFree+9000))
	short, server := s.connect(t, "127.0.0.1")
	arrive(t, short, server, strings.Repeat("a", listen.ArrivingFree))
	client, server := s.connect(t, "127.0.0.1")
	if _, err := io.WriteString(client, strings.Repeat("a", listen.ArrivingFree+1001)); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, server); err != nil && !errors.Is(err, io.EOF) || n > listen.ArrivingFree+1000 {
		t.Errorf("got %d bytes, %v", n, err)
	}
	wantClosed(t, client)
	wantOpen(t, other, short)
	s.count(t, "evicted", map[string]int{"bytes": 1, "idle": 0, "incomplete": 0, "share": 0})
}
