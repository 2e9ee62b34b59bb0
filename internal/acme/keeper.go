package acme

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mholt/acmez/v3/acme"
)

// times are the intervals of the goroutine. Tests shorten them.
type times struct {
	look                       time.Duration // between two looks at the domains, one of which may be due
	unreachable, refused, most time.Duration // first pauses after failures, and the longest; a failed storage: unreachable
	window                     time.Duration // between two requests for the renewal window, unless the CA says otherwise
}

// Let's Encrypt allows five failed validations of a domain an hour: refused doubles from 5 minutes, so there are at
// most four (https://letsencrypt.org/docs/rate-limits/).
var defaultTimes = times{
	look:        2 * time.Second,
	unreachable: 30 * time.Second, refused: 5 * time.Minute, most: time.Hour,
	window: 6 * time.Hour,
}

// run visits each domain when it is due, until ctx ends.
func (s *Source) run(ctx context.Context) {
	for {
		for _, d := range s.domains {
			if ctx.Err() == nil && !time.Now().Before(d.due) {
				d.due = s.visit(ctx, d)
			}
		}
		if sleep(ctx, s.times.look) != nil {
			return
		}
	}
}

// sleep returns after d, or with the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// visit is keep, logs an error of the storage, and then returns a time of the next visit that is not too early.
func (s *Source) visit(ctx context.Context, d *domain) time.Time {
	next, err := s.keep(ctx, d)
	if err == nil || ctx.Err() != nil {
		return next
	}
	s.log.Warn("could not use the ACME storage; trying again", "domain", d.name, "error", err)
	if earliest := time.Now().Add(s.times.unreachable); next.Before(earliest) {
		return earliest
	}
	return next
}

// keep renews the certificate of a domain if its time has come. It returns the time of the next visit, and an error of
// the storage.
func (s *Source) keep(ctx context.Context, d *domain) (next time.Time, err error) {
	if err := errors.Join(s.save(ctx, d), s.load(ctx, d)); err != nil {
		return time.Time{}, err
	}
	if at := s.renewal(ctx, d); time.Now().Before(at) {
		return at, nil
	}
	unlock, locked, err := s.config.Storage.TryLock(ctx)
	if err != nil || !locked { // another replica orders
		return time.Time{}, err
	}
	defer unlock()
	before := d.certificate.Load()
	if err := s.load(ctx, d); err != nil || d.certificate.Load() != before { // another replica has ordered it
		return time.Time{}, err
	}
	return s.obtain(ctx, d)
}

// save stores the certificate of an order.
func (s *Source) save(ctx context.Context, d *domain) error {
	if d.unsaved == nil {
		return nil
	}
	if err := s.config.Storage.Save(ctx, d.certificateKey(), d.unsaved); err != nil {
		return fmt.Errorf("store %s: %w", d.certificateKey(), err)
	}
	d.unsaved = nil
	return nil
}

// renewal returns the time of the next renewal or check of a certificate, at the latest in times.most; the zero time
// without a certificate of the directory.
func (s *Source) renewal(ctx context.Context, d *domain) time.Time {
	certificate := d.certificate.Load()
	if certificate == nil || d.foreign {
		return time.Time{}
	}
	leaf := certificate.Leaf
	third := leaf.NotAfter.Sub(leaf.NotBefore) / 3
	at := leaf.NotAfter.Add(-third)
	if time.Now().Before(at) {
		s.readWindow(ctx, d, leaf, third)
		if !d.renewAt.IsZero() && d.renewAt.Before(at) {
			at = d.renewAt
		}
	}
	// This bounds the orders that the clock or the response of a CA can cause.
	if earliest := leaf.NotBefore.Add(min(2*time.Hour, third)); at.Before(earliest) {
		at = earliest
	}
	if check := time.Now().Add(s.times.most); at.After(check) {
		return check
	}
	return at
}

