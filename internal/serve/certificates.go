package serve

import (
	"crypto/tls"
	"errors"
	"slices"

	"plantstore/internal/acme"
	"plantstore/internal/certs"
	"plantstore/internal/config"
	"plantstore/internal/listen"
)

type certificates struct {
	tls   listen.TLSConfig       // without GetCertificate: the listeners have no TLS
	isFor func(host string) bool // a certificate is valid for the host
	files []watchedFiles
	pair  *certs.Pair // of files; nil: none
}

// watchedFiles are the files of a setting, a *certs.Pair or *certs.Authorities. Their methods have the contracts.
type watchedFiles struct {
	setting string
	files   interface {
		Check()
		Reload() error
	}
}

// openCertificates loads the certificates of files. The source of the certificates by ACME opens after the listeners,
// because its storage is in the store, and before they accept connections.
func (v *instance) openCertificates() (c certificates, err error) {
	s := v.Settings
	switch t := &s.TLS; {
	case s.HasACME():
		c.tls.NextProtos = []string{acme.Protocol}
		c.tls.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return v.acme.GetCertificate(hello)
		}
		c.isFor = func(host string) bool { return slices.Contains(s.ACME.Domains, host) }
	case t.Cert != "":
		pair, err := certs.OpenPair(t.Cert, t.Key, v.log, v.metrics)
		if err != nil {
			return c, s.Fault("tls-cert", "%w", err)
		}
		c.tls.GetCertificate, c.isFor = pair.GetCertificate, pair.IsFor
		c.pair, c.files = pair, append(c.files, watchedFiles{"tls-cert", pair})
	}
	if s.TLS.ClientCA != "" {
		authorities, err := certs.OpenAuthorities(s.TLS.ClientCA, v.log)
		if err != nil {
			return c, s.Fault("client-ca", "%w", err)
		}
		c.tls.ClientCAs = authorities.Pool
		c.files = append(c.files, watchedFiles{"client-ca", authorities})
	}
	return c, nil
}

// check reads the files again, every certs.CheckEvery.
func (c certificates) check() {
	for _, f := range c.files {
		f.files.Check()
	}
}

// reload reads the files at once. After an error the previous certificates of that file stay.
func (c certificates) reload(s *config.Settings) (faults error) {
	for _, f := range c.files {
		if err := f.files.Reload(); err != nil {
			faults = errors.Join(faults, s.Fault(f.setting, "%w", err))
		}
	}
	return faults
}
