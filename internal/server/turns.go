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
	bulkMax   = 8           // at the same time
	bulkOfOne = 2           // of a credential
	bulkWait  = time.Second // for the end of another: a client that types sends its next search when it ends the last one
)

// turns bounds the requests with Route.Bulk, so that slow clients of one credential do not keep out those of others.
type turns struct {
	all chan struct{} // semaphore of all requests

	mu sync.Mutex
	of map[int64]*turnsOfOne // by credential, those with a request; guarded by mu
}

// turnsOfOne are the turns of a credential.
type turnsOfOne struct {
	running chan struct{} // semaphore
	users   int           // requests that run or wait; guarded by turns.mu
}

func newTurns() *turns {
	return &turns{all: make(chan struct{}, bulkMax), of: map[int64]*turnsOfOne{}}
}

// enter begins a request, which calls leave at its end. The error is a *plant.Error. Requests without a credential
// have the limit of all requests only.
func (t *turns) enter(ctx context.Context, principal auth.Principal) (leave func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, bulkWait)
	defer cancel()
	leaveOne := func() {}
	if principal != (auth.Principal{}) {
		one := t.join(principal.TokenID)
		select {
		case one.running <- struct{}{}:
		case <-ctx.Done():
			t.drop(principal.TokenID)
			return nil, &plant.Error{
				Code:    plant.CodeTooManyAtOnce,
				Message: "this credential runs 2 searches, exports or pages of plants already; wait for the end of one",
			}
		}
		leaveOne = func() {
			<-one.running
			t.drop(principal.TokenID)
		}
	}
	select {
	case t.all <- struct{}{}:
	case <-ctx.Done():
		leaveOne()
		return nil, &plant.Error{
			Code:    plant.CodeSearchesRunning,
			Message: "too many searches, exports and pages of plants run at the same time; send the request again",
		}
	}
	return func() {
		<-t.all
		leaveOne()
	}, nil
}

func (t *turns) join(credential int64) *turnsOfOne {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.of[credential]
	if one == nil {
		one = &turnsOfOne{running: make(chan struct{}, bulkOfOne)}
		t.of[credential] = one
	}
	one.users++
	return one
}

func (t *turns) drop(credential int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.of[credential]
	if one.users--; one.users == 0 {
		delete(t.of, credential)
	}
}
