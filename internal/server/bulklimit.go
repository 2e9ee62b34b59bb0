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
	all chan struct{} // semaphore of all requests

	mu           sync.Mutex
	byCredential map[int64]*credentialLimit // of credentials with a request; guarded by mu
}

type credentialLimit struct {
	running chan struct{} // semaphore
	users   int           // requests that run or wait; guarded by bulkLimit.mu
}

func newBulkLimit() *bulkLimit {
	return &bulkLimit{all: make(chan struct{}, bulkMax), byCredential: map[int64]*credentialLimit{}}
}

// acquire waits until a request may begin. The request calls release at its end. The error is a *plant.Error. Requests
// without a credential have only the limit of all requests.
func (l *bulkLimit) acquire(ctx context.Context, principal auth.Principal) (release func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, bulkWait)
	defer cancel()
	releaseOwn := func() {}
	if principal != (auth.Principal{}) {
		own := l.join(principal.TokenID)
		select {
		case own.running <- struct{}{}:
		case <-ctx.Done():
			l.leave(principal.TokenID)
			return nil, plant.Errorf(plant.CodeTooManyAtOnce,
				"this credential runs 2 searches, exports or pages of plants already; wait for the end of one")
		}
		releaseOwn = func() {
			<-own.running
			l.leave(principal.TokenID)
		}
	}
	select {
	case l.all <- struct{}{}:
	case <-ctx.Done():
		releaseOwn()
		return nil, plant.Errorf(plant.CodeSearchesRunning,
			"too many searches, exports and pages of plants run at the same time; send the request again")
	}
	return func() {
		<-l.all
		releaseOwn()
	}, nil
}

func (l *bulkLimit) join(credential int64) *credentialLimit {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.byCredential[credential]
	if own == nil {
		own = &credentialLimit{running: make(chan struct{}, bulkPerCredential)}
		l.byCredential[credential] = own
	}
	own.users++
	return own
}

func (l *bulkLimit) leave(credential int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.byCredential[credential]
	if own.users--; own.users == 0 {
		delete(l.byCredential, credential)
	}
}
