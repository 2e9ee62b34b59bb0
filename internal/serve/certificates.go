package serve

import (
	"crypto/tls"
	"crypto/x509"
	"errors"

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
	files      []watchedFiles
}

// watchedFiles are the files of a setting. reload reads them at once.
type watchedFiles struct {
	setting string
	reload  func() error
}

// openCertificates loads the certificates of files. The source of the certificates by ACME opens after the listeners,
// because its storage is in the store, and before they accept connections.
func (v *instance) openCertificates() (c certificates, err error) {
	s := v.Settings
	switch t := &s.TLS; {
	case s.ACME.Enabled():
		c.nextProtos = []string{acme.Protocol}
		c.get = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return v.acme.GetCertificate(hello) }
	case t.Cert != "":
		pair, err := certs.OpenPair(certs.PairConfig{
			CertFile: t.Cert, KeyFile: t.Key, Log: v.log, Metrics: v.metrics,
		})
		if err != nil {
			return c, s.Fault("tls-cert", "%w", err)
		}
		v.onClose(pair.Close)
		c.get, c.files = pair.GetCertificate, append(c.files, watchedFiles{"tls-cert", pair.Reload})
	}
	if s.TLS.ClientCA != "" {
		authorities, err := certs.OpenAuthorities(s.TLS.ClientCA, v.log)
		if err != nil {
			return c, s.Fault("client-ca", "%w", err)
		}
		v.onClose(authorities.Close)
		c.clientCAs, c.files = authorities.Pool, append(c.files, watchedFiles{"client-ca", authorities.Reload})
	}
	return c, nil
}

// reload reads the files at once. After an error the previous certificates of that file stay.
func (c certificates) reload(s *config.Settings) (faults error) {
	for _, f := range c.files {
		if err := f.reload(); err != nil {
			faults = errors.Join(faults, s.Fault(f.setting, "%w", err))
		}
	}
	return faults
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
