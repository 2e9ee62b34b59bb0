package server

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
)

// NewListener returns a listener without TLS for the Serve method of a server. inner
// is a listener of package listen.
func NewListener(inner net.Listener) net.Listener { return listener{inner} }

type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err // Serve compares it, and retries if it is temporary
	}
	return &conn{Conn: c}, nil
}

// conn is the HTTP level of a connection.
type conn struct {
	net.Conn
	responding atomic.Bool // a handler runs that reads only a body of known length
	working    working

	tls     *tlsListener // nil: no TLS
	shaken  bool         // the handshake has succeeded; Read does it
	subject string       // of the client certificate
}

// CloseWrite ends the output, which net/http calls before it closes a connection
// with unread data.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// connKey is the key of the *conn in the context of a request.
type connKey struct{}

// keepConn adds the connection to the context of its requests.
func keepConn(ctx context.Context, c net.Conn) context.Context {
	if c, ok := c.(*conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// connOf returns the connection of a request, or nil if it is not one of this
// package's listeners.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// Read reads from the client, after the TLS handshake. While a handler runs, net/http reads one byte in the
// background to detect a disconnect, and aborts that read afterwards. This costs a
// blocked goroutine, two changes of a deadline and two wake-ups per request. The
// public listener does not need it, because a disconnect does not cancel a create:
// there this read returns at once without data. So the server detects a disconnect
// only when it writes the response. net/http may read single bytes of a chunked
// body for the handler, so responding is false for a chunked body.
func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 1 && c.responding.Load() {
		return 0, nil
	}
	if c.tls != nil && !c.shaken {
		if err := c.handshake(); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(p)
}
