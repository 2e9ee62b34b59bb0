package server

import (
	"context"
	"sync"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// The limits of the requests with Route.Bulk. Each of them can have 8 MiB of plants in memory until its client has
// received them.
const (
	bulkMax           = 8 // at the same time
	bulkPerCredential = 2
	bulkWait          = time.Second // a client that types sends its next search before the last one has ended
)

// bulkLimit limits the requests with Route.Bulk, so that slow clients of one credential do not keep other clients out.
type bulkLimit struct {
	mu           sync.Mutex // guards the rest
	running      int
	byCredential map[int64]int // running requests; never 0
	released     chan struct{} // closed and replaced by release
}

func newBulkLimit() *bulkLimit {
	return &bulkLimit{byCredential: map[int64]int{}, released: make(chan struct{})}
}

// acquire waits until a request may begin. The request calls release at its end. The error is a *plant.Error.
func (l *bulkLimit) acquire(ctx context.Context, principal auth.Principal) error {
	ctx, cancel := context.WithTimeout(ctx, bulkWait)
	defer cancel()
	for {
		released, err := l.try(principal)
		if err == nil {
			return nil
		}
		select {
		case <-released:
		case <-ctx.Done():
			return err
		}
	}
}

// try counts a request. With an error, the request may try again when the channel is closed. Requests without a
// credential have only the limit of all requests.
func (l *bulkLimit) try(principal auth.Principal) (released <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case principal != (auth.Principal{}) && l.byCredential[principal.TokenID] == bulkPerCredential:
		return l.released, plant.Errorf(plant.CodeTooManyAtOnce,
			"this credential runs 2 searches, exports or pages of plants already; wait for the end of one")
	case l.running == bulkMax:
		return l.released, plant.Errorf(plant.CodeSearchesRunning,
			"too many searches, exports and pages of plants run at the same time; send the request again")
	}
	l.running++
	l.byCredential[principal.TokenID]++
	return nil, nil
}

func (l *bulkLimit) release(principal auth.Principal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	if l.byCredential[principal.TokenID]--; l.byCredential[principal.TokenID] == 0 {
		delete(l.byCredential, principal.TokenID)
	}
	close(l.released)
	l.released = make(chan struct{})
}
