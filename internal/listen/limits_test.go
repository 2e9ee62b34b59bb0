package listen_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/listen"
)

const (
	grace    = listen.IncompleteGrace
	idleTime = 100 * time.Minute
)

// The listener evicts the oldest connections without a whole request above the limit.
func TestIncompleteLimit(t *testing.T) {
	t.Parallel()
	s := serve(t, listen.Config{Limits: listen.Limits{Incomplete: 2}})
	s.StopSweeper() // two batches of evictions can have two log lines
	var clients []net.Conn
	for i := range 6 {
		client, server := s.connect(t, "127.0.0.1")
		clients = append(clients, client)
		server.SetAge(listen.Incomplete, 2*grace-time.Duration(i)*time.Millisecond)
	}
	served, serving := s.connect(t, "127.0.0.1")
	serving.SetAge(listen.Serving, time.Hour)
	idle, idling := s.connect(t, "127.0.0.1")
	idling.SetAge(listen.Idle, time.Hour)
	s.Sweep()
	wantClosed(t, clients[:4]...)
	wantOpen(t, append(clients[4:], served, idle)...)
	s.count(t, "evicted", map[string]int{"incomplete": 4, "idle": 0, "share": 0, "bytes": 0})
	const line = `"msg":"connections evicted","listener":"public","reason":"incomplete"`
	if got := strings.Count(s.log.String(), line); got != 1 {
		t.Errorf("log: got %s, want one line", s.log)
	}
}

// One client with many connections does not evict the older ones of others.
func TestIncompleteLimitIsFair(t *testing.T) {
	t.Parallel()
	s := serve(t, listen.Config{Limits: listen.Limits{Incomplete: 5}})
	s.StopSweeper()
	open := func(from string, age time.Duration) net.Conn {
		client, server := s.connect(t, from)
		server.SetAge(listen.Incomplete, age)
		return client
	}
	slow := []net.Conn{open("127.0.0.1", 4*grace), open("127.0.0.1", 4*grace), open("127.0.0.3", 4*grace)}
	var greedy []net.Conn
	for i := range 20 {
		greedy = append(greedy, open("127.0.0.2", 3*grace-time.Duration(i)*time.Millisecond))
	}
	s.Sweep()
	wantClosed(t, greedy[:18]...)
	wantOpen(t, append(slow, greedy[18:]...)...)
}

// Connections of a burst have time for their requests.
func TestIncompleteGrace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(-listen.Clock()) //nolint:forbidigo // the bubble begins in the year 2000, before the process
		room, open := listen.NewRoom(listen.Limits{Incomplete: 1}, 10)
		for _, c := range open {
			c.SetState(listen.Incomplete)
		}
		time.Sleep(grace - time.Nanosecond) //nolint:forbidigo // the bubble's clock, not a wait
		if n := room.Sweep(); n != 0 {
			t.Errorf("evicted %d connections within the grace", n)
		}
		time.Sleep(time.Nanosecond) //nolint:forbidigo // the bubble's clock, not a wait
		if n := room.Sweep(); n != 9 {
			t.Errorf("evicted %d connections after the grace, want 9", n)
		}
	})
}

// Connections that wait for units have at most half of the places, so that they do not end idle ones of others.
func TestWaitingLimit(t *testing.T) {
	t.Parallel()
	s := serve(t, listen.Config{Limits: listen.Limits{Connections: 8, IdleTimeout: idleTime}})
	s.StopSweeper()
	idle, resting := s.connect(t, "127.0.0.1")
	resting.SetAge(listen.Idle, idleTime/2)
	var waiting []net.Conn
	for i := range 6 {
		client, server := s.connect(t, "127.0.0.1")
		waiting = append(waiting, client)
		server.SetAge(listen.Waiting, time.Hour-time.Duration(i)*time.Millisecond)
	}
	s.Sweep()
	wantClosed(t, waiting[:3]...)
	wantOpen(t, append(waiting[3:], idle)...)
	s.count(t, "evicted", map[string]int{"incomplete": 3, "idle": 0, "share": 0, "bytes": 0})
}

// The sweeper runs by itself while there are many connections.
func TestSweeper(t *testing.T) {
	t.Parallel()
	s := serve(t, listen.Config{Limits: listen.Limits{Incomplete: 1}})
	first, _ := s.connect(t, "127.0.0.1")
	second, _ := s.connect(t, "127.0.0.1")
	wantClosed(t, first) // after the grace
	wantOpen(t, second)
}

