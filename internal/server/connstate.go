package server

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"

	"plantstore/internal/listen"
)

// trackState tells the listener of a connection about its state, because it evicts
// connections by state. It is the ConnState of http.Server: net/http calls it when the
// head of a request has arrived, and after its response.
func trackState(c net.Conn, s http.ConnState) {
	level, ok := c.(*conn)
	if !ok {
		return
	}
	switch s {
	case http.StateActive:
		level.waits(listen.Incomplete)
	case http.StateIdle:
		level.waits(listen.Idle)
	default: // the listener knows new and closed connections
	}
}

// working counts the reasons for which the listener must not evict a connection.
type working struct {
	mu      sync.Mutex   // guards the rest, and the order of the calls of setState
	serving int          // a request that has arrived whole, until its response begins; a guarded request, until its end
	waiting listen.State // the state of the connection when serving is 0
}

// waits sets the state of the connection for the time when serving is 0.
func (c *conn) waits(s listen.State) {
	c.working.mu.Lock()
	defer c.working.mu.Unlock()
	if c.working.waiting = s; c.working.serving == 0 {
		c.setState(s)
	}
}

// serves adds a number of reasons.
func (c *conn) serves(n int) {
	c.working.mu.Lock()
	defer c.working.mu.Unlock()
	c.working.serving += n
	switch c.working.serving {
	case 0:
		c.setState(c.working.waiting)
	case n: // the first one
		c.setState(listen.Serving)
	}
}

// hasArrived tells the listener that the whole request has arrived.
func (rec *responseRecorder) hasArrived() {
	if rec.conn != nil && !rec.serving {
		rec.serving = true
		rec.conn.serves(1)
	}
}

// responds tells the listener that the response begins. From now on the server waits
// until the client reads it.
func (rec *responseRecorder) responds() {
	if rec.serving {
		rec.serving = false
		rec.conn.serves(-1)
	}
}

// setState sets the state of the TCP connection.
func (c *conn) setState(s listen.State) {
	if tcp, ok := c.tcp(); ok {
		tcp.SetState(s)
	}
}

// tcp returns the connection of the listener.
func (c *conn) tcp() (*listen.Conn, bool) {
	inner := c.Conn
	if secure, ok := inner.(*tls.Conn); ok {
		inner = secure.NetConn()
	}
	tcp, ok := inner.(*listen.Conn)
	return tcp, ok
}
