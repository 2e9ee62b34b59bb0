package certs

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Authorities are the certificates of the authorities that issue client certificates. It reads the file every 5 s, and
// uses new contents when they are the same 2 s later. It keeps the previous certificates if the file is not usable.
type Authorities struct {
	log *slog.Logger

	mu    sync.Mutex // guards files, except files.current
	files files[x509.CertPool]

	cancel  context.CancelFunc
	running sync.WaitGroup
}

// OpenAuthorities loads the PEM file and watches it until Close.
func OpenAuthorities(file string, log *slog.Logger) (*Authorities, error) {
	ctx, cancel := context.WithCancel(context.Background())
	a := &Authorities{log: loggerOrNone(log), cancel: cancel}
	a.files.parse = func(contents [][]byte) (*x509.CertPool, error) {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(contents[0]) {
			return nil, fmt.Errorf("%s has no certificate in PEM form", a.files.paths[0])
		}
		return pool, nil
	}
	a.files.paths = []string{file}
	if _, err := a.files.load(); err != nil {
		cancel()
		return nil, err
	}
	a.running.Go(func() { watch(ctx, a.check) })
	return a, nil
}

// Reload reads the file at once, as [Pair.Reload].
func (a *Authorities) Reload() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	changed, err := a.files.load()
	if err != nil {
		return err
	}
	a.checked(changed, nil)
	return nil
}

func (a *Authorities) check() (wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.checked(a.files.check())
	return a.files.wait()
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
