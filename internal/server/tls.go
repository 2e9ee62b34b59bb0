package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/plant"
)

// TLSConfig configures the TLS of a listener. Name, GetCertificate and
// HandshakeTimeout are required.
type TLSConfig struct {
	Name             string // "public" or "admin", in log lines and metrics
	GetCertificate   func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	NextProtos       []string              // protocols that end with the handshake, such as acme-tls/1
	ClientCAs        func() *x509.CertPool // the issuers of the required client certificates; nil: none required
	HandshakeTimeout time.Duration
	Log              *slog.Logger          // nil: none
	Metrics          prometheus.Registerer // nil: no metrics

	http2Penalty time.Duration // 0: http2PenaltyTime
}

// cipherSuites are the suites of TLS 1.2: ECDHE and AEAD only. TLS 1.3 has no
// others.
var cipherSuites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

const protocolHTTP2 = "h2" // the ALPN name of HTTP/2 (RFC 9113 section 3.2)

// tlsConfig returns the configuration of crypto/tls.
func (c TLSConfig) tlsConfig() *tls.Config {
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		CipherSuites:   cipherSuites,
		NextProtos:     append([]string{protocolHTTP2, "http/1.1"}, c.NextProtos...),
		GetCertificate: c.GetCertificate,
	}
	if c.ClientCAs == nil {
		return config
	}
	config.ClientAuth = tls.RequireAndVerifyClientCert
	base := config.Clone()
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		withCAs := base.Clone() // session tickets keep the keys of config
		withCAs.ClientCAs = c.ClientCAs()
		// An ACME server has no client certificate. It offers one protocol (RFC 8737
		// section 3); a client that offers more could reach HTTP without a certificate.
		if len(hello.SupportedProtos) == 1 && slices.Contains(c.NextProtos, hello.SupportedProtos[0]) {
			withCAs.ClientAuth = tls.NoClientCert
		}
		return withCAs, nil
	}
	return config
}

// tlsListener does the handshakes of the connections of a listener, each in a
// goroutine of its own. net/http does it itself for a *tls.Conn, but would then
// write its own errors to the connection, above which no code can replace them.
type tlsListener struct {
	inner   net.Listener
	config  TLSConfig
	tls     *tls.Config
	log     *slog.Logger
	metrics handshakeMetrics

	http1 chan accepted // for Accept
	http2 chan accepted // for the listener of HTTP/2

	closeOnce sync.Once
	closeErr  error // set by closeOnce
	closed    chan struct{}
	running   sync.WaitGroup

	mu       sync.Mutex
	pending  map[net.Conn]struct{} // connections without a complete handshake; nil after Close; guarded by mu
	loggedAt time.Time             // of the last line about failed handshakes; guarded by mu
	unlogged int                   // handshakes that failed since then; guarded by mu
}

// accepted is a result of Accept.
type accepted struct {
	net.Conn
	err error
}

// NewTLSListener returns a listener for the Serve method of a server with TLS. inner
// is a listener of package listen. The caller must close the listener; Close waits
// for its goroutines. The connections have the error bodies of NewListener.
func NewTLSListener(inner net.Listener, c TLSConfig) net.Listener {
	l := &tlsListener{
		inner: inner, config: c, tls: c.tlsConfig(), log: loggerOrNone(c.Log).With("listener", c.Name),
		metrics: newHandshakeMetrics(c.Metrics, c.Name),
		http1:   make(chan accepted), http2: make(chan accepted),
		closed: make(chan struct{}), pending: map[net.Conn]struct{}{},
	}
	l.running.Go(l.accept)
	return l
}

// Addr implements net.Listener.
func (l *tlsListener) Addr() net.Addr { return l.inner.Addr() }

// Accept implements net.Listener. It returns connections of HTTP/1.1.
func (l *tlsListener) Accept() (net.Conn, error) { return l.next(l.http1) }

