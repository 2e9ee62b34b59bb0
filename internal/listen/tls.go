package listen

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// TLSConfig configures the TLS of a listener. GetCertificate is required.
type TLSConfig struct {
	GetCertificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	NextProtos     []string              // protocols that end with the handshake, such as acme-tls/1
	ClientCAs      func() *x509.CertPool // the issuers of the required client certificates; nil: none required
}

// cipherSuites are the suites of TLS 1.2: ECDHE and AEAD only. TLS 1.3 has no others.
var cipherSuites = []uint16{
	tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
	tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
	tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
}

type tlsLayer struct {
	config     *tls.Config
	nextProtos []string
	handshakes map[reason]prometheus.Counter // by result
}

// UseTLS adds TLS to the connections. The caller calls it before the first Accept.
func (l *Listener) UseTLS(c TLSConfig) {
	handshakes := promauto.With(l.registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "plantstore_tls_handshakes_total", ConstLabels: prometheus.Labels{"listener": l.name},
		Help: "TLS handshakes by result: done, failed, or closed by the client before its first byte.",
	}, []string{"result"})
	l.tls = &tlsLayer{
		config: c.config(), nextProtos: c.NextProtos, handshakes: counters(handshakes, "done", "failed", "closed"),
	}
}

// config returns the configuration of crypto/tls.
func (c TLSConfig) config() *tls.Config {
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
		// An ACME server has no client certificate. It offers one protocol (RFC 8737 section 3); a client that offers
		// more could reach HTTP without a certificate.
		if len(hello.SupportedProtos) == 1 && slices.Contains(c.NextProtos, hello.SupportedProtos[0]) {
			withCAs.ClientAuth = tls.NoClientCert
		}
		return withCAs, nil
	}
	return config
}

// handshakeWriteMax is the time for the client to accept the server's part of a handshake. For the client's part
// net/http has set the time of a request.
const handshakeWriteMax = 10 * time.Second

// handshake does the TLS handshake, in the goroutine and within the time of the first request. After an error net/http
// closes the connection without a response.
func (c *Conn) handshake() error {
	err := c.SetWriteDeadline(time.Now().Add(handshakeWriteMax))
	if err == nil {
		err = c.tls.HandshakeContext(context.Background())
	}
	if err == nil {
		err = c.SetWriteDeadline(time.Time{})
	}
	if err != nil {
		c.failHandshake(err)
		return io.EOF
	}
	c.listener.tls.handshakes["done"].Inc()
	state := c.tls.ConnectionState()
	if slices.Contains(c.listener.tls.nextProtos, state.NegotiatedProtocol) {
		return io.EOF
	}
	if len(state.PeerCertificates) > 0 {
		c.subject = state.PeerCertificates[0].Subject.String()
	}
	c.secured = true
	return nil
}

// Secure reports whether the connection has TLS.
func (c *Conn) Secure() bool { return c.tls != nil }

// Subject returns the subject of the client certificate; empty: none.
func (c *Conn) Subject() string { return c.subject }

// failHandshake counts and logs a failed handshake. A client of plain HTTP receives the response that net/http sends in
// this case.
func (c *Conn) failHandshake(cause error) {
	l := c.listener
	if errors.Is(cause, io.EOF) { // a health check, or a scan of ports
		l.tls.handshakes["closed"].Inc()
		return
	}
	l.tls.handshakes["failed"].Inc()
	other, ok := errors.AsType[tls.RecordHeaderError](cause)
	const startBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZ /" // what an HTTP request starts with
	if ok && other.Conn != nil && strings.Trim(string(other.RecordHeader[:]), startBytes) == "" {
		cause = errors.New("the client does not use TLS")
		const text = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
		_ = c.SetWriteDeadline(time.Now().Add(handshakeWriteMax))
		_, _ = c.writeTCP([]byte(text))
	}
	if n := l.lines.Add("handshake", 1); n > 0 {
		l.log.Info("TLS handshakes failed",
			"listener", l.name, "connections", n, "client", addressOf(c.RemoteAddr()).String(), "error", cause)
	}
}