// A new connection replaces the one that waits for longest.
func TestConnectionsAtTheLimit(t *testing.T) {
	t.Parallel()
	s := serve(t, listen.Config{Limits: listen.Limits{Connections: 3, IdleTimeout: idleTime}})
	s.StopSweeper() // at the limit, it evicts an idle connection, too
	for _, row := range []struct {
		name  string
		state listen.State
		ages  [3]time.Duration
		evict int
	}{
		{"idle", listen.Idle, [3]time.Duration{2 * time.Hour, 3 * time.Hour, time.Hour}, 1},
		{"incomplete", listen.Incomplete, [3]time.Duration{time.Hour, 2 * time.Hour, 3 * time.Hour}, 2},
		{"new and incomplete", listen.Incomplete, [3]time.Duration{grace / 2, grace / 4, 0}, 0},
		{"waiting", listen.Waiting, [3]time.Duration{time.Second, 0, 2 * time.Second}, 2},
	} {
		var clients []net.Conn
		var servers []*listen.Conn
		for range 3 {
			client, server := s.connect(t, "127.0.0.1")
			server.SetState(listen.Serving)
			clients, servers = append(clients, client), append(servers, server)
		}
		for i, age := range row.ages {
			servers[i].SetAge(row.state, age)
		}
		added, server := s.connect(t, "127.0.0.1")
		wantClosed(t, clients[row.evict])
		clients[row.evict] = added
		wantOpen(t, clients...)
		if n, _ := s.Counts(); n != 3 {
			t.Errorf("%s: got %d connections, want 3", row.name, n)
		}
		for _, c := range append(servers, server) {
			_ = c.Close()
		}
	}
}

// The listener refuses a connection if every other one has a request, or is newer.
func TestConnectionsAtTheLimitRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, listen.Config{Limits: listen.Limits{Connections: 2}})
	first, server := s.connect(t, "127.0.0.1")
	server.SetAge(listen.Serving, time.Hour)
	second, waiting := s.connect(t, "127.0.0.1")
	waiting.SetAge(listen.Incomplete, -time.Minute)
	refused := s.dial(t, "127.0.0.1")
	go func() { _, _ = s.Accept() }() // ends with the listener
	wantClosed(t, refused)
	wantOpen(t, first, second)
	s.count(t, "refused", map[string]int{
		"address": 0, "connections": 1, "credential": 0, "descriptors": 0,
	})
	const line = `"msg":"connections refused","listener":"public","reason":"connections","connections":1,` +
		`"error":"2 connections are open, and none is idle"`
	if !strings.Contains(s.log.String(), line) {
		t.Errorf("log: got %s, want %s", s.log, line)
	}
}

// Requests of Hold are evicted for new connections above half of the limit, the oldest of the credential with the most
// first.
func TestHeldConnections(t *testing.T) {
	t.Parallel()
	s := serve(t, listen.Config{Limits: listen.Limits{Connections: 6}})
	s.StopSweeper()
	hold := func(credential int64) (net.Conn, *listen.Conn) {
		client, server := s.connect(t, "127.0.0.1")
		server.BeginServing()
		server.Hold(credential)
		return client, server
	}
	few, _ := hold(1)
	oldest, _ := hold(2)
	older, _ := hold(2)
	newest, _ := hold(2)
	operator, serving := s.connect(t, "127.0.0.1")
	serving.BeginServing()
	once, ended := hold(1)
	ended.EndServing()
	ended.EndServing()
	ended.SetAge(listen.Idle, time.Hour)
	for _, replaced := range []net.Conn{once, oldest} {
		_, server := s.connect(t, "127.0.0.1")
		server.BeginServing()
		wantClosed(t, replaced)
	}
	s.count(t, "evicted", map[string]int{"idle": 1, "incomplete": 0, "share": 1, "bytes": 0})
	refused := s.dial(t, "127.0.0.1")
	go func() { _, _ = s.Accept() }() // ends with the listener
	wantClosed(t, refused)
	wantOpen(t, few, older, newest, operator)
}

// Incomplete responses to a credential do not end new connections from the same address.
func TestIncompleteLimitOfCredential(t *testing.T) {
	t.Parallel()
	s := serve(t, listen.Config{Limits: listen.Limits{Incomplete: 4}})
	s.StopSweeper()
	open := func(age time.Duration) (net.Conn, *listen.Conn) {
		client, server := s.connect(t, "127.0.0.1")
		server.SetAge(listen.Incomplete, age)
		return client, server
	}
	waiting, _ := open(3 * grace) // the oldest
	var slow []net.Conn
	for range 6 {
		client, server := open(2 * grace)
		server.Hold(1)
		server.EndServing()
		server.SetAge(listen.Incomplete, 2*grace)
		slow = append(slow, client)
	}
	s.Sweep()
	wantClosed(t, slow[:3]...)
	wantOpen(t, append(slow[3:], waiting)...)
}

