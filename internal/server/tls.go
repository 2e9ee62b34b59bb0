package server

import (
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
)

// TLSConfig configures the TLS of a listener. Name and GetCertificate are required.
type TLSConfig struct {
	Name           string // "public" or "admin", in log lines and metrics
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	NextProtos     []string              // protocols that end with the handshake, such as acme-tls/1
	ClientCAs      func() *x509.CertPool // the issuers of the required client certificates; nil: none required
	Log            *slog.Logger          // nil: none
	Metrics        prometheus.Registerer // nil: no metrics
}

// cipherSuites are the suites of TLS 1.2: ECDHE and AEAD only. TLS 1.3 has no
// others.
var cipherSuites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

// tlsConfig returns the configuration of crypto/tls.
func (c TLSConfig) tlsConfig() *tls.Config {
	config := &tls.Config{
		MinVersion:     tls.VersionTLS12,
		CipherSuites:   cipherSuites,
		NextProtos:     append([]string{"http/1.1"}, c.NextProtos...),
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

// tlsListener accepts connections with TLS. The first Read of a connection does its
// handshake, in the goroutine and within the time of its first request.
type tlsListener struct {
	net.Listener
	config  TLSConfig
	tls     *tls.Config
	log     *slog.Logger
	metrics handshakeMetrics

	mu       sync.Mutex
	loggedAt time.Time // of the last line about failed handshakes; guarded by mu
	unlogged int       // handshakes that failed since then; guarded by mu
}

// NewTLSListener returns a listener for the Serve method of a server with TLS. inner
// is a listener of package listen.
func NewTLSListener(inner net.Listener, c TLSConfig) net.Listener {
	return &tlsListener{
		Listener: inner, config: c, tls: c.tlsConfig(), log: loggerOrNone(c.Log).With("listener", c.Name),
		metrics: newHandshakeMetrics(c.Metrics, c.Name),
	}
}

// Accept implements net.Listener.
func (l *tlsListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err // Serve compares it, and retries if it is temporary
	}
	return &conn{Conn: tls.Server(c, l.tls), tls: l}, nil
}

// handshakeWriteMax is the time for the client to accept the server's part of a
// handshake. For the client's part net/http has set the time of a request.
const handshakeWriteMax = 10 * time.Second

// handshake does the handshake of a connection. After an error net/http closes the
// connection without a response.
func (c *conn) handshake() error {
	secure, l := c.Conn.(*tls.Conn), c.tls
	raw := secure.NetConn()
	err := raw.SetWriteDeadline(time.Now().Add(handshakeWriteMax))
	if err == nil {
		err = secure.HandshakeContext(context.Background())
	}
	if err == nil {
		err = raw.SetWriteDeadline(time.Time{})
	}
	if err != nil {
		l.fail(raw, err)
		return io.EOF
	}
	l.metrics.done.Inc()
	state := secure.ConnectionState()
	if slices.Contains(l.config.NextProtos, state.NegotiatedProtocol) {
		return io.EOF
	}
	c.shaken, c.subject = true, subjectOf(&state)
	return nil
}

// subjectOf returns the subject of the client certificate, empty without one.
func subjectOf(state *tls.ConnectionState) string {
	if len(state.PeerCertificates) == 0 {
		return ""
	}
	return Shorten(state.PeerCertificates[0].Subject.String())
}

// fail counts and logs a failed handshake. A client of plain HTTP receives the response
// that net/http sends in this case.
func (l *tlsListener) fail(raw net.Conn, cause error) {
	if errors.Is(cause, io.EOF) { // a health check, or a scan of ports
		l.metrics.closed.Inc()
		return
	}
	l.metrics.failed.Inc()
	other, ok := errors.AsType[tls.RecordHeaderError](cause)
	if ok && other.Conn != nil && looksLikeHTTP(other.RecordHeader) {
		cause = errors.New("the client does not use TLS")
		const text = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
		_ = raw.SetWriteDeadline(time.Now().Add(handshakeWriteMax))
		_, _ = io.WriteString(raw, text)
	}
	l.logFailure(raw.RemoteAddr(), cause)
}

// logFailure logs at most one line per second.
func (l *tlsListener) logFailure(client net.Addr, cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unlogged++
	now := time.Now()
	if now.Sub(l.loggedAt) < time.Second {
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
