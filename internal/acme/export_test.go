package acme

import (
	"context"
	"crypto/x509"
	"errors"
	"time"

	"github.com/mholt/acmez/v3/acme"
)

// Hasten makes the goroutine of a Source retry after milliseconds instead of minutes.
func (s *Source) Hasten() {
	s.times.unreachable, s.times.refused, s.times.most = 100*time.Millisecond, 100*time.Millisecond, 400*time.Millisecond
	s.times.look, s.times.window = 50*time.Millisecond, time.Second
}

// ErrNoCertificate is errNoCertificate.
var ErrNoCertificate = errNoCertificate

// Backoff is backoff.
func Backoff(first time.Duration, failures int, most time.Duration) time.Duration {
	return backoff(first, failures, most)
}

// WithRoots returns the configuration with the certificates that verify the CA.
func (c Config) WithRoots(roots *x509.CertPool) Config {
	c.roots = roots
	return c
}

// Present opens the challenge of a domain as an order does, and waits until the CA may validate it.
func (s *Source) Present(ctx context.Context, domain string) error {
	c := acme.Challenge{
		Type: acme.ChallengeTypeTLSALPN01, Token: "abc", KeyAuthorization: "abc.def",
		Identifier: acme.Identifier{Type: "dns", Value: domain},
	}
	return errors.Join(s.challenges.Present(ctx, c), s.challenges.Wait(ctx, c))
}
