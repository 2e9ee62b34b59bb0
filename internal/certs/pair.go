// Package certs loads the certificates of the TLS listeners from files, and loads them again when the files change.
package certs

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Pair is a certificate with its private key. New contents of its files replace it if they are usable: new handshakes
// use the new pair, and open connections continue.
type Pair struct {
	files[tls.Certificate]

	log               *slog.Logger
	reloads, failures atomic.Int64

	warnedAt time.Time // when the expiry was last logged
	expired  bool      // the last line was about an expired certificate
}

// OpenPair loads the pair from PEM files: the certificate, followed by the intermediate
// certificates, and its private key. An expired certificate is not an error then, only a line in the log: a server with
// an expired certificate is easier to repair than one that does not run.
func OpenPair(cert, key string, log *slog.Logger, metrics prometheus.Registerer) (*Pair, error) {
	p := &Pair{log: log}
	p.files.paths, p.files.parse, p.files.checked = []string{cert, key}, p.parsePair, p.report
	if _, err := p.load(); err != nil {
		return nil, err
	}
	p.measure(metrics)
	p.loaded()
	p.warn()
	return p, nil
}

// GetCertificate is the function of a tls.Config. It returns the last usable pair for every name.
func (p *Pair) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return p.current.Load(), nil
}

// IsFor reports whether the certificate is valid for a host name or an IP address, as clients verify it.
func (p *Pair) IsFor(host string) bool { return p.current.Load().Leaf.VerifyHostname(host) == nil }

// parsePair returns the pair. It rejects an expired certificate, or one that is not valid yet, if there is a previous
// one.
func (p *Pair) parsePair(contents [][]byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, fmt.Errorf("%s and %s: %w", p.paths[0], p.paths[1], cmp.Or(p.fault(contents), err))
	}
	if p.current.Load() == nil {
		return &pair, nil
	}
	switch now := time.Now(); {
	case now.After(pair.Leaf.NotAfter):
		return nil, fmt.Errorf("%s: the certificate expired at %s", p.paths[0], stamp(pair.Leaf.NotAfter))
	case now.Before(pair.Leaf.NotBefore):
		return nil, fmt.Errorf("%s: the certificate is not valid before %s", p.paths[0], stamp(pair.Leaf.NotBefore))
	}
	return &pair, nil
}

// fault returns the reason why a pair is not usable, if it is a common one.
func (p *Pair) fault(contents [][]byte) error {
	if bytes.Contains(contents[1], []byte("ENCRYPTED")) { // PRIVATE KEY (RFC 5958), or Proc-Type: 4,ENCRYPTED (RFC 1421)
		return fmt.Errorf("the key is encrypted, and the program does not ask for its password; "+
			"decrypt it with openssl pkey -in %s -out FILE", p.paths[1])
	}
	block, rest := pem.Decode(contents[0])
	for n := 2; block != nil; n++ {
		if _, err := tls.X509KeyPair(rest, contents[1]); err == nil {
			return fmt.Errorf("the certificate of the key is number %d in the file; "+
				"write it first, then the certificate of its issuer", n)
		}
		block, rest = pem.Decode(rest)
	}
	return nil // another reason
}

// lacksIssuer reports whether clients need the certificate of the issuer, and it does not follow the leaf. Clients of a
// private authority may have the issuer's. A public authority, which logs its certificates (RFC 6962 section 3.3),
// issues them with an intermediate one.
func lacksIssuer(pair *tls.Certificate) bool {
	timestamps := asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11129, 2, 4, 2}
	isLogged := func(e pkix.Extension) bool { return e.Id.Equal(timestamps) }
	switch leaf := pair.Leaf; {
	case bytes.Equal(leaf.RawIssuer, leaf.RawSubject):
		return false
	case len(pair.Certificate) == 1:
		return slices.ContainsFunc(leaf.Extensions, isLogged)
	default:
		next, err := x509.ParseCertificate(pair.Certificate[1])
		return err != nil || !bytes.Equal(leaf.RawIssuer, next.RawSubject)
	}
}

