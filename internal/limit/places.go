package limit

import (
	"context"
	"errors"
	"sync"
)

// Places are places for concurrent requests, for which others wait in the order of their arrival. A key may use only a
// few of them, so that requests of other keys find one. Places has an entry only for keys with a request. It is safe
// for concurrent use.
type Places[K comparable] struct {
	all   chan struct{} // semaphore
	ofKey int

	mu   sync.Mutex
	keys map[K]*keyPlaces // guarded by mu
}

type keyPlaces struct {
	own      chan struct{} // semaphore
	requests int           // that wait or have a place; guarded by Places.mu
}

// The limits of Places.
const (
	requestsOfKeyMax = 16 // that wait or have a place
	waitingKeysMax   = 100
)

// The reasons of Enter.
var (
	ErrKeyFull = errors.New("the key has no free place")
	ErrFull    = errors.New("there is no free place")
)

// NewPlaces returns places for all requests, of which each key may use ofKey.
func NewPlaces[K comparable](all, ofKey int) *Places[K] {
	return &Places[K]{all: make(chan struct{}, all), ofKey: ofKey, keys: make(map[K]*keyPlaces)}
}

// Enter waits for a place for a request of a key until ctx ends. It returns ErrKeyFull or ErrFull without one, at once
// if too many requests wait. Otherwise the caller calls leave.
func (p *Places[K]) Enter(ctx context.Context, key K) (leave func(), err error) {
	k, err := p.join(key)
	if err != nil {
		return nil, err
	}
	select {
	case k.own <- struct{}{}:
	case <-ctx.Done():
		p.quit(key, k)
		return nil, ErrKeyFull
	}
	select {
	case p.all <- struct{}{}:
		return func() {
			<-p.all
			<-k.own
			p.quit(key, k)
		}, nil
	case <-ctx.Done():
		<-k.own
		p.quit(key, k)
		return nil, ErrFull
	}
}

// join counts a request of a key, unless too many wait.
func (p *Places[K]) join(key K) (*keyPlaces, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.keys[key]
	switch {
	case k == nil && len(p.keys) >= waitingKeysMax:
		return nil, ErrFull
	case k == nil:
		k = &keyPlaces{own: make(chan struct{}, p.ofKey)}
		p.keys[key] = k
	case k.requests >= requestsOfKeyMax:
		return nil, ErrKeyFull
	}
	k.requests++
	return k, nil
}

func (p *Places[K]) quit(key K, k *keyPlaces) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if k.requests--; k.requests == 0 {
		delete(p.keys, key)
	}
}
