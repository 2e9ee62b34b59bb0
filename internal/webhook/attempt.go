package webhook

import (
	"math/rand/v2"
	"time"

	"plantstore/internal/store"
)

type result struct {
	receiver *receiver
	delivery store.Delivery
	outcome  outcome
	failure  *Failure // nil unless the outcome is failed
	took     time.Duration
}

type outcome int

const (
	delivered outcome = iota
	failed
	unsent      // the request was not sent; another attempt may follow at once
	interrupted // Close ended the attempt; the receiver may still handle the request
)

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
	failure := s.send(r, d)
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
func (s *Sender) send(r *receiver, d store.Delivery) *Failure {
	id, body := event(d)
	return s.client.Post(s.sending, r.webhook.URL, id, body)
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

// WaitAfter returns a random wait after a number of failures in a row: at most 5 s, 20 s, and so on.
func WaitAfter(failures int) time.Duration {
	return max(waitLeast, rand.N(waitMax(failures))) //nolint:gosec // not a secret
}
