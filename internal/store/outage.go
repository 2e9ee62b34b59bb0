package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// awayAfter is the age of the last look that succeeded from which on the engine
// counts as unreachable.
const awayAfter = 1500 * time.Millisecond

var errNoAnswer = errors.New("no answer in time")

// outage collects the failures of an engine, so that the log has one line when the
// engine becomes unreachable and one when it is reachable again, however many looks,
// requests and commits fail in between. A commit that failed is logged by itself
// only when a later look has shown that the engine is reachable.
type outage struct {
	log *slog.Logger

	mu      sync.Mutex
	cause   error     // of the last look that failed since one succeeded; guarded by mu
	since   time.Time // of the last look that succeeded before the engine was unreachable; zero: it is reachable; guarded by mu
	back    time.Time // when the engine was last reachable again; guarded by mu
	commits failures  // that the log does not have yet; guarded by mu
}

// failures are commits that failed.
type failures struct {
	number, plants int
	first          error
	last           time.Time
}

// commitFailed notes a commit that failed, and when it began.
func (o *outage) commitFailed(begun time.Time, plants int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log.Debug("commit failed", "plants", plants, "error", err)
	if begun.Before(o.back) {
		return // of an outage that is over
	}
	if o.commits.number == 0 {
		o.commits.first = err
	}
	o.commits.number++
	o.commits.plants += plants
	o.commits.last = time.Now()
}

// reached notes a look that succeeded, and when it began. One that took too long
// ends no outage: the store is not ready after it, either.
func (o *outage) reached(begun time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(begun) >= awayAfter {
		return
	}
	o.cause = nil
	switch {
	case !o.since.IsZero():
		o.log.Info("store reachable again", "away_us", time.Since(o.since).Microseconds(), "commits_failed", o.commits.number, "plants_failed", o.commits.plants)
		o.since, o.back, o.commits = time.Time{}, time.Now(), failures{}
	case begun.After(o.commits.last):
		o.logCommits()
	}
}

// failed notes a look that failed, or has not ended in time, and when the last look
// began that succeeded.
func (o *outage) failed(last time.Time, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause == nil || !errors.Is(err, errNoAnswer) {
		o.cause = err // the first failure often tells only that a connection has ended
	}
	if !o.since.IsZero() || time.Since(last) < awayAfter {
		return
	}
	o.since = last
	o.log.Error("store unreachable", "error", o.cause)
}

// away reports whether the engine is unreachable.
func (o *outage) away() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.since.IsZero()
}

// end logs the commits of which no look can show any more why they failed.
func (o *outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		o.logCommits()
	}
}

// logCommits logs the commits that failed while the engine was reachable. Its caller
// holds mu.
func (o *outage) logCommits() {
	if o.commits.number > 0 {
		o.log.Error("commit failed", "commits", o.commits.number, "plants", o.commits.plants, "error", o.commits.first)
	}
	o.commits = failures{}
}

// ask calls the engine and notes how that ended; last is when the last look began
// that succeeded. It notes an engine that does not answer before it returns. A call
// that its caller gave up says nothing about the engine.
func (o *outage) ask(caller context.Context, last time.Time, look func() error) error {
	begun := time.Now()
	wait := awayAfter - begun.Sub(last)
	if wait <= 0 || wait > awayAfter { // the machine slept, or its clock was set
		wait = awayAfter
	}
	late := time.AfterFunc(wait, func() { o.failed(last, errNoAnswer) }) // at most once, beside look
	err := look()
	late.Stop()
	switch {
	case err == nil:
		o.reached(begun)
	case caller.Err() == nil:
		o.failed(last, err)
	}
	return err
}
