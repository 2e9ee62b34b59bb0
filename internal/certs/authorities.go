package certs

import (
	"crypto/x509"
	"fmt"
	"log/slog"
)

// Authorities are the certificates of the authorities that issue client certificates, from a PEM file. New contents of
// the file replace them if they are usable.
type Authorities struct{ files[x509.CertPool] }

// OpenAuthorities loads the PEM file.
func OpenAuthorities(file string, log *slog.Logger) (*Authorities, error) {
	a := &Authorities{files[x509.CertPool]{
		paths: []string{file},
		parse: func(contents [][]byte) (*x509.CertPool, error) {
			pool := x509.NewCertPool()
			if !pool.AppendCertsFromPEM(contents[0]) {
				return nil, fmt.Errorf("%s has no certificate in PEM form", file)
			}
			return pool, nil
		},
		checked: func(changed bool, err error) {
			switch {
			case changed:
				log.Info("authorities of client certificates loaded", "file", file)
			case err != nil:
				log.Error("could not load the new authorities of client certificates; the previous ones stay in use", "error", err)
			}
		},
	}}
	if _, err := a.load(); err != nil {
		return nil, err
	}
	return a, nil
}

// Pool returns the certificates, for the field ClientCAs of a tls.Config.
func (a *Authorities) Pool() *x509.CertPool { return a.current.Load() }