// A connection whose request arrives between the search and the eviction stays open.
func TestRequestBeforeEviction(t *testing.T) {
	t.Parallel()
	s := serve(t, listen.Config{})
	for _, state := range []listen.State{listen.Idle, listen.Incomplete} {
		busy, serving := s.connect(t, "127.0.0.1")
		serving.SetAge(state, time.Hour)
		again, next := s.connect(t, "127.0.0.1")
		next.SetAge(state, time.Hour)
		rest, resting := s.connect(t, "127.0.0.1")
		resting.SetAge(state, time.Hour)
		s.EvictAfter(state, func() {
			serving.SetState(listen.Serving)
			next.SetState(state) // once more
		})
		wantOpen(t, busy, again)
		wantClosed(t, rest)
		next.SetState(listen.Serving)
	}
	s.count(t, "evicted", map[string]int{"incomplete": 1, "idle": 1, "share": 0, "bytes": 0})
}

// After a search without a result, the listener does not read all connections again for each further one.
func TestSearchesAtTheLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(-listen.Clock()) //nolint:forbidigo // the bubble begins in the year 2000, before the process
		room, open := listen.NewRoom(listen.Limits{Connections: 2}, 2)
		for _, c := range open {
			c.SetState(listen.Serving)
		}
		if room.Add(netip.MustParseAddr("192.0.2.7")) {
			t.Error("added a connection beside two with requests")
		}
		open[0].SetState(listen.Idle)
		if room.Add(netip.MustParseAddr("192.0.2.7")) {
			t.Error("the next connection searched again")
		}
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // the bubble's clock, not a wait
		if !room.Add(netip.MustParseAddr("192.0.2.7")) {
			t.Error("no connection replaced the idle one")
		}
	})
}

// The longest idle timeout shrinks too.
func TestLongIdleTimeShrinks(t *testing.T) {
	t.Parallel()
	s := serve(t, listen.Config{Limits: listen.Limits{Connections: 10, IdleTimeout: 36500 * 24 * time.Hour}})
	var clients []net.Conn
	for range 8 { // 40% of the time
		client, server := s.connect(t, "127.0.0.1")
		server.SetAge(listen.Idle, time.Hour)
		clients = append(clients, client)
	}
	s.Sweep()
	wantOpen(t, clients...)
}

// Above half of the limit, idle connections have less time.
func TestIdleTimeShrinks(t *testing.T) {
	t.Parallel()
	s := serve(t, listen.Config{Limits: listen.Limits{Connections: 10, IdleTimeout: idleTime}})
	s.StopSweeper() // it counts an evicted connection after the close
	var clients []net.Conn
	add := func(state listen.State, age time.Duration) {
		client, server := s.connect(t, "127.0.0.1")
		server.SetAge(state, age)
		clients = append(clients, client)
	}
	add(listen.Idle, 90*time.Minute)
	add(listen.Idle, 70*time.Minute)
	add(listen.Idle, 50*time.Minute)
	add(listen.Serving, 90*time.Minute)
	add(listen.Serving, 90*time.Minute)
	s.Sweep() // 5 connections: 100 min
	wantOpen(t, clients...)
	add(listen.Serving, 0)
	s.Sweep() // 6 connections: 80 min
	wantClosed(t, clients[0])
	wantOpen(t, clients[1:]...)
	add(listen.Serving, 0)
	s.Sweep() // 6 connections: 80 min
	wantOpen(t, clients[1:]...)
	add(listen.Serving, 0)
	s.Sweep() // 7 connections: 60 min
	wantClosed(t, clients[1])
	wantOpen(t, clients[2:]...)
	s.count(t, "evicted", map[string]int{"incomplete": 0, "idle": 2, "share": 0, "bytes": 0})
}

