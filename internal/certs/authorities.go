package certs

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"sync"
)

// Authorities are the certificates of the authorities that issue client certificates. It reads the file every 5 s, and
// keeps the previous certificates if the file is not usable.
type Authorities struct {
	files   files[x509.CertPool]
	log     *slog.Logger
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// OpenAuthorities loads the PEM file and watches it until Close.
func OpenAuthorities(file string, log *slog.Logger) (*Authorities, error) {
	ctx, cancel := context.WithCancel(context.Background())
	a := &Authorities{log: loggerOrNone(log), cancel: cancel}
	a.files = files[x509.CertPool]{paths: []string{file}, parse: func(contents [][]byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(contents[0]) {
			return nil, fmt.Errorf("%s has no certificate in PEM form", file)
		}
		return pool, nil
	}}
	if err := a.files.load(); err != nil {
		cancel()
		return nil, err
	}
	a.running.Go(func() { a.files.watch(ctx, a.checked) })
	return a, nil
}

// Close stops the watcher. Pool continues to return the last certificates.
func (a *Authorities) Close() {
	a.cancel()
	a.running.Wait()
}

// Pool returns the certificates, for the field ClientCAs of a tls.Config.
func (a *Authorities) Pool() *x509.CertPool { return a.files.current.Load() }

func (a *Authorities) checked(changed bool, err error) {
	switch {
	case changed:
		a.log.Info("authorities of client certificates loaded", "file", a.files.paths[0])
	case err != nil:
		a.log.Error("could not load the new authorities of client certificates; the previous ones stay in use", "error", err)
	}
}
