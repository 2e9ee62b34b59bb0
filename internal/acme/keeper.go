package acme

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"time"

	"github.com/mholt/acmez/v3/acme"
)

// run visits each domain when it is due, until ctx ends.
func (s *Source) run(ctx context.Context) {
	defer close(s.done)
	s.challenges.spread = s.times.spread
	for ctx.Err() == nil {
		next := time.Now().Add(s.times.most)
		for _, d := range s.domains {
			if ctx.Err() == nil && !time.Now().Before(d.due) {
				d.due = s.visit(ctx, d)
			}
			if d.due.Before(next) {
				next = d.due
			}
		}
		_ = sleep(ctx, time.Until(next)) // the loop ends with ctx
	}
}

// sleep returns after d, or with the error of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// visit renews the certificate of a domain if its time has come, and returns the time of the next visit.
func (s *Source) visit(ctx context.Context, d *domain) time.Time {
	if err := errors.Join(s.save(ctx, d), s.load(ctx, d)); err != nil {
		return s.storageFailed(ctx, d, err)
	}
	if at := s.renewal(ctx, d); time.Now().Before(at) {
		return at
	}
	unlock, locked, err := s.config.Storage.TryLock(ctx)
	if err != nil {
		return s.storageFailed(ctx, d, err)
	}
	if !locked { // another replica orders
		return time.Now().Add(s.times.locked)
	}
	defer unlock()
	before := d.certificate.Load()
	if err := s.load(ctx, d); err != nil {
		return s.storageFailed(ctx, d, err)
	}
	if d.certificate.Load() != before { // another replica has ordered it
		return time.Now()
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

// storageFailed logs an error of the storage and returns the time of the next visit.
func (s *Source) storageFailed(ctx context.Context, d *domain, err error) time.Time {
	if ctx.Err() == nil {
		s.log.Warn("could not use the ACME storage; trying again", "domain", d.name, "error", err)
	}
	return time.Now().Add(s.times.storage)
}

// renewal returns the time of the next renewal or check of a certificate, at the latest in times.most; the zero time
// without a certificate of the directory.
func (s *Source) renewal(ctx context.Context, d *domain) time.Time {
	certificate := d.certificate.Load()
	if certificate == nil || d.foreign {
		return time.Time{}
	}
	at := defaultRenewal(certificate.Leaf)
	if time.Now().Before(at) {
		s.readWindow(ctx, d, certificate)
		if !d.renewAt.IsZero() && d.renewAt.Before(at) {
			at = d.renewAt
		}
	}
	if earliest := earliestRenewal(certificate.Leaf); at.Before(earliest) {
		at = earliest
	}
	if check := time.Now().Add(s.times.most); at.After(check) {
		return check
	}
	return at
}

// readWindow asks the CA for its renewal window (RFC 9773), by which a CA announces that it will revoke a certificate.
// Without a response, the time of the renewal stays as it is.
func (s *Source) readWindow(ctx context.Context, d *domain, certificate *tls.Certificate) {
	const shortest, longest = time.Minute, 24 * time.Hour // RFC 9773 section 4.3.2
	if time.Now().Before(d.checkAt) {
		return
	}
	most := lifetime(certificate.Leaf) / 3
	d.checkAt = time.Now().Add(min(s.times.window, most))
	ctx, cancel := context.WithTimeout(ctx, requestTimeMax)
	defer cancel()
	window, err := s.client.GetRenewalInfo(ctx, certificate.Leaf)
	if err != nil {
		s.log.Debug("could not read the renewal window of a certificate", "domain", d.name, "error", shortened(err))
		return
	}
	d.renewAt = window.SelectedTime
	if window.RetryAfter != nil {
		wait := max(shortest, min(time.Until(*window.RetryAfter), longest))
		d.checkAt = time.Now().Add(min(wait, most))
	}
}

// obtain orders a certificate unless an earlier failure forbids it for now. Its caller has the lock of the orders. It
// returns the time of the next visit.
func (s *Source) obtain(ctx context.Context, d *domain) time.Time {
	past, err := s.failures(ctx, d)
	if err != nil {
		return s.storageFailed(ctx, d, err)
	}
	if wait := past.NotBefore; time.Now().Before(wait) && time.Until(wait) < waitMax {
		s.log.Warn("the order of a certificate waits after earlier failures", "domain", d.name,
			"failures", past.Failures, "next", wait.UTC().Format(time.RFC3339))
		return wait
	}
	s.transport.retryAt = time.Time{}
	certificate, err := s.order(ctx, d, past.Failures+d.unreachable > 0)
	if ctx.Err() != nil {
		return time.Now() // the goroutine ends
	}
	if err != nil {
		return s.failed(ctx, d, past, err)
	}
	d.unreachable = 0
	s.metrics.issued.Inc()
	s.log.Info("certificate issued", "domain", d.name, "serial", fmt.Sprintf("%x", certificate.Leaf.SerialNumber),
		"expires", certificate.Leaf.NotAfter.UTC().Format(time.RFC3339))
	if err := errors.Join(s.save(ctx, d), s.config.Storage.Delete(ctx, d.failuresKey())); err != nil {
		return s.storageFailed(ctx, d, err)
	}
	return s.renewal(ctx, d)
}

// waitMax is longer than every pause that a failure causes. A stored pause that is longer is from a time when the clock
// was wrong.
const waitMax = retryMax + time.Hour

// failures are the refused orders in a row, stored so that neither a restart nor another replica orders too early.
type failures struct {
	Failures  int       `json:"failures"`
	NotBefore time.Time `json:"not_before"` // of the next order
}

func (s *Source) failures(ctx context.Context, d *domain) (past failures, err error) {
	text, err := s.config.Storage.Load(ctx, d.failuresKey())
	if errors.Is(err, fs.ErrNotExist) {
		return past, nil
	}
	if err == nil {
		_ = json.Unmarshal(text, &past) // the next failure replaces a damaged text
	}
	return past, err
}

// failed logs a failed order and returns the time of the next one. A refusal of the CA counts against its rate limits,
// so it is stored; a CA that does not respond may respond to the next start.
func (s *Source) failed(ctx context.Context, d *domain, past failures, err error) time.Time {
	s.metrics.failed.Inc()
	var problem acme.Problem
	refused := errors.As(err, &problem)
	var next time.Time
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
	if !refused {
		return next
	}
	past.NotBefore = next
	text, err := json.Marshal(past)
	if err == nil {
		err = s.config.Storage.Save(ctx, d.failuresKey(), text)
	}
	if err != nil {
		s.storageFailed(ctx, d, err)
	}
	return next
}

// backoff returns first, doubled with each failure up to most, plus up to a tenth, so that replicas and servers that
// failed together do not retry together.
func backoff(first time.Duration, failures int, most time.Duration) time.Duration {
	d := first
	for ; failures > 1 && d < most; failures-- {
		d *= 2
	}
	d = min(d, most)
	return d + rand.N(d/10+1) //nolint:gosec // not a secret
}

// shortened returns the text of an error, which may contain a whole response of the CA.
func shortened(err error) string {
	const bytesMax = 500
	text := err.Error()
	if len(text) > bytesMax {
		text = text[:bytesMax] + "…"
	}
	return text
}
