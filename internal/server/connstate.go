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
	inner := c.Conn
	if secure, ok := inner.(*tls.Conn); ok {
		inner = secure.NetConn()
	}
	if tcp, ok := inner.(*listen.Conn); ok {
		tcp.SetState(s)
	}
}
