package writepath

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"plantstore/internal/store"
)

// unreachableAfter is the age of the last successful poll at which the engine counts as unreachable.
const unreachableAfter = 1500 * time.Millisecond

// unwritableAfter is the time without a successful commit after a failed one, after which the store counts as one that
// accepts no plants.
const unwritableAfter = 2 * time.Second

var errNoAnswer = errors.New("no answer in time")

// outage collects the failures of an engine. The log has one line when the engine becomes unreachable and one when it
// is reachable again, however many polls, requests and commits fail in between; and the same two lines about a
// reachable engine whose commits fail. Failed commits are logged by themselves only if neither follows: after a later
// commit and a later poll have succeeded.
type outage struct {
	log *slog.Logger

	mu      sync.Mutex
	cause   error     // why a poll failed since the last successful one; guarded by mu
	since   time.Time // last successful poll before the outage; zero: no outage; guarded by mu
	back    time.Time // end of the last outage; guarded by mu
	commits failures  // not logged yet; guarded by mu

	failing   atomic.Bool // a commit has failed since the last successful one; set under mu
	failedAt  time.Time   // when the first of these commits failed; guarded by mu
	commitErr error       // last failure once commits have failed for unwritableAfter, else nil; guarded by mu
}

// failures are failed commits.
type failures struct {
	number, plants int
	first          error
	last           time.Time
}

// commitFailed records a failed commit that started at that time.
func (o *outage) commitFailed(start time.Time, plants int, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.log.Debug("commit failed", "plants", plants, "error", err)
	if start.Before(o.back) {
		return // it belongs to an outage that has ended
	}
	if o.commits.number == 0 {
		o.commits.first = err
	}
	o.commits.number++
	o.commits.plants += plants
	o.commits.last = time.Now()
	o.keepFailing(err)
}

func (o *outage) probeFailed(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.keepFailing(err)
}

// keepFailing records that a commit has failed, unless there is an outage. The caller has locked mu.
func (o *outage) keepFailing(err error) {
	if !o.since.IsZero() {
		return
	}
	if !o.failing.Swap(true) {
		o.failedAt = time.Now()
	}
	switch {
	case o.commitErr != nil:
		o.commitErr = err
	case time.Since(o.failedAt) >= unwritableAfter:
		o.commitErr = err
		o.log.Error("store accepts no plants", "error", err)
	}
}

// commitSucceeded records a successful commit of plants or a probe.
func (o *outage) commitSucceeded() {
	if !o.failing.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failing.Store(false)
	if o.commitErr != nil {
		o.log.Info("store accepts plants again", "outage_us", time.Since(o.failedAt).Microseconds(),
			"commits_failed", o.commits.number, "plants_failed", o.commits.plants)
		o.commitErr, o.commits = nil, failures{}
	}
}

// unwritable returns why the store accepts no plants although it is reachable, or nil.
func (o *outage) unwritable() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.commitErr == nil:
		return nil
	case errors.Is(o.commitErr, store.ErrFull):
		return ErrDiskFull
	}
	return errors.New("commits fail; see the log") // the cause is for the log only: /readyz is public
}

// pollSucceeded records a successful poll that started at that time. A poll that took too long does not end an outage,
// because the store is not ready after it either.
func (o *outage) pollSucceeded(start time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(start) >= unreachableAfter {
		return
	}
	o.cause = nil
	switch {
	case !o.since.IsZero():
		o.log.Info("store reachable again", "outage_us", time.Since(o.since).Microseconds(),
			"commits_failed", o.commits.number, "plants_failed", o.commits.plants)
		o.since, o.back, o.commits = time.Time{}, time.Now(), failures{}
		o.failing.Store(o.commitErr != nil)
	case !o.failing.Load() && start.After(o.commits.last):
		o.logCommits()
	}
}

// pollFailed records a poll that failed or got no answer in time. The last successful poll started at last.
func (o *outage) pollFailed(last time.Time, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause == nil || !errors.Is(err, errNoAnswer) {
		o.cause = err // the error of the first failure is often only a closed connection
	}
	if !o.since.IsZero() || time.Since(last) < unreachableAfter {
		return
	}
	o.since = last
	o.log.Error("store unreachable", "error", o.cause)
}

// unreachable reports whether the engine does not answer polls: also while a poll hangs. The age of the last poll
// cannot tell: a paused process and a machine that slept look the same.
func (o *outage) unreachable() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.since.IsZero()
}

// end logs the remaining failed commits: no poll follows.
func (o *outage) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() && o.commitErr == nil {
		o.logCommits()
	}
}

// logCommits logs the commits that failed while the engine was reachable. The caller has locked mu.
func (o *outage) logCommits() {
	if o.commits.number > 0 {
		o.log.Error("commit failed", "commits", o.commits.number, "plants", o.commits.plants, "error", o.commits.first)
	}
	o.commits = failures{}
}

// observe calls poll and records the result. The last successful poll started at last. If poll does not return in time,
// observe records a failure before the end of poll. It records no failure if the caller canceled the poll.
func (o *outage) observe(caller context.Context, last time.Time, poll func() error) error {
	start := time.Now()
	wait := unreachableAfter - start.Sub(last)
	if wait <= 0 || wait > unreachableAfter { // the machine slept, or its clock was set
		wait = unreachableAfter
	}
	ran := make(chan struct{})
	late := time.AfterFunc(wait, func() {
		defer close(ran)
		o.pollFailed(last, errNoAnswer)
	})
	err := poll()
	if !late.Stop() {
		<-ran // the result of poll is newer
	}
	switch {
	case err == nil:
		o.pollSucceeded(start)
	case caller.Err() == nil:
		o.pollFailed(last, err)
	}
	return err
}
