// Package listen accepts the TCP connections of a server, limits their number and
// knows their clients. It knows nothing about HTTP.
package listen

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config configures a listener.
type Config struct {
	Name           string                // "public" or "admin", in log lines and metrics
	Address        string                // host:port; port 0 is any free port
	ConnectionsMax int                   // open connections; 0: no limit
	Log            *slog.Logger          // nil: none
	Metrics        prometheus.Registerer // for the metrics of connections; nil: none

	// ProxyProtocol requires a PROXY header, of version 1 or 2, at the beginning of
	// each connection from a trusted proxy. The bytes of a header from another
	// address are data.
	ProxyProtocol  bool
	TrustedProxies []netip.Prefix
	HeaderTimeout  time.Duration // for a PROXY header to arrive
}

// Listener is a TCP listener. Its connections have the type *Conn.
type Listener struct {
	tcp     *net.TCPListener
	name    string
	log     *slog.Logger
	max     int64        // open connections; 0: no limit
	open    atomic.Int64 // connections
	metrics metrics
	proxies proxies // that announce their clients
	refused lines
}

// Listen opens a TCP listener. It closes connections above the limit at once and
// counts them as refused.
func Listen(ctx context.Context, c Config) (*Listener, error) {
	if c.Address == "" {
		return nil, errors.New("listen: the address is empty; give host:port")
	}
	var config net.ListenConfig
	l, err := config.Listen(ctx, "tcp", c.Address)
	if err != nil {
		return nil, err // its text begins with "listen tcp ADDRESS"
	}
	log := c.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	listener := &Listener{
		tcp: l.(*net.TCPListener), name: c.Name, log: log,
		max: int64(c.ConnectionsMax), metrics: newMetrics(c.Metrics, c.Name),
	}
	if c.ProxyProtocol {
		listener.proxies = proxies{trusted: c.TrustedProxies, timeout: c.HeaderTimeout}
	}
	return listener, nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return l.tcp.Addr() }

// Close implements net.Listener. Open connections stay open.
func (l *Listener) Close() error { return l.tcp.Close() }

// Accept implements net.Listener. Only one goroutine may call it, as
// http.Server.Serve does. Serve retries after the error of a missing descriptor.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.tcp.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil, err
		case err != nil:
			l.refuse(noDescriptor, err)
			return nil, err
		case l.max > 0 && l.open.Load() >= l.max:
			_ = c.Close()
			l.refuse(tooMany, fmt.Errorf("%d connections are open; raise the limit of open files to allow more", l.max))
			continue
		}
		l.open.Add(1)
		l.metrics.open.Inc()
		return l.newConn(c), nil
	}
}
