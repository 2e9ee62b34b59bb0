// Package listen accepts the connections of an HTTP server: TCP and TLS. It limits their number, and it slows down
// clients without a valid credential. The server reports the state of each connection and the credentials of its
// requests.
package listen

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/limit"
)

// Config configures a listener.
type Config struct {
	Name    string           // "public" or "admin", in log lines and metrics
	Address string           // host:port; port 0 is any free port
	TCP     *net.TCPListener // an open one, instead of Address; nil: none
	Limits  Limits
	Log     *slog.Logger          // nil: none
	Metrics prometheus.Registerer // receives the metrics of connections; nil: none
}

// Listener is a listener whose connections have the type *Conn.
type Listener struct {
	tcp             *net.TCPListener
	name            string
	log             *slog.Logger
	registerer      prometheus.Registerer // nil: none
	open            registry
	metrics         metrics
	tls             *tlsLayer // nil: no TLS
	unauthenticated *unauthenticated
	lines           limit.LogLines // by reason

	stop    context.CancelFunc // ends the sweeper
	ended   <-chan struct{}    // closed by stop
	sweeper sync.WaitGroup

	retired  chan struct{} // closed when Accept returns no more connections
	retiring sync.Once     // closes retired
}

// Listen opens a TCP listener, or takes over the open one of c. It refuses and evicts connections above the limits, and
// counts and logs both.
func Listen(ctx context.Context, c Config) (*Listener, error) {
	tcp := c.TCP
	if tcp == nil {
		var config net.ListenConfig
		opened, err := config.Listen(ctx, "tcp", c.Address)
		if err != nil {
			return nil, err // its text begins with "listen tcp ADDRESS"
		}
		tcp = opened.(*net.TCPListener)
	}
	l := &Listener{
		tcp: tcp, name: c.Name, log: cmp.Or(c.Log, slog.New(slog.DiscardHandler)),
		registerer:      c.Metrics,
		open:            registry{limits: c.Limits, byNetwork: map[limit.Network]int{}},
		unauthenticated: newUnauthenticated(),
		retired:         make(chan struct{}),
	}
	l.metrics = newMetrics(c.Metrics, c.Name, l.Open)
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	l.ended = ctx.Done()
	l.sweeper.Go(func() { l.sweep(ctx) })
	return l, nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return l.tcp.Addr() }

// Duplicate returns another listener of the same socket, where new connections wait after Retire. The caller closes it.
func (l *Listener) Duplicate() (*net.TCPListener, error) {
	f, err := l.tcp.File()
	if err != nil {
		return nil, err
	}
	defer f.Close()
	other, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	return other.(*net.TCPListener), nil
}

// Open returns the number of open connections.
func (l *Listener) Open() int {
	l.open.mu.Lock()
	defer l.open.mu.Unlock()
	return len(l.open.conns)
}

// Close implements net.Listener. Open connections stay open, and the listener no longer evicts them.
func (l *Listener) Close() error {
	l.stop()
	l.sweeper.Wait()
	if err := l.tcp.Close(); !errors.Is(err, net.ErrClosed) { // by Retire
		return err
	}
	return nil
}

// Retire accepts no more connections, and waits until no accepted one has an incomplete request, at most for a second,
// or until the context ends. Then the server can shut down: net/http closes a connection without a response if its
// request arrives later. It would close one whose request is arriving, and handle that request, after
// SetKeepAlivesEnabled(false). Accept blocks until Close. If another process has the socket of Config.TCP too, new
// connections wait for it.
func (l *Listener) Retire(ctx context.Context) {
	_ = l.tcp.Close()
	select {
	case <-l.retired: // every accepted connection is in the registry
	case <-ctx.Done():
		return
	}
	// The second is counted in polls: when a machine has stood still for longer, requests that have arrived are unread.
	const pollEvery, polls = time.Millisecond, 1000
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for n := 0; n < polls && l.open.has(Incomplete); n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Accept implements net.Listener. Only one goroutine may call it, as http.Server.Serve does, which retries after a
// temporary error.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		tcp, err := l.tcp.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			l.retiring.Do(func() { close(l.retired) })
			<-l.ended
			return nil, err
		case err != nil:
			l.refuse(&refusal{noDescriptor, err.Error()})
			return nil, retryable(err)
		}
		c := l.newConn(tcp)
		if l.admit(c) {
			return c, nil
		}
		_ = c.closeTCP()
	}
}

// retryable returns an error of accept as a temporary one if the system may accept the next connection. net/http treats
// only a lack of descriptors as temporary, and would otherwise end the server.
func retryable(err error) error {
	op, isOp := errors.AsType[*net.OpError](err)
	errno, isErrno := errors.AsType[syscall.Errno](err)
	if isOp && isErrno && slices.Contains(transient, errno) {
		return temporary{op}
	}
	return err
}

// transient are the errors of accept after a lack of memory, a refusal by a firewall, and an error of the network that
// accept(2) recommends to retry.
var transient = []syscall.Errno{
	syscall.ENOBUFS, syscall.ENOMEM, syscall.EPERM,
	syscall.ENETDOWN, syscall.EPROTO, syscall.ENOPROTOOPT, syscall.EHOSTDOWN, syscall.EHOSTUNREACH, syscall.ENETUNREACH,
}

// temporary is an error after which http.Server.Serve retries.
type temporary struct{ *net.OpError }

func (temporary) Temporary() bool { return true }

// admit adds a connection to the open ones, or refuses it.
func (l *Listener) admit(c *Conn) bool {
	evicted, refused := l.open.add(c, addressOf(c.RemoteAddr()))
	l.evict(evicted)
	if refused != nil {
		l.refuse(refused)
	}
	return refused == nil
}

// sweep evicts connections while there are many, and serves those that wait.
func (l *Listener) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			l.evict(l.open.sweep())
			l.unauthenticated.serve()
		}
	}
}
