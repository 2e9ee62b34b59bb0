package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/acme"
	"plantstore/internal/certs"
	"plantstore/internal/listen"
)

// tlsSettings are the settings of TLS.
type tlsSettings struct {
	cert, key, clientCA text
	insecureListen      toggle
}

func (t *tlsSettings) rows() []setting {
	return []setting{
		{
			"tls-cert", &t.cert, "", "1.0.0", "PEM `file` with the certificate of the listeners and its chain",
			"Requires `--tls-key`. The server reads both files every 5 s: new connections receive a new pair, open ones " +
				"continue. It keeps the previous pair if the new one is not usable. See [TLS](configuration.md#tls).",
		},
		{
			"tls-key", &t.key, "", "1.0.0", "PEM `file` with the private key of the certificate",
			"Keep it readable for the user of the server only; the log has a warning otherwise.",
		},
		{
			"client-ca", &t.clientCA, "", "1.0.0", "PEM `file` with the issuers of client certificates",
			"Every connection to the public listener then requires a client certificate of one of these authorities, besides " +
				"the token. Requires TLS. The server reads the file every 5 s.",
		},
		{
			"insecure-listen", &t.insecureListen, "", "1.0.0", "allow addresses without TLS that are not loopback addresses",
			"Only for a proxy, a mesh or a private network that protects the connections: a bearer token over plain HTTP is " +
				"readable on the way (RFC 6750 section 5.3).",
		},
	}
}

// check returns a usage error for settings that contradict each other.
func (t *tlsSettings) check(s *settings) error {
	switch {
	case t.cert != "" && t.key == "":
		return s.fault("tls-cert", "the private key is missing; set --tls-key")
	case t.key != "" && t.cert == "":
		return s.fault("tls-key", "the certificate is missing; set --tls-cert")
	case t.clientCA != "" && t.cert == "" && !s.acme.enabled():
		return s.fault("client-ca", "client certificates require TLS; set --tls-cert and --tls-key, or --acme-domain")
	}
	return nil
}

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

// open loads the certificates of files. The caller calls end.
func (t *tlsSettings) open(s *settings, log *slog.Logger, metrics prometheus.Registerer) (c certificates, err error) {
	switch {
	case s.acme.enabled():
		c.acme = &acmeClient{}
		c.get, c.nextProtos, c.close = c.acme.getCertificate, []string{acme.Protocol}, append(c.close, c.acme.close)
	case t.cert == "":
		return c, nil
	default:
		pair, err := certs.OpenPair(certs.PairConfig{
			CertFile: string(t.cert), KeyFile: string(t.key), Log: log, Metrics: metrics,
		})
		if err != nil {
			return c, s.fault("tls-cert", "%w", err)
		}
		c.pair, c.get, c.close = pair, pair.GetCertificate, append(c.close, pair.Close)
	}
	if t.clientCA == "" {
		return c, nil
	}
	authorities, err := certs.OpenAuthorities(string(t.clientCA), log)
	if err != nil {
		c.end()
		return certificates{}, s.fault("client-ca", "%w", err)
	}
	c.authorities, c.clientCAs, c.close = authorities, authorities.Pool, append(c.close, authorities.Close)
	return c, nil
}

// reload reads the files at once. After an error the previous certificates of that file stay.
func (c certificates) reload(s *settings) error {
	var pair, authorities error
	if c.pair != nil {
		if pair = c.pair.Reload(); pair != nil {
			pair = s.fault("tls-cert", "%w", pair)
		}
	}
	if c.authorities != nil {
		if authorities = c.authorities.Reload(); authorities != nil {
			authorities = s.fault("client-ca", "%w", authorities)
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

// checkExposed returns a usage error for a listener without TLS whose address is not a loopback address. setting is the
// name of the setting of the address.
func (t *tlsSettings) checkExposed(s *settings, setting string, address net.Addr) error {
	if bool(t.insecureListen) || address.(*net.TCPAddr).IP.IsLoopback() {
		return nil
	}
	return s.fault(setting, "the address %s is not a loopback address, and the listener has no TLS; set --tls-cert and "+
		"--tls-key, --acme-domain, or --insecure-listen if a proxy or a private network protects the connections",
		s.writtenAddress(setting, address))
}
