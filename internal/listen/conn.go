package listen

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"plantstore/internal/limit"
)

// State is the state of a connection.
type State uint8

// The states of a connection. A new connection is incomplete.
const (
	Incomplete State = iota // the server waits until the client sends a whole request, or reads a response
	Serving                 // the server works on a request; the connection is never evicted
	Idle                    // between two requests
	evicted                 // the listener closes it
)

// Conn is a TCP connection of a client.
type Conn struct {
	net.Conn               // a *net.TCPConn, without its other methods: they would bypass Read
	listener *Listener     // counts this connection until it is closed
	header   *announcement // nil: the peer is the client
	state    atomic.Int64  // a stamp
	reading  deadline
	writing  deadline

	// Guarded by the registry.
	index       int   // in registry.conns; -1: not there
	claimed     bool  // counted in registry.byNetwork
	evictedFrom State // the state in which the connection was evicted

	// Set by registry.claim, before the first Read.
	network limit.Network // of the client
	many    bool          // it is a proxy, with many clients

	// Of the goroutine that reads the connection.
	entered    bool          // hold has returned
	excused    bool          // by Excuse
	admitAgain time.Duration // of clock: Admit does nothing before
}

func (l *Listener) newConn(tcp *net.TCPConn) *Conn {
	c := &Conn{Conn: tcp, listener: l, index: -1}
	c.SetState(Incomplete)
	c.reading.init(net.Conn.SetReadDeadline)
	c.writing.init(net.Conn.SetWriteDeadline)
	if l.proxies.trust(tcp.RemoteAddr()) {
		c.header = &announcement{}
	}
	return c
}

// SetState sets the state of the connection. The server calls it with each change,
// several times a request, so it takes no lock and reads the clock only for states
// that an eviction ends.
func (c *Conn) SetState(s State) {
	at := time.Duration(0)
	if s != Serving {
		at = clock()
	}
	c.state.Store(int64(newStamp(s, at)))
}

// stamp is a state and the time since when it lasts. Of two stamps with the same
// state, the older one is smaller.
type stamp int64

const stateBits = 2

func newStamp(s State, at time.Duration) stamp { return stamp(at)<<stateBits | stamp(s) }

func (s stamp) state() State { return State(s & (1<<stateBits - 1)) }

func (s stamp) time() time.Duration { return time.Duration(s >> stateBits) }

var started = time.Now()

// clock returns the time since the start of the process. A stamp holds 73 years of
// it.
func clock() time.Duration { return time.Since(started) }

// RemoteAddr returns the address of the client. On a connection from a trusted proxy
// it waits for the PROXY header, so the goroutine that accepts connections must not
// call it.
func (c *Conn) RemoteAddr() net.Addr {
	if c.header != nil && c.await() == nil && c.header.client != nil {
		return c.header.client
	}
	return c.Conn.RemoteAddr()
}

// Read reads data of the client.
func (c *Conn) Read(p []byte) (int, error) {
	if c.header != nil {
		if err := c.await(); err != nil {
			return 0, err
		}
	}
	if !c.entered && !c.many {
		if err := c.hold(); err != nil {
			return 0, err
		}
	}
	for {
		n, err := c.read(p)
		if n > 0 || err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || !c.reading.extend(c.Conn) {
			return n, err
		}
	}
}

func (c *Conn) read(p []byte) (int, error) {
	if c.header == nil {
		return c.Conn.Read(p)
	}
	return c.header.next(c.Conn, p)
}

// Write writes data to the client.
func (c *Conn) Write(p []byte) (n int, err error) {
	for {
		written, err := c.Conn.Write(p[n:])
		n += written
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || !c.writing.extend(c.Conn) {
			return n, err
		}
	}
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.reading.set(c.Conn, t) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.writing.set(c.Conn, t) }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// await reads the PROXY header, once. It closes a connection without a valid one, and
// one whose client has too many connections.
func (c *Conn) await() error {
	c.header.once.Do(func() {
		err := c.header.read(c.Conn, c.listener.proxies.timeout)
		if err == nil {
			client := c.header.client
			if client == nil {
				client = c.Conn.RemoteAddr()
			}
			err = c.listener.open.claim(c, addressOf(client))
		}
		if err == nil {
			err = c.reading.restore(c.Conn) // the header had one of its own
		}
		if err == nil {
			return
		}
		if refused, ok := errors.AsType[*refusal](err); ok {
			c.listener.refuse(refused)
		}
		c.header.err = io.EOF // so that the server sends no response
		_ = c.Close()
	})
	return c.header.err
}

// CloseWrite ends the output.
func (c *Conn) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

// Close closes the connection. net/http may call it more than once.
func (c *Conn) Close() error {
	if c.listener.open.remove(c) {
		c.listener.metrics.open.Dec()
	}
	return c.Conn.Close()
}
