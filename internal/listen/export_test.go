package listen

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"plantstore/internal/limit"
)

// ExpireAccept makes Accept fail.
func (l *Listener) ExpireAccept(t *testing.T) {
	t.Helper()
	if err := l.tcp.SetDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
}

// SetState sets the state of a connection.
func (c *Conn) SetState(s State) { c.setState(s) }

// SetAge sets the state of a connection as if it had started that long ago.
func (c *Conn) SetAge(s State, age time.Duration) {
	c.state.Store(int64(newStamp(s, clock()-age)))
}

// BeginClose does what Close does before it writes to the client.
func (c *Conn) BeginClose() { c.closing.Store(true) }

// StopSweeper ends the sweeper, so that only Sweep evicts connections.
func (l *Listener) StopSweeper() {
	l.stop()
	l.sweeper.Wait()
}

// Sweep evicts connections as the sweeper does.
func (l *Listener) Sweep() { l.evict(l.open.sweep()) }

// EvictAfter evicts the connections in a state, and calls change between the search and the eviction.
func (l *Listener) EvictAfter(s State, change func()) {
	l.open.mu.Lock()
	found := l.open.since(s, clock())
	change()
	evicted := l.open.take(found)
	l.open.mu.Unlock()
	l.evict(evicted)
}

// Room is a registry without sockets.
type Room struct{ registry registry }

// NewRoom returns a registry with limits and a number of connections of one client.
func NewRoom(limits Limits, connections int) (*Room, []*Conn) {
	r := &Room{registry{limits: limits, byNetwork: map[limit.Network]int{}}}
	var open []*Conn
	for range connections {
		c := &Conn{index: -1}
		_, _ = r.registry.add(c, netip.MustParseAddr("192.0.2.7")) // within the limit
		open = append(open, c)
	}
	return r, open
}

// Add adds a connection of a client and reports whether the registry accepts it.
func (r *Room) Add(client netip.Addr) bool {
	_, refused := r.registry.add(&Conn{index: -1}, client)
	return refused == nil
}

// Sweep removes connections as the sweeper does, and returns their number.
func (r *Room) Sweep() int { return len(r.registry.sweep()) }

// Clock returns the time since the start of the process.
var Clock = clock

// Retryable returns the error of Accept for an error of the system.
var Retryable = retryable

// Counts returns the numbers of open connections and of client addresses.
func (l *Listener) Counts() (connections, addresses int) {
	l.open.mu.Lock()
	defer l.open.mu.Unlock()
	return len(l.open.conns), len(l.open.byNetwork)
}

const IncompleteGrace = incompleteGrace

// NewBare returns a listener without a socket. The caller calls StopSweeper.
func NewBare(limits Limits) *Listener {
	l := &Listener{
		open: registry{limits: limits}, unauthenticated: newUnauthenticated(), log: slog.New(slog.DiscardHandler),
		metrics: newMetrics(nil, "test", func() int { return 0 }),
		retired: make(chan struct{}),
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.sweeper.Go(func() { l.sweep(ctx) })
	return l
}

// RetireBare retires a listener without a socket.
func (l *Listener) RetireBare() { close(l.retired) }

// Waiting returns the number of connections that wait for their units in a line.
func (l *Listener) Waiting() int {
	l.unauthenticated.mu.Lock()
	defer l.unauthenticated.mu.Unlock()
	return l.unauthenticated.waiting
}

// Known is a table of known networks.
type Known struct{ known }

// NewKnown returns an empty table.
func NewKnown() *Known { return &Known{newKnown()} }

// Admit makes a network known at a time.
func (k *Known) Admit(n limit.Network, credential int64, now time.Duration) {
	k.admit(n, credential, now)
}

// Has reports whether a network is known at a time.
func (k *Known) Has(n limit.Network, now time.Duration) bool { return k.has(n, now) }

// Connect returns a connection of a client to a bare listener, and the other end.
func (l *Listener) Connect(client netip.Addr) (*Conn, net.Conn) {
	end, server := net.Pipe()
	c := &Conn{tcp: server, listener: l, index: -1}
	c.reading.init(net.Conn.SetReadDeadline)
	c.writing.init(net.Conn.SetWriteDeadline)
	_, _ = l.open.add(c, client) // without limits
	return c, end
}

// FieldsMax is the number of header fields of a request.
const FieldsMax = fieldsMax

// Limits of clients without a valid credential.
const (
	NetworkUnits       = networkUnits
	UnitsOfAll         = unitsOfAll
	KnownUnits         = knownUnits
	WaitingMax         = waitingMax
	KnownFor           = knownFor
	KnownPerCredential = knownPerCredential
	NetworksMax        = networksMax
)

// Arriving returns the memory of incomplete requests beyond the free bytes of each.
func (l *Listener) Arriving() int64 { return l.open.arriving.Load() }

// ArrivingFree are the bytes of a request that IncompleteBytes does not count.
const ArrivingFree = arrivingFree
