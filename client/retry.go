package client

import (
	"context"
	"math/rand/v2"
	"time"
)

// Pauses between rounds, which are one attempt at each server, double from firstPause to longestPause. Each pause is a
// random part of that, so that clients whose requests failed together do not return together.
const (
	firstPause   = 50 * time.Millisecond
	longestPause = 30 * time.Second
)

// pace is the time plan of the attempts of one create.
type pace struct {
	until      time.Time     // no attempt starts after this
	servers    int           // the attempts of a round
	pause      time.Duration // the last upper bound of a pause
	retryAfter time.Duration // the longest that a server of this round asked for
}

// wait waits until the next attempt. It returns false if that would start too late, and when ctx ends.
func (p *pace) wait(ctx context.Context, e *Error) bool {
	p.retryAfter = max(p.retryAfter, e.RetryAfter)
	pause := time.Duration(0)
	if e.Attempts%p.servers == 0 {
		p.pause = min(max(2*p.pause, firstPause), longestPause)
		pause = max(p.pause/2+rand.N(p.pause/2), p.retryAfter) //nolint:gosec // not a secret
		p.retryAfter = 0
	}
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
