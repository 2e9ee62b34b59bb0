package server_test

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/certs/certstest"
	"plantstore/internal/listen"
	"plantstore/internal/server"
)

// overBoth runs a test over plain TCP and over TLS. The test passes over to start.
func overBoth(t *testing.T, test func(t *testing.T, over func(*setup))) {
	t.Helper()
	t.Parallel()
	t.Run("TCP", func(t *testing.T) {
		t.Parallel()
		test(t, func(*setup) {})
	})
	t.Run("TLS", func(t *testing.T) {
		t.Parallel()
		test(t, withTLS(t))
	})
}

// withTLS returns the change of a setup that gives the public listener TLS.
func withTLS(t testing.TB, change ...func(*server.TLSConfig)) func(*setup) {
	t.Helper()
	s := newTLSSetup(t, certstest.Leaf{})
	s.change = change
	return func(to *setup) { to.tls = s }
}

// tlsSetup is the certificate of a listener and the authority that clients trust.
type tlsSetup struct {
	authority   *certstest.Authority
	certificate tls.Certificate
	change      []func(*server.TLSConfig)
}

func newTLSSetup(t testing.TB, leaf certstest.Leaf) *tlsSetup {
	t.Helper()
	authority, err := certstest.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	return &tlsSetup{authority: authority, certificate: issue(t, authority, leaf)}
}

func issue(t testing.TB, authority *certstest.Authority, leaf certstest.Leaf) tls.Certificate {
	t.Helper()
	cert, key, err := authority.Issue(leaf)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// config returns the configuration of the listener.
func (s *tlsSetup) config(name string, log *slog.Logger, metrics prometheus.Registerer) server.TLSConfig {
	c := server.TLSConfig{
		Name: name, HandshakeTimeout: wait, Log: log, Metrics: metrics,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &s.certificate, nil },
	}
	for _, f := range s.change {
		f(&c)
	}
	return c
}

// client returns the configuration of a client of HTTP/1.1.
func (s *tlsSetup) client() *tls.Config {
	return &tls.Config{
		RootCAs: s.authority.Pool(), ServerName: "localhost", NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12,
	}
}

// scheme returns the scheme of the URL of the public listener.
func (h *harness) scheme() string {
	if h.tls != nil {
		return "https"
	}
	return "http"
}

// The server of HTTP/2 may close the listener before a shutdown reaches that of HTTP/1.1.
func TestServeAfterShutdown(t *testing.T) {
	t.Parallel()
	h := start(t, withTLS(t))
	config := h.config
	registry := prometheus.NewRegistry()
	config.Metrics = registry
	public, _, err := server.New(config)
	if err != nil {
		t.Fatal(err)
	}
	l := h.listen("public", config.Log, registry, listen.Limits{})
	served := make(chan error, 1)
	go func() { served <- public.Serve(l) }()
	c := newClient(t, tls.Client(dial(t, l.Addr().String()).Conn, h.tls.client()))
	c.write(message("GET /healthz HTTP/1.1", "", "Host: localhost", "Connection: close"))
	if got := c.read("GET"); got.Status != http.StatusOK { // the server accepts connections
		t.Errorf("got %+v", got)
	}
	if err := public.ShutdownHTTP2(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("got %v, want %v", err, http.ErrServerClosed)
	}
	if err := public.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
