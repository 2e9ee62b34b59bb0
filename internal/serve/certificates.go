package serve

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/acme"
	"plantstore/internal/certs"
	"plantstore/internal/config"
	"plantstore/internal/listen"
)

// certificates provides the certificates of the TLS listeners. The zero value has none: the listeners have no TLS.
type certificates struct {
	get        func(*tls.ClientHelloInfo) (*tls.Certificate, error) // nil: no TLS
	nextProtos []string                                             // protocols that end with the handshake
	clientCAs  func() *x509.CertPool                                // nil: no client certificates
	close      []func()

	acme        *acmeClient        // nil: the certificates are files
	pair        *certs.Pair        // nil: no files
	authorities *certs.Authorities // nil: no client certificates
}

// openCertificates loads the certificates of files. The caller calls end.
func openCertificates(s *config.Settings, log *slog.Logger, metrics prometheus.Registerer) (c certificates, err error) {
	t := &s.TLS
	switch {
	case s.ACME.Enabled():
		c.acme = &acmeClient{}
		c.get, c.nextProtos, c.close = c.acme.getCertificate, []string{acme.Protocol}, append(c.close, c.acme.close)
	case t.Cert == "":
		return c, nil
	default:
		pair, err := certs.OpenPair(certs.PairConfig{
			CertFile: t.Cert, KeyFile: t.Key, Log: log, Metrics: metrics,
		})
		if err != nil {
			return c, s.Fault("tls-cert", "%w", err)
		}
		c.pair, c.get, c.close = pair, pair.GetCertificate, append(c.close, pair.Close)
	}
	if t.ClientCA == "" {
		return c, nil
	}
	authorities, err := certs.OpenAuthorities(t.ClientCA, log)
	if err != nil {
		c.end()
		return certificates{}, s.Fault("client-ca", "%w", err)
	}
	c.authorities, c.clientCAs, c.close = authorities, authorities.Pool, append(c.close, authorities.Close)
	return c, nil
}

// reload reads the files at once. After an error the previous certificates of that file stay.
func (c certificates) reload(s *config.Settings) error {
	var pair, authorities error
	if c.pair != nil {
		if pair = c.pair.Reload(); pair != nil {
			pair = s.Fault("tls-cert", "%w", pair)
		}
	}
	if c.authorities != nil {
		if authorities = c.authorities.Reload(); authorities != nil {
			authorities = s.Fault("client-ca", "%w", authorities)
		}
	}
	return errors.Join(pair, authorities)
}

// end stops the watchers of the files.
func (c certificates) end() {
	for _, f := range c.close {
		f()
	}
}

// enabled reports whether listeners have TLS.
func (c certificates) enabled() bool { return c.get != nil }

// tlsConfig returns the TLS of a listener. Only the public listener requires client certificates: the health checks of
// the admin listener come from machines that have none.
func (c certificates) tlsConfig(name string) listen.TLSConfig {
	config := listen.TLSConfig{GetCertificate: c.get, NextProtos: c.nextProtos}
	if name == "public" {
		config.ClientCAs = c.clientCAs
	}
	return config
}
