package serve

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"

	"plantstore/internal/acme"
	"plantstore/internal/config"
	"plantstore/internal/postgres"
)

// withDomain returns a guessed URL of the public listener with the first domain of ACME, which its certificate has.
func withDomain(u *url.URL, s *config.Settings) *url.URL {
	if s.HasACME() {
		u.Host = strings.TrimSuffix(net.JoinHostPort(s.ACME.Domains[0], u.Port()), ":443")
	}
	return u
}

// openACME opens the storage of the certificates by ACME, if the settings ask for them, and reads the stored ones.
func (v *instance) openACME(ctx context.Context) (err error) {
	s := v.Settings
	if !s.HasACME() || v.acme != nil {
		return nil
	}
	c := s.ACME
	c.Log = v.log
	if !v.follow { // a standby that was not the owner has no certificate, which is no fault
		c.Metrics = v.metrics
	}
	if database, ok := v.engine.(*postgres.Engine); ok {
		c.Storage = database.ACME()
	} else if c.Storage, err = acme.NewFileStorage(s.DB.Path + "-acme"); err != nil {
		return fmt.Errorf("open the directory of certificates: %w", err)
	}
	v.acme = acme.New(ctx, c)
	if v.follow { // a standby serves the certificates that it has stored as the owner
		v.onClose(v.acme.Close)
		return nil
	}
	v.onStart(v.acme.Start) // the listeners accept the challenges
	v.onRetire(v.acme.Stop) // handshakes continue to receive the certificates
	v.onClose(v.acme.Close)
	return nil
}
