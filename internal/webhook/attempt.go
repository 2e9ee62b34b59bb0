package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"

	"plantstore/internal/store"
)

// Limits of a response. Its body means nothing; it is read so that the connection can be reused.
const (
	headerBytesMax = 16 << 10
	bodyBytesMax   = 16 << 10
)

// newClient returns the client of the deliveries. It follows no redirect, because the target could be another address,
// and uses no proxy of the environment, because the address of the receiver could not be checked.
func newClient(c *Config) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            newDialer(c.AllowPrivate),
			TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
			TLSHandshakeTimeout:    c.Timeout,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true,
			MaxIdleConnsPerHost:    c.Concurrency,
			IdleConnTimeout:        time.Minute,
			MaxResponseHeaderBytes: headerBytesMax,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

type result struct {
	receiver *receiver
	delivery store.Delivery
	outcome  outcome
	failure  *failure // nil unless the outcome is failed
	took     time.Duration
}

type outcome int

const (
	delivered outcome = iota
	failed
	unsent      // the request was not sent; another attempt may follow at once
	interrupted // Close ended the attempt; the receiver may still handle the request
)

// failure describes an attempt that failed.
type failure struct {
	reason     string
	retryAfter time.Duration // that the receiver demands
	gone       bool          // the receiver answered 410
}

// attempt waits for a free slot and sends the request. The deadline is the end of the claim: a later request could run
// at the same time as another server's.
func (s *Sender) attempt(r *receiver, d store.Delivery, deadline time.Time) result {
	result := result{receiver: r, delivery: d, outcome: unsent}
	select {
	case r.slots <- struct{}{}:
	case <-s.retired.Done():
		return result
	}
	defer func() { <-r.slots }()
	start := time.Now()
	if deadline.Sub(start) < s.config.Timeout {
		return result
	}
	failure := s.send(r, d, start)
	result.took = time.Since(start)
	switch {
	case failure == nil:
		result.outcome = delivered
	case s.sending.Err() != nil:
		result.outcome = interrupted
	default:
		result.outcome, result.failure = failed, failure
	}
	return result
}

// send sends one request. It returns nil for a response with 2xx.
func (s *Sender) send(r *receiver, d store.Delivery, now time.Time) *failure {
	ctx, cancel := context.WithTimeout(s.sending, s.config.Timeout)
	defer cancel()
	id, body := event(d)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.webhook.URL, bytes.NewReader(body))
	if err != nil {
		return &failure{reason: s.reasonOf(err)}
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", s.config.UserAgent)
	request.Header.Set("Webhook-Id", id)
	request.Header.Set("Webhook-Timestamp", strconv.FormatInt(now.Unix(), 10))
	request.Header.Set("Webhook-Signature", sign(s.config.Secrets, id, now, body))
	response, err := s.client.Do(request)
	if err != nil {
		return &failure{reason: s.reasonOf(err)}
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, bodyBytesMax)) // the status is known
	if response.StatusCode/100 == 2 {
		return nil
	}
	return &failure{
		reason:     "status " + strconv.Itoa(response.StatusCode),
		retryAfter: retryAfter(response, now),
		gone:       response.StatusCode == http.StatusGone,
	}
}

// reasonOf returns a short text without the URL, which may have a secret in its query.
func (s *Sender) reasonOf(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no response within %s", s.config.Timeout)
	}
	if outer := new(url.Error); errors.As(err, &outer) {
		err = outer.Err
	}
	const bytesMax = 200
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, err.Error())
	return strings.ToValidUTF8(text[:min(len(text), bytesMax)], "")
}

// retryAfterMax bounds the wait that a receiver can demand.
const retryAfterMax = time.Hour

// retryAfter returns the wait of the header Retry-After (RFC 9110 section 10.2.3), 0 without one.
func retryAfter(response *http.Response, now time.Time) time.Duration {
	text := response.Header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return min(retryAfterMax, time.Duration(seconds)*time.Second)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(retryAfterMax, max(0, at.Sub(now)))
}

// The wait after a failure grows by the factor waitFactor, with full jitter.
const (
	waitFirst  = 5 * time.Second
	waitFactor = 4
	waitMost   = 6 * time.Hour
	waitLeast  = time.Second
)

// waitMax returns the longest wait after a number of failures.
func waitMax(failures int) time.Duration {
	wait := waitFirst
	for range failures - 1 {
		if wait *= waitFactor; wait >= waitMost {
			return waitMost
		}
	}
	return wait
}

// waitAfter returns a random wait after a number of failures.
func waitAfter(failures int) time.Duration {
	return max(waitLeast, rand.N(waitMax(failures))) //nolint:gosec // not a secret
}
