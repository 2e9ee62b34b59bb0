package oidc

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"reflect"
	"time"
)

// Times of the fetches of the keys.
const (
	refreshEvery = 10 * time.Minute // so that a withdrawn key is refused
	retryFirst   = time.Second      // doubled after each failure
	retryMax     = time.Minute
	unknownEvery = time.Minute     // between two fetches for unknown keys
	requestWaits = 5 * time.Second // a request for fetches
)

// waitingMax bounds the requests that wait for a fetch: anyone can send them, and the issuer may be unreachable.
const waitingMax = 1000

// run fetches the keys periodically after the first fetch, until Close.
func (v *Verifier) run(fetching <-chan struct{}) {
	for {
		v.await(v.ctx, fetching)
		wait := refreshEvery
		if failed := v.failed.Load(); failed > 0 {
			wait = min(retryMax, retryFirst<<min(failed-1, 10))
		}
		select {
		case <-v.ctx.Done():
			return
		case <-time.After(wait):
		}
		v.mu.Lock()
		fetching = v.startFetch()
		v.mu.Unlock()
	}
}

// startFetch starts a fetch, unless one runs, and returns a channel that is closed at its end. After Close it returns
// nil. v.mu is locked.
func (v *Verifier) startFetch() <-chan struct{} {
	if v.fetching == nil && v.ctx.Err() == nil {
		fetching := make(chan struct{})
		v.fetching = fetching
		v.goroutines.Go(func() {
			v.refresh()
			v.mu.Lock()
			defer v.mu.Unlock()
			close(fetching)
			v.fetching = nil
		})
	}
	return v.fetching
}

// requestFetch returns a channel that is closed at the end of the running fetch, or of one that it starts because a key
// is unknown. It returns nil if no fetch runs and it may not start one.
func (v *Verifier) requestFetch(unknownKey bool) <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.fetching == nil && unknownKey && time.Since(v.requestedAt) >= unknownEvery {
		v.requestedAt = time.Now()
		return v.startFetch()
	}
	return v.fetching
}

// await waits until a fetch or ctx ends, or for Close. It does not wait for nil.
func (v *Verifier) await(ctx context.Context, fetching <-chan struct{}) {
	if fetching == nil {
		return
	}
	select {
	case <-fetching:
	case <-v.ctx.Done():
	case <-ctx.Done():
	}
}

// awaitAmong is await for a request. It reports false at once if waitingMax others wait.
func (v *Verifier) awaitAmong(ctx context.Context, fetching <-chan struct{}) bool {
	select {
	case v.waiting <- struct{}{}:
		v.await(ctx, fetching)
		<-v.waiting
		return true
	default:
		return false
	}
}

// refresh fetches the keys. After an error the previous keys stay in use.
func (v *Verifier) refresh() {
	ctx, cancel := context.WithTimeout(v.ctx, fetchTimeMax)
	defer cancel()
	m, set, err := v.fetch(ctx)
	switch {
	case v.ctx.Err() != nil:
		return
	case err != nil:
		v.failures.Add(1)
		v.failed.Add(1)
		level := slog.LevelWarn
		cause := err.Error()
		if connection, ok := errors.AsType[*net.OpError](err); ok {
			cause = connection.Err.Error() // without the ports, which differ
		}
		if cause == v.cause { // one warning for several failures in a row
			level = slog.LevelDebug
		}
		v.cause = cause
		v.config.Log.Log(ctx, level, "could not fetch the keys of the issuer", "issuer", v.config.Issuer, "error", err)
		return
	}
	v.failed.Store(0)
	v.cause = ""
	v.fetchedAt.Store(time.Now().UnixNano())
	v.metadata.Store(m)
	if reflect.DeepEqual(set.keys, v.set.Load().keys) {
		return // the verified tokens stay in the cache
	}
	v.set.Store(set)
	v.config.Log.Info("fetched new keys of the issuer", "issuer", v.config.Issuer,
		"keys", len(set.keys), "unusable", set.unusable)
}
