package client

import (
	"context"
	"math/rand/v2"
	"time"
)

// Pauses between attempts double from firstPause to longestPause. Each pause is a random part of that, so that clients
// whose requests failed together do not return together.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 30 * time.Second
)

// pace is the time plan of the attempts of one create.
type pace struct {
	until time.Time     // no attempt starts after this
	pause time.Duration // the last upper bound of a pause
}

// wait waits until the next attempt. It returns false if that would start too late, and when ctx ends.
func (p *pace) wait(ctx context.Context, e *Error) bool {
	p.pause = min(max(2*p.pause, firstPause), longestPause)
	pause := max(p.pause/2+rand.N(p.pause/2), e.RetryAfter) //nolint:gosec // not a secret
	if time.Until(p.until) < pause {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		e.Err = ctx.Err()
		return false
	}
}
