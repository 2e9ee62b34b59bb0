package server_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"plantstore/internal/certs/certstest"
	"plantstore/internal/listen"
)

func (h *harness) mustDialTLS(t testing.TB, config *tls.Config) *client {
	t.Helper()
	c, err := h.dialTLS(t, config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// dialTLS connects and completes the handshake of the client. With TLS 1.3 the server verifies the certificate of the
// client afterwards.
func (h *harness) dialTLS(t testing.TB, config *tls.Config) (*client, error) {
	t.Helper()
	secure := tls.Client(dial(t, h.public).Conn, config)
	err := secure.HandshakeContext(t.Context())
	c := newClient(t, secure)
	c.secure = true
	return c, err
}

// refusedTLS fails the test unless the server refuses a handshake.
func (h *harness) refusedTLS(t *testing.T, config *tls.Config) {
	t.Helper()
	c, err := h.dialTLS(t, config)
	if err == nil {
		_, err = c.reader.ReadByte()
	}
	if timeout, ok := errors.AsType[net.Error](err); err == nil || ok && timeout.Timeout() {
		t.Errorf("got %v, want a refused handshake", err)
	}
}

func TestTLSVersionsAndSuites(t *testing.T) {
	t.Parallel()
	for name, leaf := range map[string]certstest.Leaf{"ECDSA": {}, "RSA": {RSA: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := newTLSSetup(t, leaf)
			h := start(t, func(s *setup) { s.tls = own })
			with := func(version uint16, suites ...uint16) *tls.Config {
				config := own.client()
				config.MinVersion, config.MaxVersion, config.CipherSuites = version, version, suites
				return config
			}
			for _, suite := range tls.CipherSuites() {
				good := strings.HasPrefix(suite.Name, "TLS_ECDHE_"+name) &&
					(strings.Contains(suite.Name, "_GCM_") || strings.Contains(suite.Name, "_POLY1305_"))
				if len(suite.SupportedVersions) != 1 || suite.SupportedVersions[0] != tls.VersionTLS12 {
					if suite.SupportedVersions[0] == tls.VersionTLS13 {
						continue // crypto/tls selects these itself
					}
					good = false
				}
				if good {
					c := h.mustDialTLS(t, with(tls.VersionTLS12, suite.ID))
					c.write(message("GET /healthz HTTP/1.1", ""))
					same(t, c.read("GET"), jsonResponse(200, `{"status":"ready"}`+"\n"))
				} else {
					h.refusedTLS(t, with(tls.VersionTLS12, suite.ID))
				}
			}
			for _, suite := range tls.InsecureCipherSuites() {
				h.refusedTLS(t, with(tls.VersionTLS12, suite.ID))
			}
			h.refusedTLS(t, with(tls.VersionTLS11))
			h.refusedTLS(t, with(tls.VersionTLS10))
			c := h.mustDialTLS(t, with(tls.VersionTLS13))
			c.write(message("GET /healthz HTTP/1.1", ""))
			same(t, c.read("GET"), jsonResponse(200, `{"status":"ready"}`+"\n"))
		})
	}
}

func TestPlainHTTPOnTheTLSPort(t *testing.T) {
	t.Parallel()
	h := start(t, withTLS(t))
	c := dial(t, h.public)
	c.write(h.fill(post(`{"id":1,"name":"A"}`)))
	got, err := io.ReadAll(c)
	const want = "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n"
	if string(got) != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	h.notStored(1)
	h.log.awaitMessage(t, "TLS handshakes failed")
}

// A client that speaks only HTTP/2 is refused in the handshake. One that offers both protocols, or none, speaks
// HTTP/1.1.
func TestProtocols(t *testing.T) {
	t.Parallel()
	h := start(t, withTLS(t))
	config := h.tls.client()
	config.NextProtos = []string{"h2"}
	if _, err := h.dialTLS(t, config); err == nil || !strings.Contains(err.Error(), "no application protocol") {
		t.Errorf("h2: got %v, want the alert no_application_protocol", err)
	}
	for _, offered := range [][]string{{"h2", "http/1.1"}, nil} {
		config.NextProtos = offered
		c := h.mustDialTLS(t, config)
		c.write(message("GET /healthz HTTP/1.1", ""))
		same(t, c.read("GET"), jsonResponse(200, `{"status":"ready"}`+"\n"))
	}
	h.log.awaitMessage(t, "TLS handshakes failed")
}

// A handshake that does not end in time, that is not TLS, or that is too large ends the connection without a response.
func TestHandshakeFails(t *testing.T) {
	t.Parallel()
	hello := "\x16\x03\x01\x40\x00\x01\x00\xff\xff" // a record of a ClientHello of 65535 bytes
	for name, in := range map[string]string{
		"silent":              "",
		"half a header":       "\x16\x03",
		"half a hello":        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
		"another protocol":    "SSH-2.0-OpenSSH_9.2\r\n",
		"large record":        "\x16\x03\x01\xff\xff" + strings.Repeat("x", 1<<16),
		"large hello":         hello + strings.Repeat("x", 1<<18),
		"application data":    "\x17\x03\x03\x00\x05hello",
		"hello of SSL 2":      "\x80\x2e\x01\x00\x02" + strings.Repeat("\x00", 44),
		"hello without names": "\x16\x03\x01\x00\x04\x01\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const limit = 300 * time.Millisecond
			h := start(t, withTLS(t), func(s *setup) { s.limits.RequestTimeout = limit })
			c := dial(t, h.public)
			c.write(in)
			rest, err := io.ReadAll(c.reader)
			if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
				t.Errorf("the server keeps the connection open")
			}
			if strings.Contains(string(rest), "HTTP") {
				t.Errorf("got %q, want no response", rest)
			}
			h.log.awaitMessage(t, "TLS handshakes failed")
		})
	}
}

