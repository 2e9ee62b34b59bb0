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
	level, ok := c.(interface{ httpLevel() *conn })
	if !ok {
		return
	}
	switch s {
	case http.StateActive:
		level.httpLevel().waits(listen.Incomplete)
	case http.StateIdle:
		level.httpLevel().waits(listen.Idle)
		if c, ok := c.(*http2Conn); ok {
			c.endRequests()
		}
	default: // the listener knows new and closed connections
	}
}

// working are the requests of a connection that the server works on. A connection of
// HTTP/2 may have several.
type working struct {
	mu      sync.Mutex   // guards the rest, and the order of the calls of setState
	serving int          // requests that have arrived whole, and whose responses have not begun
	waiting listen.State // the state of the connection without such a request
}

// waits sets the state of the connection for the time when serving is 0.
func (c *conn) waits(s listen.State) {
	c.working.mu.Lock()
	defer c.working.mu.Unlock()
	if c.working.waiting = s; c.working.serving == 0 {
		c.setState(s)
	}
}

// serves adds a number of requests.
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

// beginRequest counts a request. A client can keep each of its requests incomplete, or
// not accept the responses, and a request costs as much memory as a connection of
// HTTP/1.1. So the connection counts for the limit of incomplete ones as often as it
// has had requests since it was idle; at most http2StreamsMax of these are open.
func (c *http2Conn) beginRequest() {
	if tcp, ok := c.tcp(); ok {
		tcp.SetRequests(int(min(c.requests.Add(1), http2StreamsMax)))
	}
}

// endRequests is for a connection without an open request.
func (c *http2Conn) endRequests() {
	c.requests.Store(0)
	if tcp, ok := c.tcp(); ok {
		tcp.SetRequests(0)
	}
}