// readWindow asks the CA for its renewal window (RFC 9773), by which a CA announces that it will revoke a certificate,
// once in times.window and in the time most. Without a response, the time of the renewal stays as it is.
func (s *Source) readWindow(ctx context.Context, d *domain, leaf *x509.Certificate, most time.Duration) {
	const shortest, longest = time.Minute, 24 * time.Hour // RFC 9773 section 4.3.2
	if time.Now().Before(d.checkAt) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeMax)
	defer cancel()
	wait := s.times.window
	window, err := s.client.GetRenewalInfo(ctx, leaf)
	if err != nil {
		s.log.Debug("could not read the renewal window of a certificate", "domain", d.name, "error", shortened(err))
	} else {
		d.renewAt = window.SelectedTime
	}
	if window.RetryAfter != nil {
		wait = max(shortest, min(time.Until(*window.RetryAfter), longest))
	}
	d.checkAt = time.Now().Add(min(wait, most))
}

// failures are the refused orders in a row, stored so that neither a restart nor another replica orders too early.
type failures struct {
	Failures  int       `json:"failures"`
	NotBefore time.Time `json:"not_before"` // earliest time of the next order
}

// obtain orders a certificate unless an earlier failure forbids it for now. Its caller has the lock of the orders. It
// returns the time of the next visit, and an error of the storage.
func (s *Source) obtain(ctx context.Context, d *domain) (next time.Time, err error) {
	text, err := s.config.Storage.Load(ctx, d.failuresKey())
	if err != nil {
		return time.Time{}, err
	}
	var past failures
	_ = json.Unmarshal(text, &past) // nil: no failures; the next failure replaces a damaged text
	// A longer pause than a failure causes is from a time when the clock was wrong.
	if wait := time.Until(past.NotBefore); wait > 0 && wait < retryMax+time.Hour {
		s.log.Warn("the order of a certificate waits after earlier failures", "domain", d.name,
			"failures", past.Failures, "next", past.NotBefore.UTC().Format(time.RFC3339))
		return past.NotBefore, nil
	}
	s.transport.retryAt = time.Time{}
	leaf, err := s.order(ctx, d, past.Failures+d.unreachable > 0)
	if err != nil && ctx.Err() != nil {
		return time.Time{}, ctx.Err() // the goroutine ends
	}
	if err != nil {
		return s.failed(ctx, d, past, err)
	}
	d.unreachable = 0
	s.metrics.issued.Add(1)
	s.log.Info("certificate issued", "domain", d.name, "serial", fmt.Sprintf("%x", leaf.SerialNumber),
		"expires", leaf.NotAfter.UTC().Format(time.RFC3339))
	if err := errors.Join(s.save(ctx, d), s.config.Storage.Delete(ctx, d.failuresKey())); err != nil {
		return time.Time{}, err
	}
	return s.renewal(ctx, d), nil
}

// failed logs a failed order and returns the time of the next one. A refusal of the CA counts against its rate limits,
// so it is stored; a CA that does not respond may respond to the next start.
func (s *Source) failed(ctx context.Context, d *domain, past failures, err error) (next time.Time, storage error) {
	s.metrics.failed.Add(1)
	var problem acme.Problem
	refused := errors.As(err, &problem)
	if refused {
		past.Failures++
		next = time.Now().Add(backoff(s.times.refused, past.Failures, s.times.most))
	} else {
		d.unreachable++
		next = time.Now().Add(backoff(s.times.unreachable, d.unreachable, s.times.most))
	}
	if s.transport.retryAt.After(next) { // RFC 8555 section 6.6
		next = s.transport.retryAt
	}
	expires := "no certificate"
	if certificate := d.certificate.Load(); certificate != nil {
		expires = certificate.Leaf.NotAfter.UTC().Format(time.RFC3339)
	}
	s.log.Error("certificate order failed; the certificate in use stays", "domain", d.name,
		"expires", expires, "next", next.UTC().Format(time.RFC3339), "error", shortened(err))
	if refused {
		past.NotBefore = next
		storage = saveJSON(ctx, s.config.Storage, d.failuresKey(), past)
	}
	return next, storage
}

// backoff returns first, doubled with each failure up to most, plus up to a tenth, so that replicas and servers that
// failed together do not retry together.
func backoff(first time.Duration, failures int, most time.Duration) time.Duration {
	doublings := max(0, min(failures-1, 16)) // which exceed most
	d := min(first<<doublings, most)
	return d + rand.N(d/10+1) //nolint:gosec // not a secret
}

// shortened returns the text of an error, which may contain a whole response of the CA.
func shortened(err error) string { return fmt.Sprintf("%.500s", err) }
