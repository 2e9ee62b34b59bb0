package server

import (
	"crypto/tls"
	"net"
	"net/http"

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
		level.httpLevel().setState(listen.Incomplete)
	case http.StateIdle:
		level.httpLevel().setState(listen.Idle)
		if c, ok := c.(*http2Conn); ok {
			c.endRequests()
		}
	default: // the listener knows new and closed connections
	}
}

// hasArrived tells the listener that a whole request has arrived.
func hasArrived(r *http.Request) {
	if c := connOf(r); c != nil {
		c.setState(listen.Serving)
	}
}

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
// has had requests since it was idle, of which at most http2StreamsMax are open.
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
