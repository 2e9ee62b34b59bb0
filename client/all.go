package client

import (
	"context"
	"iter"
	"sync"
)

// Outcome is the outcome of one plant of CreateAll.
type Outcome struct {
	NewPlant NewPlant
	Plant    Plant // the zero value if Err is not nil
	Err      error // an *Error
}

// CreateAll creates the plants of a sequence, several at the same time (WithConcurrency), and returns an outcome for
// each, in the order in which the creates end. The sequence may be endless: CreateAll reads the next plant when its
// create can begin.
//
// The sequence ends early when ctx ends, and when the caller leaves the loop, which cancels the creates that run. It
// runs in a goroutine of its own, and the loop ends after that has returned.
func (c *Client) CreateAll(ctx context.Context, plants iter.Seq[NewPlant]) iter.Seq[Outcome] {
	return func(yield func(Outcome) bool) {
		ctx, cancel := context.WithCancel(ctx)
		a := &all{client: c, in: make(chan NewPlant), out: make(chan Outcome), left: make(chan struct{})}
		go func() { // ends before the loop over out
			defer close(a.out)
			a.feed(ctx, plants)
			a.workers.Wait()
		}()
		defer func() {
			cancel()
			close(a.left)
			for range a.out {
			}
		}()
		for o := range a.out {
			if !yield(o) {
				return
			}
		}
	}
}

// all is one call of CreateAll.
type all struct {
	client  *Client
	workers sync.WaitGroup
	in      chan NewPlant
	out     chan Outcome
	left    chan struct{} // closed when the caller has left the loop
}

// feed hands the plants to workers, which it starts when all others work.
func (a *all) feed(ctx context.Context, plants iter.Seq[NewPlant]) {
	defer close(a.in)
	started := 0
	for n := range plants {
		if ctx.Err() != nil {
			return
		}
		select {
		case a.in <- n:
			continue
		default:
		}
		if started < a.client.concurrency {
			started++
			a.workers.Go(func() { a.work(ctx, n) })
			continue
		}
		select {
		case a.in <- n:
		case <-ctx.Done():
			return
		}
	}
}

// work creates a plant, and then others.
func (a *all) work(ctx context.Context, n NewPlant) {
	for ok := true; ok; n, ok = <-a.in {
		p, err := a.client.Create(ctx, n)
		select {
		case a.out <- Outcome{n, p, err}:
		case <-a.left:
			return
		}
	}
}
