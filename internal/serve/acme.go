package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/acme"
	"plantstore/internal/config"
	"plantstore/internal/listen"
	"plantstore/internal/postgres"
)

// withDomain returns a guessed URL of the public listener with the first domain of ACME, which its certificate has.
func withDomain(u *url.URL, a *config.ACME) *url.URL {
	if a.Enabled() {
		u.Host = strings.TrimSuffix(net.JoinHostPort(a.Domains[0], u.Port()), ":443")
	}
	return u
}

// acmeClient has the certificates of a Source. The Source opens after the listeners, because its storage is in the
// store, and before they accept connections.
type acmeClient struct {
	source   *acme.Source
	listener *listen.Listener // of http-01; nil: tls-alpn-01
	roots    *x509.CertPool   // of --acme-ca; nil: the system's
}

// prepare reads the file of --acme-ca, and opens the listener of http-01 if there is one.
func (a *acmeClient) prepare(
	ctx context.Context, s *config.Settings, log *slog.Logger, metrics prometheus.Registerer,
) (err error) {
	const challengesMax, perAddressMax = 256, 64 // connections
	if a.roots, err = s.ACME.Roots(s); err != nil || s.ACME.HTTPListen == "" {
		return err
	}
	a.listener, err = listen.Listen(ctx, listen.Config{
		Name: "challenge", Address: s.ACME.HTTPListen,
		Limits: listen.Limits{
			Connections: challengesMax, PerAddress: perAddressMax, Proxies: s.Proxies.Prefixes(),
		},
		Log: log, Metrics: metrics,
	})
	if err != nil {
		return fmt.Errorf("%w; use another address with --acme-http-listen", err)
	}
	return nil
}

// openACME opens the storage of the certificates by ACME, if the settings ask for them, and reads the stored ones.
func (v *instance) openACME(ctx context.Context) (err error) {
	a, s := v.servers.certificates.acme, v.Settings
	if a == nil {
		return nil
	}
	config := acme.Config{
		Domains: s.ACME.Domains, Email: s.ACME.Email, Directory: s.ACME.Directory,
		Roots: a.roots, HTTP01: s.ACME.HTTPListen != "", Log: v.log, Metrics: v.metrics,
	}
	if database, ok := v.engine.(*postgres.Engine); ok {
		config.Storage = database.ACME()
	} else if config.Storage, err = acme.NewFileStorage(s.DB.Path + "-acme"); err != nil {
		return fmt.Errorf("open the directory of certificates: %w", err)
	}
	a.source = acme.New(ctx, config)
	v.onStart(a.source.Start) // the listeners accept the challenges
	v.onRetire(a.source.Stop) // handshakes continue to receive the certificates
	v.onClose(a.source.Close)
	return nil
}

// close closes the listener of http-01.
func (a *acmeClient) close() {
	if a.listener != nil {
		_ = a.listener.Close()
	}
}

// getCertificate is acme.Source.GetCertificate.
func (a *acmeClient) getCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return a.source.GetCertificate(hello)
}

// keyAuthorization is acme.Source.KeyAuthorization.
func (a *acmeClient) keyAuthorization(token string) (string, bool) {
	return a.source.KeyAuthorization(token)
}
