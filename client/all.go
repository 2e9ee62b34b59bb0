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
		in, out := make(chan NewPlant), make(chan Outcome)
		var workers sync.WaitGroup
		for range c.concurrency {
			workers.Go(func() { // ends with in
				for n := range in {
					p, err := c.Create(ctx, n)
					out <- Outcome{n, p, err}
				}
			})
		}
		go func() { // ends before the loop over out
			defer close(out)
			defer workers.Wait()
			defer close(in)
			feed(ctx, plants, in)
		}()
		defer func() {
			cancel()
			for range out { // the outcomes that the caller does not read
			}
		}()
		for o := range out {
			if !yield(o) {
				return
			}
		}
	}
}

// feed sends the plants to the workers until ctx ends.
func feed(ctx context.Context, plants iter.Seq[NewPlant], in chan<- NewPlant) {
	for n := range plants {
		if ctx.Err() != nil {
			return
		}
		select {
		case in <- n:
		case <-ctx.Done():
			return
		}
	}
}
