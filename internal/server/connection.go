package server

import (
	"context"
	"net"
	"net/http"

	"plantstore/internal/auth"
	"plantstore/internal/listen"
)

// connKey is the key of the *listen.Conn in the context of a request.
type connKey struct{}

// keepConn adds the connection to the context of its requests.
func keepConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c.(*listen.Conn))
}

// connOf returns the connection of a request, or nil if it is not a connection of package listen.
func connOf(r *http.Request) *listen.Conn {
	c, _ := r.Context().Value(connKey{}).(*listen.Conn)
	return c
}

// trackState reports the state of a connection to its listener, which evicts connections by state. It is the ConnState
// of http.Server: net/http calls it when the head of a request has arrived, and after its response.
func trackState(c net.Conn, s http.ConnState) {
	switch conn := c.(*listen.Conn); s {
	case http.StateActive:
		conn.SetWaiting(listen.Incomplete)
	case http.StateIdle:
		conn.SetWaiting(listen.Idle)
	}
}

// hasArrived reports to the listener that the whole request has arrived. The listener may evict a request without a
// valid credential: anyone can send requests that wait for the issuer or the store.
func (c *Call) hasArrived() {
	if c.conn != nil && !c.serving && c.scope != 0 {
		c.serving = true
		c.conn.BeginServing()
	}
}

// responds reports to the listener that the response begins. From now on the server waits until the client reads it.
func (c *Call) responds() {
	if c.serving {
		c.serving = false
		c.conn.EndServing()
	}
}

// protect protects the connection of an authorized request until the end of the response: the listener must not evict a
// download for a client without a credential. Credentials without the scope admin can hold only a share of the
// connections.
func (c *Call) protect() {
	if c.Principal.Scopes.Has(auth.ScopeAdmin) {
		c.conn.BeginServing()
		return
	}
	c.conn.Hold(c.Principal.TokenID)
}
