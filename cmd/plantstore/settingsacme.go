package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/acme"
	"plantstore/internal/listen"
	"plantstore/internal/postgres"
	"plantstore/internal/server"
)

// acmeSettings are the settings of certificates by ACME.
type acmeSettings struct {
	domains    list
	email      text
	directory  text
	ca         text
	httpListen optionalAddress // empty: tls-alpn-01 instead of http-01
}

// optionalAddress is an address. The zero value is no address.
type optionalAddress struct{ address }

// Set implements pflag.Value.
func (a *optionalAddress) Set(text string) error {
	if text == "" {
		a.address = ""
		return nil
	}
	return a.address.Set(text)
}

// rows returns the rows of the table of settings.
func (a *acmeSettings) rows() []setting {
	return []setting{
		{
			"acme-domain", a.domains.of(acme.CheckDomain), "", "1.0.0",
			"`domains` for which the server obtains certificates by ACME",
			"The listeners then have TLS, each domain with a certificate of its own. A client that sends no name receives the " +
				"certificate of the first domain, and one that sends another name is refused. Requires `--acme-email`. " +
				"See [certificates by ACME](acme.md).",
		},
		{
			"acme-email", &a.email, "", "1.0.0", "`address` for messages of the CA; agrees to its terms of service",
			"Setting it is your agreement to the terms of service of the CA in `--acme-directory`. The log has the address of " +
				"the terms.",
		},
		{
			"acme-directory", &a.directory, acme.LetsEncrypt, "1.0.0", "`URL` of the ACME directory of the CA",
			"After a change, the server orders new certificates at once.",
		},
		{
			"acme-ca", &a.ca, "", "1.0.0", "PEM `file` that verifies the TLS certificate of the ACME directory",
			"For a private CA. Empty: the certificates of the system.",
		},
		{
			"acme-http-listen", &a.httpListen, "", "1.0.0", "`address` of a listener for the challenge http-01",
			"The CA sends the challenge to port 80 of the domain. The listener answers only challenges. Empty: the challenge " +
				"is tls-alpn-01, which the CA sends to port 443 and the public listener answers.",
		},
	}
}

// enabled reports whether the certificates are those of ACME.
func (a *acmeSettings) enabled() bool { return len(a.domains.items) > 0 }

// nameIn returns a guessed URL of the public listener with the first domain, which its certificate has.
func (a *acmeSettings) nameIn(u *url.URL) *url.URL {
	if a.enabled() {
		u.Host = strings.TrimSuffix(net.JoinHostPort(a.domains.items[0], u.Port()), ":443")
	}
	return u
}

// check returns a usage error for settings that contradict each other.
func (a *acmeSettings) check(s *settings) error {
	const domainsMax = 100
	for name, isSet := range map[string]bool{
		"acme-email": a.email != "", "acme-ca": a.ca != "", "acme-http-listen": a.httpListen.address != "",
		"acme-directory": a.directory != "" && a.directory != acme.LetsEncrypt,
	} {
		if isSet && !a.enabled() {
			return s.fault(name, "there is no domain; set --acme-domain")
		}
	}
	switch {
	case !a.enabled():
		return nil
	case len(a.domains.items) > domainsMax:
		return s.fault("acme-domain", "%d domains; use at most %d", len(a.domains.items), domainsMax)
	case s.tls.cert != "":
		return s.fault("acme-domain", "--tls-cert sets the certificate; omit one of them")
	case a.email == "":
		return s.fault("acme-domain", "the e-mail address is missing; set --acme-email, which agrees to the CA's terms")
	}
	if err := acme.CheckEmail(string(a.email)); err != nil {
		return s.fault("acme-email", "%w", err)
	}
	if err := acme.CheckDirectory(string(a.directory)); err != nil {
		return s.fault("acme-directory", "%w", err)
	}
	return nil
}

// acmeClient has the certificates of a Source. The Source opens after the listeners, because its storage is in the
// store.
type acmeClient struct {
	source   atomic.Pointer[acme.Source] // nil until open
	listener net.Listener                // of http-01; nil: tls-alpn-01
	roots    *x509.CertPool              // of --acme-ca; nil: those of the system
}

// prepare reads the file of --acme-ca, and opens the listener of http-01 if there is one.
func (a *acmeClient) prepare(
	ctx context.Context, s *settings, log *slog.Logger, metrics prometheus.Registerer,
) (err error) {
	const challengesMax, perAddressMax = 256, 64 // connections
	if a.roots, err = s.acme.roots(s); err != nil || s.acme.httpListen.address == "" {
		return err
	}
	l, err := listen.Listen(ctx, listen.Config{
		Name: "challenge", Address: string(s.acme.httpListen.address),
		Limits: listen.Limits{
			Connections: challengesMax, PerAddress: perAddressMax, Proxies: s.proxies.prefixes(),
		},
		Log: log, Metrics: metrics,
	})
	if err != nil {
		return fmt.Errorf("%w; use another address with --acme-http-listen", err)
	}
	a.listener = server.NewListener(l)
	return nil
}

// open opens the storage and reads the stored certificates.
func (a *acmeClient) open(
	ctx context.Context, s *settings, engine wholeEngine, log *slog.Logger, metrics prometheus.Registerer,
) error {
	config := acme.Config{
		Domains: s.acme.domains.items, Email: string(s.acme.email), Directory: string(s.acme.directory),
		Roots: a.roots, HTTP01: s.acme.httpListen.address != "", Log: log, Metrics: metrics,
	}
	var err error
	if database, ok := engine.(*postgres.Engine); ok {
		config.Storage = database.ACME()
	} else if config.Storage, err = acme.NewFileStorage(s.db.path + "-acme"); err != nil {
		return fmt.Errorf("open the directory of certificates: %w", err)
	}
	source, err := acme.New(ctx, config)
	if err != nil {
		return err
	}
	a.source.Store(source)
	return nil
}

// roots returns the certificates of --acme-ca, nil without it.
func (a *acmeSettings) roots(s *settings) (*x509.CertPool, error) {
	if a.ca == "" {
		return nil, nil //nolint:nilnil // the certificates of the system
	}
	text, err := readRegular(string(a.ca))
	if err != nil {
		return nil, s.fault("acme-ca", "%w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(text) {
		return nil, s.fault("acme-ca", "%s has no certificate in PEM form", a.ca)
	}
	return roots, nil
}

// start starts the orders after open. The listeners must accept connections.
func (a *acmeClient) start(ctx context.Context) { a.source.Load().Start(ctx) }

// retire interrupts an order and starts no further one. Handshakes continue to receive the certificates.
func (a *acmeClient) retire() {
	if a != nil {
		a.source.Load().Stop()
	}
}

// stop ends the orders and waits for that.
func (a *acmeClient) stop() { a.source.Load().Close() }

// close closes the listener of http-01.
func (a *acmeClient) close() {
	if a.listener != nil {
		_ = a.listener.Close()
	}
}

// getCertificate is the function of a tls.Config.
func (a *acmeClient) getCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	source := a.source.Load()
	if source == nil {
		return nil, acme.ErrNoCertificate
	}
	return source.GetCertificate(hello)
}

// keyAuthorization is acme.Source.KeyAuthorization.
func (a *acmeClient) keyAuthorization(token string) (string, bool) {
	source := a.source.Load()
	if source == nil {
		return "", false
	}
	return source.KeyAuthorization(token)
}
