package listen

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"plantstore/internal/limit"
)

// Conn is a connection of a client: TCP, and TLS over it if the listener has TLS.
type Conn struct {
	tcp      net.Conn  // a *net.TCPConn
	tls      *tls.Conn // over tcpOnly{this}; nil: no TLS
	listener *Listener // counts this connection until it is closed
	reading  deadline
	writing  deadline

	state      atomic.Int64 // a stamp
	closing    atomic.Bool  // no further request is read, because its response could not be sent
	responding atomic.Bool  // see SetResponding
	holder     atomic.Int64 // the credential of the last Hold
	arriving   atomic.Int64 // memory of the request that arrives, see count

	mu      sync.Mutex // guards the rest of this group, and the order of the calls of setState
	serving int        // calls of BeginServing and Hold without EndServing
	waiting State      // the state when serving is 0

	// Guarded by the registry.
	index   int  // in registry.conns; -1: not there
	claimed bool // counted in registry.byNetwork

	// Set by registry.add.
	network limit.Network // the client's
	shared  bool          // the client is a proxy, with many clients
	free    bool          // exempt from the limit of clients without a valid credential

	// paid has the unit of this connection, which Admit returns; nil: none. Guarded by unauthenticated while the
	// connection waits, later used only by the goroutine that reads it.
	paid *limit.Buckets[limit.Network]

	// Used only by the goroutine that reads the connection.
	charged    bool          // by chargeNew
	admitAgain time.Duration // by clock; Admit does nothing before
	secured    bool          // the TLS handshake has succeeded
	subject    string        // from the client certificate
	head       head          // the next request's
	buffered   int64         // memory of the last part, which may be in the buffer of net/http
}

func (l *Listener) newConn(tcp *net.TCPConn) *Conn {
	c := &Conn{tcp: tcp, listener: l, index: -1}
	c.setState(Incomplete)
	c.reading.init(net.Conn.SetReadDeadline)
	c.writing.init(net.Conn.SetWriteDeadline)
	if l.tls != nil {
		c.tls = tls.Server(tcpOnly{c}, l.tls.config)
	}
	return c
}

// SetResponding tells the connection whether a handler runs that reads at most a body of known length, and that a
// disconnect must not cancel.
//
// While a handler runs, net/http reads one byte in the background to detect a disconnect, and aborts that read
// afterwards. This costs a blocked goroutine, two changes of a deadline and two wake-ups per request. The public
// listener does not need it, because a disconnect does not cancel a create: there Read returns at once without data,
// and the server detects a disconnect when it writes the response. net/http may read single bytes of a chunked body for
// the handler.
func (c *Conn) SetResponding(responding bool) { c.responding.Store(responding) }

// Read reads data of the client. The first call waits for the limit of clients without a credential, and for the TLS
// handshake.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 1 && c.responding.Load() {
		return 0, nil
	}
	if c.head.tooLong {
		return c.head.fill(p), nil
	}
	n, err := c.readData(p)
	c.head.check(p[:n])
	if n > 0 && !c.count(p[:n]) {
		return 0, io.EOF // so that the server sends no response
	}
	return n, err
}

// readData reads data of the client, as it was before TLS.
func (c *Conn) readData(p []byte) (int, error) {
	if c.tls == nil {
		return c.readTCP(p)
	}
	if !c.secured {
		if err := c.handshake(); err != nil {
			return 0, err
		}
	}
	return c.tls.Read(p)
}

func (c *Conn) readTCP(p []byte) (int, error) {
	if !c.charged {
		if err := c.chargeNew(); err != nil {
			return 0, err
		}
	}
	for {
		n, err := c.tcp.Read(p)
		if c.closing.Load() {
			return 0, net.ErrClosed // the client may send the rest of a request when it receives TLS's close_notify
		}
		if n > 0 || err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || !c.reading.extend(c.tcp) {
			return n, err
		}
	}
}

// Write writes data to the client.
func (c *Conn) Write(p []byte) (int, error) {
	if c.tls == nil {
		return c.writeTCP(p)
	}
	return c.tls.Write(p)
}

func (c *Conn) writeTCP(p []byte) (n int, err error) {
	for {
		written, err := c.tcp.Write(p[n:])
		n += written
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || !c.writing.extend(c.tcp) {
			return n, err
		}
	}
}

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return c.tcp.LocalAddr() }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return c.tcp.RemoteAddr() }

// addressOf returns the IP address of a TCP address, without a zone and, if it is an IPv4 address in IPv6 form, as an
// IPv4 address.
func addressOf(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.reading.set(c.tcp, t) }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.writing.set(c.tcp, t) }

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// CloseWrite ends the output. net/http calls it before it closes a connection with unread data.
func (c *Conn) CloseWrite() error {
	if c.tls != nil {
		return c.tls.CloseWrite()
	}
	return c.tcp.(*net.TCPConn).CloseWrite()
}

// Close closes the connection. net/http may call it more than once.
func (c *Conn) Close() error {
	c.closing.Store(true)
	if c.tls != nil {
		return c.tls.Close()
	}
	return c.closeTCP()
}

func (c *Conn) closeTCP() error {
	c.listener.open.remove(c)
	return c.tcp.Close()
}

// tcpOnly is a connection as TLS uses it.
type tcpOnly struct{ *Conn }

func (t tcpOnly) Read(p []byte) (int, error)  { return t.readTCP(p) }
func (t tcpOnly) Write(p []byte) (int, error) { return t.writeTCP(p) }
func (t tcpOnly) Close() error                { return t.closeTCP() }

// Retired reports whether the listener accepts no more connections, so that the connection ends with its response.
func (c *Conn) Retired() bool {
	select {
	case <-c.listener.retired:
		return true
	default:
		return false
	}
}