func (l *tlsListener) next(from <-chan accepted) (net.Conn, error) {
	select {
	case a := <-from:
		return a.Conn, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener. It ends the handshakes that are not complete. Both
// servers of a listener close it.
func (l *tlsListener) Close() error {
	l.closeOnce.Do(func() {
		close(l.closed)
		l.closeErr = l.inner.Close()
		l.mu.Lock()
		for c := range l.pending {
			_ = c.Close()
		}
		l.pending = nil
		l.mu.Unlock()
	})
	l.running.Wait()
	return l.closeErr
}

// accept starts the handshakes until Close.
func (l *tlsListener) accept() {
	for {
		c, err := l.inner.Accept()
		if err != nil {
			if !l.deliver(l.http1, accepted{err: err}) || errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		if !l.begin(c) {
			_ = c.Close()
			continue
		}
		l.running.Go(func() {
			defer l.end(c)
			l.handshake(c)
		})
	}
}

// begin adds a connection to those of Close. It returns false after Close.
func (l *tlsListener) begin(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pending == nil {
		return false
	}
	l.pending[c] = struct{}{}
	return true
}

func (l *tlsListener) end(c net.Conn) {
	l.mu.Lock()
	delete(l.pending, c)
	l.mu.Unlock()
}

// deliver passes a result to Accept. It returns false after Close.
func (l *tlsListener) deliver(to chan<- accepted, a accepted) bool {
	select {
	case to <- a:
		return true
	case <-l.closed:
		return false
	}
}

// handshake does the handshake of a connection and passes it to its server.
func (l *tlsListener) handshake(raw net.Conn) {
	client := raw.RemoteAddr() // waits for a PROXY header, and changes the deadlines
	secure := tls.Server(raw, l.tls)
	err := raw.SetDeadline(time.Now().Add(l.config.HandshakeTimeout))
	if err == nil {
		err = secure.HandshakeContext(context.Background()) // Close and the deadline end it
	}
	if err == nil {
		err = raw.SetDeadline(time.Time{})
	}
	if err != nil {
		l.fail(raw, client, err)
		return
	}
	l.end(raw) // from now on Close leaves the connection to its server
	l.metrics.done.Inc()
	state := secure.ConnectionState()
	c := &conn{Conn: secure, log: l.log, secure: true, subject: subjectOf(&state)}
	switch {
	case slices.Contains(l.config.NextProtos, state.NegotiatedProtocol):
		_ = secure.Close()
		return
	case state.NegotiatedProtocol == protocolHTTP2:
		c.isHTTP2 = true
		if l.deliver(l.http2, accepted{Conn: newHTTP2Conn(c, cmp.Or(l.config.http2Penalty, http2PenaltyTime))}) {
			return
		}
	case l.deliver(l.http1, accepted{Conn: &tlsConn{conn: c, state: &state}}):
		return
	}
	_ = secure.Close()
}

// subjectOf returns the subject of the client certificate, empty without one.
func subjectOf(state *tls.ConnectionState) string {
	if len(state.PeerCertificates) == 0 {
		return ""
	}
	return Shorten(state.PeerCertificates[0].Subject.String())
}

// fail closes a connection whose handshake failed. A client of plain HTTP receives
// an error body.
func (l *tlsListener) fail(raw net.Conn, client net.Addr, cause error) {
	defer raw.Close()
	if errors.Is(cause, io.EOF) { // a health check, or a scan of ports
		l.metrics.closed.Inc()
		return
	}
	l.metrics.failed.Inc()
	other, ok := errors.AsType[tls.RecordHeaderError](cause)
	if ok && other.Conn != nil && looksLikeHTTP(other.RecordHeader) {
		cause = errors.New("the client does not use TLS")
		refuseHTTP(raw)
	}
	l.logFailure(client, cause)
}

// logFailure logs at most one line per second.
func (l *tlsListener) logFailure(client net.Addr, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlogged++
	now := time.Now()
	if now.Sub(l.loggedAt) < time.Second || l.pending == nil {
		return
	}
	host, _, _ := net.SplitHostPort(client.String())
	l.log.Info("TLS handshakes failed", "connections", l.unlogged, "client", host, "error", cause)
	l.loggedAt, l.unlogged = now, 0
}

// looksLikeHTTP reports whether the first bytes of a connection are a method of
// HTTP and not a TLS record.
func looksLikeHTTP(first [5]byte) bool {
	for _, b := range first {
		if (b < 'A' || b > 'Z') && b != ' ' && b != '/' {
			return false
		}
	}
	return true
}

// refuseHTTP responds to a client that speaks HTTP without TLS. It reads the rest of
// the request for a short time, because a close with unread data resets the
// connection, and the client might not receive the response.
func refuseHTTP(raw net.Conn) {
	const timeMax, bytesMax = 500 * time.Millisecond, 1 << 16
	_ = raw.SetDeadline(time.Now().Add(timeMax))
	e := &plant.Error{Code: plant.CodeRequestMalformed, Message: "this port requires TLS; use https"}
	if _, err := raw.Write(bareResponse(e, newRequestID(), false)); err != nil {
		return
	}
	if half, ok := raw.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
	_, _ = io.CopyN(io.Discard, raw, bytesMax)
}

// tlsConn is a connection of HTTP/1.1 over TLS. net/http sets the field TLS of its
// requests with ConnectionState.
type tlsConn struct {
	*conn
	state *tls.ConnectionState
}

// ConnectionState returns the result of the handshake.
func (c *tlsConn) ConnectionState() tls.ConnectionState { return *c.state }

// http2Listener returns the connections of HTTP/2 of a tlsListener.
type http2Listener struct{ *tlsListener }

// Accept implements net.Listener.
func (l http2Listener) Accept() (net.Conn, error) { return l.next(l.tlsListener.http2) }

// handshakeMetrics count the handshakes of a listener.
type handshakeMetrics struct{ done, failed, closed prometheus.Counter }

// newHandshakeMetrics returns new metrics and registers them, unless the registerer
// is nil.
func newHandshakeMetrics(registerer prometheus.Registerer, listener string) handshakeMetrics {
	handshakes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "plantstore_tls_handshakes_total", ConstLabels: prometheus.Labels{"listener": listener},
		Help: "TLS handshakes by result: done, failed, or closed by the client before its first byte.",
	}, []string{"result"})
	if registerer != nil {
		registerer.MustRegister(handshakes)
	}
	return handshakeMetrics{
		done: handshakes.WithLabelValues("done"), failed: handshakes.WithLabelValues("failed"),
		closed: handshakes.WithLabelValues("closed"),
	}
}
