package server_test

import (
	"crypto/tls"
	"testing"

	"plantstore/internal/certs/certstest"
	"plantstore/internal/listen"
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
func withTLS(t testing.TB, change ...func(*listen.TLSConfig)) func(*setup) {
	t.Helper()
	s := newTLSSetup(t, certstest.Leaf{})
	s.change = change
	return func(to *setup) { to.tls = s }
}

// tlsSetup is the certificate of a listener and the authority that clients trust.
type tlsSetup struct {
	authority   *certstest.Authority
	certificate tls.Certificate
	change      []func(*listen.TLSConfig)
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
func (s *tlsSetup) config() listen.TLSConfig {
	c := listen.TLSConfig{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &s.certificate, nil },
	}
	for _, f := range s.change {
		f(&c)
	}
	return c
}

// client returns the configuration of a client.
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