// Many incomplete handshakes do not delay another client, and Close ends them.
func TestManyHalfHandshakes(t *testing.T) {
	t.Parallel()
	const count = 500
	h := start(t, withTLS(t))
	half := make([]*client, count)
	for i := range half {
		half[i] = dial(t, h.public)
		half[i].write("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")
	}
	same(t, h.send(post(`{"id":1,"name":"A"}`)), created(`{"name":"A"}`))
	if err := h.publicServer.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	for _, c := range half {
		c.expectClosed()
	}
}

func TestClientCertificates(t *testing.T) {
	t.Parallel()
	const protocol = "acme-tls/1"
	own := newTLSSetup(t, certstest.Leaf{})
	own.change = append(own.change, func(c *listen.TLSConfig) {
		c.ClientCAs = func() *x509.CertPool { return own.authority.Pool() }
		c.NextProtos = []string{protocol}
	})
	h := start(t, func(s *setup) { s.tls = own })
	other := newTLSSetup(t, certstest.Leaf{})
	with := func(protocols []string, certificates ...tls.Certificate) *tls.Config {
		config := own.client()
		config.NextProtos, config.Certificates = protocols, certificates
		return config
	}
	good := issue(t, own.authority, certstest.Leaf{Name: "orders"})
	expired := issue(t, own.authority, certstest.Leaf{NotAfter: time.Now().Add(-time.Minute)})
	http1 := []string{"http/1.1"}
	c := h.mustDialTLS(t, with(http1, good))
	c.write(h.fill(post(`{"id":1,"name":"A"}`)))
	same(t, c.read("POST"), created(`{"name":"A"}`))
	if l := h.log.await(t, sentID); l["client_certificate"] != "CN=orders" {
		t.Errorf("log: got %v, want the subject", l)
	}
	for name, config := range map[string]*tls.Config{
		"no certificate":         with(http1),
		"another authority":      with(http1, issue(t, other.authority, certstest.Leaf{})),
		"expired":                with(http1, expired),
		"without, ACME and HTTP": with([]string{protocol, "http/1.1"}),
		"without, HTTP and ACME": with([]string{"http/1.1", protocol}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				if len(config.Certificates) == 0 {
					return &tls.Certificate{}, nil
				}
				return &config.Certificates[0], nil // from another authority, too
			}
			h.refusedTLS(t, config)
		})
	}
	t.Run("ACME", func(t *testing.T) { // the handshake is all
		t.Parallel()
		c := h.mustDialTLS(t, with([]string{protocol}))
		c.write(h.fill(post(`{"id":2,"name":"A"}`)))
		c.expectClosed()
		h.notStored(2)
	})
}

// A client cannot resume a session when its certificate is of an authority that is not trusted any more.
func TestResumedClientCertificates(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]uint16{"TLS 1.2": tls.VersionTLS12, "TLS 1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own, other := newTLSSetup(t, certstest.Leaf{}), newTLSSetup(t, certstest.Leaf{})
			var trusted atomic.Pointer[x509.CertPool]
			trusted.Store(own.authority.Pool())
			own.change = append(own.change, func(c *listen.TLSConfig) { c.ClientCAs = trusted.Load })
			h := start(t, func(s *setup) { s.tls = own })
			config := own.client()
			config.NextProtos, config.MinVersion, config.MaxVersion = []string{"http/1.1"}, version, version
			config.Certificates = []tls.Certificate{issue(t, own.authority, certstest.Leaf{Name: "orders"})}
			config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			for _, resumed := range []bool{false, true} {
				c := h.mustDialTLS(t, config)
				c.write(message("GET /healthz HTTP/1.1", ""))
				same(t, c.read("GET"), jsonResponse(200, `{"status":"ready"}`+"\n"))
				if state := c.Conn.(*tls.Conn).ConnectionState(); state.DidResume != resumed {
					t.Errorf("resumed: got %t, want %t", state.DidResume, resumed)
				}
			}
			trusted.Store(other.authority.Pool())
			h.refusedTLS(t, config)
		})
	}
}