// report logs the result of a check.
func (p *Pair) report(changed bool, err error) {
	switch {
	case changed:
		p.warnedAt, p.expired = time.Time{}, false
		p.reloads.Add(1)
		p.loaded()
	case err != nil:
		p.failures.Add(1)
		p.log.Error("could not load the new TLS certificate; the previous one stays in use", "error", err)
	}
	p.warn()
}

// loaded logs a new pair.
func (p *Pair) loaded() {
	leaf := p.current.Load().Leaf
	p.log.Info("TLS certificate loaded", "file", p.paths[0], "names", namesOf(leaf), "expires", stamp(leaf.NotAfter))
	if lacksIssuer(p.current.Load()) {
		p.log.Warn("the certificate of the issuer does not follow the TLS certificate, and clients may refuse it: "+
			"insert it in the file", "file", p.paths[0], "issuer", leaf.Issuer.String())
	}
	// Group members may read the key: distributions have a group for this (ssl-cert).
	if info, err := os.Stat(p.paths[1]); err == nil && info.Mode().Perm()&0o007 != 0 {
		p.log.Warn("other users have access to the private key: run chmod o= on the file",
			"file", p.paths[1], "mode", info.Mode().Perm().String())
	}
}

const warnEvery = 24 * time.Hour

// warn logs that the certificate expires soon or has expired, at most once a day.
func (p *Pair) warn() {
	leaf, now := p.current.Load().Leaf, time.Now()
	expired := now.After(leaf.NotAfter)
	if now.Before(leaf.NotAfter.Add(-warnBefore(leaf))) || expired == p.expired && now.Sub(p.warnedAt) < warnEvery {
		return
	}
	p.warnedAt, p.expired = now, expired
	if expired {
		p.log.Error("the TLS certificate has expired; clients refuse it: replace the files",
			"file", p.paths[0], "expires", stamp(leaf.NotAfter))
		return
	}
	p.log.Warn("the TLS certificate expires soon: replace the files",
		"file", p.paths[0], "expires", stamp(leaf.NotAfter))
}

// warnBefore returns the time from the first warning to the expiry: 14 days, or a fifth of the validity of a
// short-lived certificate.
func warnBefore(leaf *x509.Certificate) time.Duration {
	const most = 14 * 24 * time.Hour
	return min(most, leaf.NotAfter.Sub(leaf.NotBefore)/5)
}

// namesOf returns the names and addresses of a certificate.
func namesOf(leaf *x509.Certificate) string {
	names := slices.Clone(leaf.DNSNames)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return strings.Join(names, " ")
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// Validity returns when the validity of the certificate in use starts and ends.
func (p *Pair) Validity() (begin, end time.Time) {
	leaf := p.current.Load().Leaf
	return leaf.NotBefore, leaf.NotAfter
}

// Reloads returns how many changes of the files were loaded and how many were refused.
func (p *Pair) Reloads() (loaded, refused int64) { return p.reloads.Load(), p.failures.Load() }

// measure registers the metrics, unless the registerer is nil.
func (p *Pair) measure(registerer prometheus.Registerer) {
	to := promauto.With(registerer)
	for result, n := range map[string]*atomic.Int64{"loaded": &p.reloads, "refused": &p.failures} {
		to.NewCounterFunc(prometheus.CounterOpts{
			Name:        "plantstore_tls_certificate_reloads_total",
			Help:        "Changes of the files of the TLS certificate, by result: loaded or refused.",
			ConstLabels: prometheus.Labels{"result": result},
		}, func() float64 { return float64(n.Load()) })
	}
	to.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_tls_certificate_not_before_timestamp_seconds",
		Help: "Time from which on the TLS certificate in use is valid.",
	}, func() float64 { begin, _ := p.Validity(); return float64(begin.Unix()) })
	to.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_tls_certificate_expiry_timestamp_seconds",
		Help: "Time at which the TLS certificate in use expires.",
	}, func() float64 { _, end := p.Validity(); return float64(end.Unix()) })
}
