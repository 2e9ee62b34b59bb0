package backup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/sqlite/journal"
)

// The commits of the store are copied in rounds, one after the other (ship). A round finds the newest commit, stores
// all commits since the last copied one in segments, and then reads the owner once more. Only after that may anything
// be acknowledged because of them, and may the journal forget them. The round after a failed one stores the rest. A
// caller of Sync waits for a round that begins after its call, because one that runs may have found an older commit.
//
// The first round of a server, and the first one after somebody has removed the owner, finds the commit in the journal
// that its timeline goes on from (start). A commit that no backup and segments lead to makes a backup due (needBackup).
// Sync fails until that is made.

// copier copies the commits of the store to the destination soon after they are made. Its fields belong to the
// goroutine of run, except for those that mu guards.
type copier struct {
	service *Service
	encoder journal.Encoder

	unowned bool          // a segment was stored since the owner was read
	due     chan struct{} // holds a value when Sync waits for a round

	mu          sync.Mutex      // guards the fields below; run may read the first three without it
	timeline    string          // has commits and history; empty: these are not known
	commits     int64           // the last commit in the destination
	history     journal.History // after it
	pending     time.Time       // when the oldest commit was made that the destination lacks; zero: none is known
	checked     time.Time       // when the destination lacked none, or the start
	begun       int64           // number of the last round
	ended       int64           // number of the last round that has ended
	succeeded   int64           // number of the last round that succeeded
	fault       error           // why the last round failed
	needsBackup bool            // the segments follow no backup
	next        chan struct{}   // closed at the end of a round

	failed prometheus.Counter
}

// newCopier returns a copier. The destination may lack all commits in the journal.
func newCopier(s *Service, metrics prometheus.Registerer) (*copier, error) {
	_, oldest, err := s.config.Engine.Journal(s.ctx, 0, 0)
	if err != nil {
		return nil, err
	}
	checked := time.Now()
	if len(oldest) > 0 && oldest[0].At.Before(checked) {
		checked = oldest[0].At
	}
	c := &copier{
		service: s, checked: checked, due: make(chan struct{}, 1), next: make(chan struct{}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plantstore_copy_attempts_failed_total",
			Help: "Attempts to copy commits to the destination of the backups that failed.",
		}),
	}
	metrics.MustRegister(c.failed)
	return c, nil
}

// restorableTo is copiedTo; the zero time without a copier, and while the segments follow no backup. fault is
// why the last round failed.
func (c *copier) restorableTo() (at time.Time, fault error) {
	if c == nil {
		return at, nil
	}
	copied := c.copiedTo()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.succeeded > 0 && !c.needsBackup {
		at = copied
	}
	return at, c.fault
}

// copiedTo returns a time before which the destination has all commits.
func (c *copier) copiedTo() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.pending.IsZero() && c.pending.Before(c.checked) {
		return c.pending
	}
	return c.checked
}

const (
	shipBytes     = 4 << 20 // bytes of changes in a segment
	shipRetry     = time.Second
	shipRetryMax  = 10 * time.Second // also with a longer lag
	shipAtEndMax  = 5 * time.Second  // at the end of the server
	commitsPerLag = 2                // a commit waits for half of the lag on average
)

// run copies commits until Close, and then what is left.
func (c *copier) run() {
	s := c.service
	for s.ctx.Err() == nil && s.Fault() == nil {
		due, wait := c.due, s.config.Lag/commitsPerLag
		if err := c.round(s.ctx); err != nil {
			due, wait = nil, min(max(wait, shipRetry), shipRetryMax)
		}
		select {
		case <-s.ctx.Done():
		case <-s.fencing:
		case <-due:
		case <-time.After(wait):
		}
	}
	<-s.ctx.Done() // a fenced server may still acknowledge plants until it is closed, without --backup-sync
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), shipAtEndMax)
	defer cancel()
	_ = c.round(ctx) // what is missing stays in the journal; a fenced server still adds to its own timeline
}

