package oidc

import (
	"context"
	"log/slog"
	"time"
)

// Times of the fetches of the keys.
const (
	refreshEvery  = 10 * time.Minute // so that a withdrawn key is refused
	retryFirst    = time.Second      // while the server has no keys; doubled after each failure
	retryMax      = time.Minute
	unknownEvery  = time.Minute     // between two fetches for unknown keys
	requestWaits  = 5 * time.Second // a request for fetches
	failuresFirst = 1
)

// run fetches the keys at the start, periodically, and when a token has an unknown key. It
// ends with ctx.
func (v *Verifier) run(ctx context.Context) {
	defer close(v.done)
	failures := 0
	for {
		v.begin()
		err := v.refresh(ctx)
		v.end()
		if ctx.Err() != nil {
			return
		}
		wait := refreshEvery
		if err == nil {
			failures = 0
		} else {
			failures++
			v.failures.Inc()
			wait = v.retryAfter(failures)
			v.logFailure(err, failures)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		case <-v.wake:
		}
	}
}

// begin marks a fetch as running. A request for a fetch that is not started yet is part of it.
func (v *Verifier) begin() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.fetching == nil {
		v.fetching = make(chan struct{})
	}
	select {
	case <-v.wake:
	default:
	}
}

func (v *Verifier) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.fetching)
	v.fetching = nil
}

// retryAfter returns the pause after a number of failures.
func (v *Verifier) retryAfter(failures int) time.Duration {
	if v.set.Load() != nil {
		return retryMax
	}
	return min(retryMax, retryFirst<<min(failures-1, 10))
}

// logFailure logs the first failure of several as a warning.
func (v *Verifier) logFailure(err error, failures int) {
	level := slog.LevelWarn
	if failures > failuresFirst {
		level = slog.LevelDebug
	}
	v.log.Log(context.Background(), level, "could not fetch the keys of the issuer",
		"issuer", v.config.Issuer, "error", err)
}

// refresh fetches the keys. After an error the previous keys stay in use.
func (v *Verifier) refresh(ctx context.Context) error {
	f, err := v.fetch(ctx)
	if err != nil {
		return err
	}
	v.fetchedAt.Store(time.Now().UnixNano())
	v.metadata.Store(&f.metadata)
	if f.keys.equal(v.set.Load()) {
		return nil // the verified tokens stay in the cache
	}
	v.set.Store(f.keys)
	v.log.Info("fetched new keys of the issuer", "issuer", v.config.Issuer,
		"keys", len(f.keys.keys), "unusable", f.unusable)
	return nil
}

// await waits until a fetch has ended, at most until that time or Close. It does not wait for nil.
func (v *Verifier) await(ctx context.Context, fetched <-chan struct{}, until time.Time) {
	if fetched == nil {
		return
	}
	select {
	case <-fetched:
	case <-v.ended:
	case <-ctx.Done():
	case <-time.After(time.Until(until)):
	}
}

// closed reports whether Close was called.
func (v *Verifier) closed() bool {
	select {
	case <-v.ended:
		return true
	default:
		return false
	}
}

// requestFetch returns a channel that is closed at the end of the running fetch, or of one that it
// requests because a key is unknown. It returns nil if no fetch runs and it may not request one.
func (v *Verifier) requestFetch(unknownKey bool) <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.fetching != nil || !unknownKey {
		return v.fetching
	}
	if !v.requestedAt.IsZero() && time.Since(v.requestedAt) < unknownEvery {
		return nil
	}
	v.requestedAt = time.Now()
	v.fetching = make(chan struct{})
	v.wake <- struct{}{} // it is empty: begin receives from it before it marks a fetch
	return v.fetching
}
