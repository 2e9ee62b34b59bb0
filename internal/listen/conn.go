package listen

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
)

// Conn is a TCP connection of a client.
type Conn struct {
	net.Conn               // a *net.TCPConn, without its other methods: they would bypass Read
	listener *Listener     // counts this connection until it is closed
	header   *announcement // nil: the peer is the client
	closed   atomic.Bool
}

func (l *Listener) newConn(tcp *net.TCPConn) *Conn {
	c := &Conn{Conn: tcp, listener: l}
	if l.proxies.trust(tcp.RemoteAddr()) {
		c.header = &announcement{}
	}
	return c
}

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
	if c.header == nil {
		return c.Conn.Read(p)
	}
	if err := c.await(); err != nil {
		return 0, err
	}
	return c.header.next(c.Conn, p)
}

// await reads the PROXY header, once. It closes a connection without a valid one.
func (c *Conn) await() error {
	c.header.once.Do(func() {
		err := c.header.read(c.Conn, c.listener.proxies.timeout)
		if err == nil {
			return
		}
		if invalid, ok := errors.AsType[*headerError](err); ok {
			c.listener.refuse(badHeader, invalid)
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
	if c.closed.CompareAndSwap(false, true) {
		c.listener.open.Add(-1)
		c.listener.metrics.open.Dec()
	}
	return c.Conn.Close()
}