// A client has a limit of connections, except at some addresses.
func TestConnectionsPerAddress(t *testing.T) {
	t.Parallel()
	s := serve(t, listen.Config{Limits: listen.Limits{
		PerAddress: 2, Unlimited: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
	}})
	for range 5 {
		s.connect(t, "127.0.0.1")
	}
	first, server := s.connect(t, "127.0.0.2")
	second, _ := s.connect(t, "127.0.0.2")
	third := s.dial(t, "127.0.0.2")
	other, _ := s.connect(t, "127.0.0.3") // Accept refuses third before
	wantClosed(t, third)
	wantOpen(t, first, second, other)
	s.count(t, "refused", map[string]int{
		"address": 1, "connections": 0, "credential": 0, "descriptors": 0,
	})
	const line = `"reason":"address","connections":1,"error":"127.0.0.2 has 2 open connections"`
	if !strings.Contains(s.log.String(), line) {
		t.Errorf("log: got %s, want %s", s.log, line)
	}
	_ = server.Close()
	_ = server.Close() // counts once
	fourth, _ := s.connect(t, "127.0.0.2")
	fifth := s.dial(t, "127.0.0.2")
	s.connect(t, "127.0.0.3")
	wantClosed(t, fifth)
	wantOpen(t, fourth)
}

// An IPv6 client is its network.
func TestConnectionsPerNetwork(t *testing.T) {
	t.Parallel()
	room, _ := listen.NewRoom(listen.Limits{PerAddress: 1}, 0)
	for _, row := range []struct {
		client   string
		accepted bool
	}{
		{"192.0.2.7", true},
		{"192.0.2.7", false},
		{"192.0.2.8", true},
		{"2001:db8::7", true},
		{"2001:db8::ffff:ffff:ffff:ffff", false},
		{"2001:db8:0:1::7", true},
	} {
		if got := room.Add(netip.MustParseAddr(row.client)); got != row.accepted {
			t.Errorf("%s: accepted %t, want %t", row.client, got, row.accepted)
		}
	}
}

// Connections that open, change their state and close at the same time leave nothing behind.
func TestManyConnections(t *testing.T) {
	t.Parallel()
	s := serve(t, listen.Config{Limits: listen.Limits{
		Connections: 20, PerAddress: 15, Incomplete: 10, IdleTimeout: time.Millisecond, IncompleteBytes: 20_000,
	}})
	var accepted sync.WaitGroup
	accepted.Go(func() {
		for {
			c, err := s.Accept()
			if err != nil {
				return
			}
			accepted.Go(func() {
				server := c.(*listen.Conn)
				for _, state := range []listen.State{listen.Incomplete, listen.Serving, listen.Idle} {
					server.SetAge(state, 2*grace)
				}
				_, _ = io.Copy(io.Discard, server)
				_ = server.Close()
			})
		}
	})
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			from, long := []string{"127.0.0.1", "127.0.0.2"}[i%2], strings.Repeat("a", 2*listen.ArrivingFree)
			for range 200 {
				c := s.dial(t, from)
				_, _ = io.WriteString(c, long) // fails if the listener has evicted the connection
				if i < 4 {
					_ = c.Close()
				}
			}
		})
	}
	clients.Wait()
	if n, _ := s.Counts(); n > 20 {
		t.Errorf("%d connections, want at most 20", n)
	}
	s.closeDialed()
	_ = s.Close()
	accepted.Wait()
	if connections, addresses := s.Counts(); connections != 0 || addresses != 0 {
		t.Errorf("%d connections of %d addresses are left", connections, addresses)
	}
	if n := s.Arriving(); n != 0 {
		t.Errorf("%d bytes of incomplete requests are left", n)
	}
}

func wantClosed(t *testing.T, clients ...net.Conn) {
	t.Helper()
	for _, c := range clients {
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the connection from %s is open", c.LocalAddr())
		}
	}
}

// wantOpen expects connections that the listener has not closed. A close on loopback is visible at once.
func wantOpen(t *testing.T, clients ...net.Conn) {
	t.Helper()
	for _, c := range clients {
		_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the connection from %s is closed: %v", c.LocalAddr(), err)
		}
	}
}

// At the limit, a sweep leaves the idle connections that have time again without the oldest.
func TestIdleTimeAtTheLimit(t *testing.T) {
	t.Parallel()
	s := serve(t, listen.Config{Limits: listen.Limits{Connections: 4, IdleTimeout: idleTime}})
	var clients []net.Conn
	for i := range 4 {
		client, server := s.connect(t, "127.0.0.1")
		server.SetAge(listen.Idle, time.Duration(9-i)*time.Minute)
		clients = append(clients, client)
	}
	s.Sweep()
	wantClosed(t, clients[0])
	wantOpen(t, clients[1:]...)
}

// BenchmarkSetState measures a change of state. A request has three.
func BenchmarkSetState(b *testing.B) {
	b.ReportAllocs()
	c := &listen.Conn{}
	for b.Loop() {
		c.SetState(listen.Serving)
	}
}