// round copies the commits that are made now.
func (c *copier) round(ctx context.Context) error {
	c.mu.Lock()
	c.begun++
	c.mu.Unlock()
	err := c.ship(ctx)
	c.report(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended, c.fault = c.begun, err; err == nil {
		c.succeeded = c.begun
	}
	close(c.next)
	c.next = make(chan struct{})
	return err
}

// errNoBase is the error of Sync while the segments in the destination follow no backup.
var errNoBase = errors.New("the destination has no backup yet that the copied commits follow")

// Sync waits until a restore of the destination has all commits that were made before the call. It returns an error if
// the next round of the copy fails, if the segments follow no backup, or if ctx ends.
func (s *Service) Sync(ctx context.Context) error {
	c := s.copier
	c.mu.Lock()
	defer c.mu.Unlock()
	for round := c.begun + 1; c.succeeded < round; {
		if err := s.Fault(); err != nil {
			return err
		}
		if c.ended >= round {
			return c.fault
		}
		select {
		case c.due <- struct{}{}:
		default: // the copier has not received the last signal yet
		}
		next := c.next
		c.mu.Unlock()
		var err error
		select {
		case <-next:
		case <-s.fencing:
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		c.mu.Lock()
		if err != nil {
			return err
		}
	}
	if c.needsBackup {
		return errNoBase
	}
	return nil
}

// report counts and logs the result of an attempt: the first fault, and the first success after it.
func (c *copier) report(err error) {
	if c.service.ctx.Err() != nil && err != nil {
		return
	}
	c.mu.Lock()
	before := c.fault
	c.mu.Unlock()
	log, to := c.service.config.Log, c.service.to.location("")
	switch {
	case IsRefusal(err) && !IsRefusal(before):
		log.Error("another server owns the destination of the backups; this one stops", "destination", to, "error", err)
	case err != nil && (before == nil || errors.Is(before, errNoOwner)):
		log.Warn("could not copy commits to the destination of the backups; it lacks them until it is back",
			"destination", to, "error", err)
	case err == nil && before != nil:
		log.Info("the destination of the backups has all commits again", "destination", to)
	}
	if err != nil {
		c.failed.Inc()
	}
}

// ship copies the commits of the journal that the destination lacks.
func (c *copier) ship(ctx context.Context) error {
	if own := c.service.ownTimeline(); own == "" || c.timeline != own { // only this goroutine sets timeline
		if err := c.start(ctx); err != nil {
			return err
		}
	}
	now, newest := time.Now(), c.commits
	err := c.service.config.Engine.JournalEnds(ctx, func(number int64, _ journal.History) bool {
		newest = number
		return false
	})
	if err == nil && c.commits < newest {
		err = c.service.ensureBegun(ctx, c.timeline)
	}
	for err == nil && c.commits < newest {
		err = c.shipSegment(ctx)
	}
	if err == nil && c.unowned { // before anything is acknowledged because of the segments
		err = c.service.checkOwner(ctx, c.timeline)
		c.unowned = err != nil
	}
	if err != nil {
		return err
	}
	c.service.config.Engine.TrimJournal(c.commits)
	needed := c.service.backupNeeded()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending, c.needsBackup = time.Time{}, needed
	if !needed {
		c.checked = now
	}
	return nil
}

// shipSegment copies the next commits in a segment.
func (c *copier) shipSegment(ctx context.Context) error {
	s := c.service
	previous, commits, err := s.config.Engine.Journal(ctx, c.commits, shipBytes)
	if err != nil {
		return err
	}
	if len(commits) == 0 {
		return errors.New("the journal has lost commits")
	}
	c.mu.Lock()
	c.pending = commits[0].At
	c.mu.Unlock()
	if commits[0].Number != c.commits+1 || previous != c.history { // the journal was full
		s.needBackup(commits[0].Number - 1)
	}
	described, content, err := c.encoder.Encode(s.archive.store, c.timeline, previous, commits)
	if err != nil {
		return err
	}
	name := described.Name(s.names.segmentPrefix())
	if err := s.to.put(ctx, name, content); err != nil {
		return fmt.Errorf("store a segment: %w", err)
	}
	s.recent.add(name, content)
	c.unowned = true
	c.setCopied(c.timeline, described.Last, journal.ParseHistory(described.After))
	return nil
}

// start makes this server the owner, and finds the last commit of its timeline in the destination in the history of the
// store. If the journal does not lead to it, or no backup and segments do, a new backup is needed.
func (c *copier) start(ctx context.Context) error {
	s := c.service
	owned, err := s.ensureOwner(ctx, false)
	if err != nil {
		return err
	}
	commits, history, err := s.config.Engine.StartJournal(ctx)
	if err != nil {
		return err
	}
	visit := func(after int64, h journal.History) (more bool) {
		commits, history = after, h
		return after > owned.Commits
	}
	if visit(commits, history) {
		err = s.config.Engine.JournalEnds(ctx, func(number int64, previous journal.History) bool {
			return visit(number-1, previous)
		})
	}
	if err != nil {
		return err
	}
	all, err := s.contents(ctx)
	if err != nil {
		return err
	}
	continues := commits == owned.Commits && (owned.history == "" || owned.history == history.Short())
	c.setCopied(owned.ID, commits, history)
	if !continues || !all.leads(owned.ID, commits) {
		s.needBackup(commits)
	}
	return nil
}

// setCopied sets the last commit that the destination has.
func (c *copier) setCopied(timeline string, commits int64, history journal.History) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.timeline, c.commits, c.history = timeline, commits, history
}

// copied returns the last commit of the own timeline that the destination has; known is false before the start.
func (c *copier) copied() (commits int64, known bool) {
	own := c.service.ownTimeline()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.commits, own != "" && c.timeline == own
}
