package backup

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/dbfile"
	"plantstore/internal/sqlite/journal"
	"plantstore/internal/store"
)

// A standby keeps its store as the destination has it, and takes over when the owner releases the destination, or does
// not renew its ownership for Config.Failover (lease.go), or when the operator asks for it.
//
//   - bring: if the last commit of the store is on the line of the owner's timeline, it goes on from there. Otherwise
//     it restores the store. It first sets a store aside that has commits of its own, such as a fenced owner's.
//   - round: it repeats the commits after its last one in order, and checks the history of each.
//   - takeOver: it stores its session as the owner, repeats what is left, and tells the caller. The caller opens the
//     store and claims the destination by that, as after CatchUp. Of several standbys that do so at the same
//     time, the rule in owner.go lets one go on; the others follow it.

// Standby is the store of a server that follows the owner of a destination.
type Standby struct {
	config Config
	to     destination
	path   string // of the store, without links
	former string // session by which this process was the owner; empty: it was not

	service *Service // nil until the store exists; neither started nor closed
	live    *backupfile.Live
	bases   []Backup // complete ones, when the store was opened

	cancel  context.CancelFunc
	running sync.WaitGroup
	ended   chan struct{}
	won     string // timeline by which this server has taken over

	// Used by the goroutine of run.
	timeline string // has the last commit
	owner    owner  // last seen
	renewal  []byte // last seen
	last     renewal
	renewed  time.Time // when the owner has last shown that it lives
	read     time.Time // of the owner and its renewal; zero: the last attempt failed
	claimed  string    // session of a take-over that has failed
	attempts int       // take-overs since another server was the owner
	failed   bool      // the last take-over, for a reason that is still there
	asked    string    // session of the owner that was asked to release the destination
	askedAt  time.Time
	unasked  bool // the last attempt to ask it failed

	mu     sync.Mutex
	status StandbyStatus
}

// StandbyStatus is what a standby knows. As an error it is why the server accepts no changes.
type StandbyStatus struct {
	Host    string    // the owner's
	Commits int64     // number of the last commit
	Current time.Time // when the store had all commits of the destination; zero: it is not open yet
	Fault   error     // why the last round failed, or why the store is not open yet
}

// Behind returns the time since the store had all commits of the destination.
func (s StandbyStatus) Behind() time.Duration { return time.Since(s.Current) }

// Error implements error.
func (s StandbyStatus) Error() string {
	text := fmt.Sprintf("%v of the server on %s, %.1f s behind",
		store.ErrStandby, cmp.Or(s.Host, "an unknown host"), s.Behind().Seconds())
	if s.Current.IsZero() {
		text = fmt.Sprintf("%v: %v", store.ErrStandby, store.ErrNotOpen)
	}
	if s.Fault != nil {
		text += ": " + s.Fault.Error()
	}
	return text
}

// Unwrap returns store.ErrStandby, and store.ErrNotOpen while the store is not open.
func (s StandbyStatus) Unwrap() []error {
	if s.Current.IsZero() {
		return []error{store.ErrStandby, store.ErrNotOpen}
	}
	return []error{store.ErrStandby}
}

// errRestore means that the store cannot follow the owner any more, and has to be restored.
var errRestore = errors.New("the store has to be restored to follow the owner")

// errUnowned means that somebody has removed the owner, and its server has not stored it again: it may have ended.
var errUnowned = errors.New(
	"the object with the owner is missing; start the other server, or run plantstore promote on this machine")

const (
	standbyPoll  = time.Second
	pollsPerTime = 10 // in each Config.Failover
	latePolls    = 5  // in place of each one
	promotePoll  = 200 * time.Millisecond
	delayedEvery = 5 * time.Second
	openRetry    = time.Second
	openRetryMax = 15 * time.Second
	attemptsMax  = 3 // then another standby gets the time to take over

	reopenMax     = 5 * time.Second  // in which a command waits for a server that may be about to become a standby
	roleChangeMax = 30 * time.Second // in which a server has no lock while it opens the store again
)

// NewStandby returns the standby of the store at c.DB. former is the session by which this process was the owner
// before; empty: it was not. The caller opens and starts the standby, and closes it.
func NewStandby(c Config, former string) (*Standby, error) {
	to, err := newDestination(c)
	if err != nil {
		return nil, err
	}
	return newStandby(c, to, former), nil
}

// Open brings the store to what the destination has, and restores it if that is necessary. It waits until the
// destination has a backup and responds; Status tells why. The error is an OwnedError if the destination has another
// store.
func (s *Standby) Open(ctx context.Context) error {
	restored := false
	for wait, logged := openRetry, ""; ; wait = min(2*wait, openRetryMax) {
		err := s.bring(ctx)
		switch {
		case err == nil && s.live != nil:
			return nil
		case err == nil && !restored:
			restored = true
			continue
		case err == nil:
			err = fmt.Errorf("%s does not show which commits its newest backup has; start the other server with --backup-lag",
				s.to.location(""))
		}
		if _, owned := errors.AsType[*OwnedError](err); owned || ctx.Err() != nil {
			return err
		}
		s.setStatus(StandbyStatus{Fault: err})
		if text := err.Error(); text != logged {
			s.config.Log.Warn("the standby has no store yet; trying again", "error", err)
			logged = text
		}
		if err := dbfile.Pause(ctx, wait); err != nil {
			return err
		}
	}
}

func newStandby(c Config, to destination, former string) *Standby {
	c.RestoreMissing = true // a store that has all commits may take over
	return &Standby{config: c, to: to, path: dbfile.RealPath(c.DB), former: former, ended: make(chan struct{})}
}

// Start begins to follow the owner.
func (s *Standby) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.running.Go(func() { s.announce(ctx) })
	s.running.Go(func() {
		defer close(s.ended)
		s.run(ctx)
	})
}

// announce stores an object with the host of the standby. If the keys may only read, the operator learns it now, and
// not when the owner has failed.
func (s *Standby) announce(ctx context.Context) {
	err := putObject(ctx, s.to, s.service.names.standbyName(), standbyHost{s.service.host})
	if err != nil && ctx.Err() == nil {
		s.config.Log.Warn("the standby cannot write to the destination of the backups, so it could not take over",
			"error", err)
	}
}

// Ended returns a channel that is closed when this server has taken over, or cannot go on. Result then tells which.
func (s *Standby) Ended() <-chan struct{} { return s.ended }

// Result returns the timeline by which this server has taken over, for Config.CaughtUp. It is empty if the store has to
// be opened by another standby.
func (s *Standby) Result() string { return s.won }

// Close ends the standby and closes its store.
func (s *Standby) Close() error {
	if s.cancel != nil {
		s.cancel()
	}
	s.running.Wait()
	if s.live == nil { // Open has failed
		return nil
	}
	if s.won == "" {
		_ = s.record(s.timeline) // without it, a store that cannot follow is set aside
	}
	return s.live.Close()
}

// Status returns what the standby knows now.
func (s *Standby) Status() StandbyStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

func (s *Standby) setStatus(status StandbyStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// bring opens a store that follows the owner's timeline, or restores one that does not: then live is nil.
func (s *Standby) bring(ctx context.Context) error {
	if info, err := os.Stat(s.path); errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		if err := s.restore(ctx, err == nil); err != nil {
			return err
		}
	}
	var err error
	if s.service, err = newServiceOf(s.config, s.to); err != nil {
		return err
	}
	s.service.archive.follows = true
	var c *contents
	err = retryMissing(func() (err error) { c, err = s.service.archive.contents(ctx); return err })
	if err != nil {
		return err
	}
	if c.owner.Store != "" && c.owner.Store != s.service.archive.store {
		reason := "has the backups of another store than " + s.path + "; move that file and those beside it away"
		return s.service.owned(reason, "")
	}
	id, err := c.current()
	switch {
	case err != nil:
		return err
	case id == "":
		return fmt.Errorf("%s has no commits of a server with --backup-lag", s.service.to.location(""))
	}
	if s.live, err = backupfile.OpenLive(ctx, s.path); err != nil {
		return err
	}
	have, ok, err := s.fits(ctx, c, id)
	if err == nil && ok {
		s.timeline, s.bases = c.timelineAt(id, have), c.bases
		o := dbfile.Origin{Timeline: s.timeline, Commits: have, Newest: true}
		if err = dbfile.WriteOrigin(s.path, o); err == nil {
			s.setStatus(StandbyStatus{Host: c.owner.Host, Commits: have, Current: time.Now()})
			return nil
		}
	}
	err = errors.Join(err, s.live.Close())
	s.live = nil
	if err != nil {
		return err
	}
	return s.replace(ctx, c, id, have)
}

// restore restores the newest state.
func (s *Standby) restore(ctx context.Context, replace bool) error {
	names := seriesOf(s.config.DB)
	switch found, err := hasBackup(ctx, s.to, names); {
	case err != nil:
		return err
	case !found: // a restore would take the backups of a store with another name, which the standby does not follow
		return fmt.Errorf("%s has no backup of a store with the file name %s.db, which both servers must have",
			s.to.location(""), names)
	}
	s.setStatus(StandbyStatus{Fault: errors.New("restoring it from " + s.config.Destination)})
	a := newArchive(s.to, names, "")
	a.follows = true
	s.config.Log.Info("restoring the store of the standby", "db", s.path, "destination", s.config.Destination)
	r, err := a.Restore(ctx, s.path, Point{}, replace, nil)
	if err != nil {
		return err
	}
	for _, fault := range r.Faults {
		s.config.Log.Warn("a damaged backup was left out of the restore", "error", fault)
	}
	s.config.Log.Info("store restored", "plants", r.Plants, "commits", r.Commits, "at", r.At)
	return nil
}

// replace restores a store that the line of a timeline does not have the last commit of. It first sets the store aside,
// unless that is only an older copy of the destination.
func (s *Standby) replace(ctx context.Context, c *contents, id string, have int64) error {
	if _, err := c.planFor(Point{}); err != nil { // then the store stays where it is
		return err
	}
	o, err := dbfile.ReadOrigin(s.path)
	if err != nil {
		return err
	}
	unchanged := o.Newest && !o.Holder && (have == o.Commits || have == o.Entry)
	if unchanged && o.Commits <= max(c.lastOf(id), c.lastOf(o.Timeline)) { // else somebody has removed commits
		return s.restore(ctx, true)
	}
	aside, err := backupfile.SetAside(ctx, s.path)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("commits up to %d, and nothing shows which of them the destination has", have)
	for _, part := range c.line(id) {
		if last := min(part.last, c.lastOf(part.timeline)); part.timeline == o.Timeline && last < have {
			text = fmt.Sprintf("commits %d to %d, which the destination lacks", last+1, have)
		}
	}
	s.config.Log.Warn("the store of this server is kept under another name", "file", aside, "has", text)
	return s.restore(ctx, false)
}

func (c *contents) lastOf(id string) int64 {
	last, _ := c.end(id)
	return last
}

// timelineAt returns the timeline on a line that has a commit.
func (c *contents) timelineAt(id string, number int64) string {
	line := c.line(id)
	for _, part := range line {
		if number > c.timelines[part.timeline].Commits {
			return part.timeline
		}
	}
	return line[len(line)-1].timeline
}

// fits returns the number of the last commit of the store, and reports whether the line of a timeline has it, and leads
// on from there.
func (s *Standby) fits(ctx context.Context, c *contents, id string) (have int64, ok bool, err error) {
	have, history, err := s.live.Commits()
	if err != nil {
		return 0, false, err
	}
	line := c.line(id)
	next, err := c.stepsAfter(line, have, time.Time{}, time.Time{})
	if err != nil {
		return have, false, nil //nolint:nilerr // a newer backup may lead on
	}
	if len(next) > 0 && c.leadsAround(line, next[0]) {
		if err := s.service.archive.check(ctx, next[0].segment); errors.Is(err, journal.ErrDamaged) {
			return have, false, nil
		}
	}
	for _, b := range c.bases {
		m := b.Manifest
		if m.Commits == have && isOn(line, m) && len(m.History) >= journal.ShortHistory {
			return have, m.History[:journal.ShortHistory] == history.Short(), nil
		}
	}
	steps, err := c.stepsAfter(line, have-1, time.Time{}, time.Time{})
	if err != nil || len(steps) == 0 {
		return have, false, nil //nolint:nilerr // retention has removed it, or the store is ahead
	}
	content, err := s.service.archive.readSegment(ctx, steps[0].segment)
	if err == nil {
		err = s.service.archive.each(steps[0].segment, content, func(c *journal.Commit, after journal.History) error {
			ok = ok || c.Number == have && after == history
			return nil
		})
	}
	return have, ok && have <= steps[0].until, err
}

// run follows the owner until this server has taken over.
func (s *Standby) run(ctx context.Context) {
	s.read, s.renewed = time.Now(), time.Now()
	for ctx.Err() == nil {
		err := s.round(ctx)
		promote, errAsk := s.wantsPromotion(ctx)
		due := err == nil && s.due(promote)
		if due {
			if s.won, err = s.takeOver(ctx); err == nil {
				return
			}
			s.won, err = "", fmt.Errorf("take over: %w", err)
		} else if err == nil && s.owner.Session == "" {
			err = errUnowned
		}
		s.report(ctx, err, due)
		if promote {
			_ = dbfile.DelayPromotion(s.path, cmp.Or(err, errAsk)) // else the command waits in silence
		}
		if due {
			_ = dbfile.Pause(ctx, openRetry)
		}
		if errors.Is(err, errRestore) {
			_ = dbfile.Pause(ctx, openRetry) // in case that the restored one cannot follow either
			return
		}
		wait := standbyPoll
		if f := s.config.Failover; f > 0 {
			wait = min(wait, f/pollsPerTime)
			if time.Since(s.renewed) > f/2 { // the owner is late
				wait /= latePolls
			}
		}
		if promote {
			wait = min(wait, promotePoll)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// report remembers and logs the result of a round, and of the take-over after it if that was due: the first fault of
// each, and the first success after them.
func (s *Standby) report(ctx context.Context, err error, due bool) {
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case due && !s.failed:
		s.config.Log.Warn("could not take over; trying again", "error", err)
	case !due && err != nil && s.status.Fault == nil:
		s.config.Log.Warn("the standby cannot follow the owner", "error", err)
	case err == nil && s.status.Fault != nil:
		s.config.Log.Info("the standby follows the owner again", "commits", s.status.Commits)
	}
	s.status.Fault, s.failed = err, due || err != nil && s.failed
}

// round repeats the commits that the destination has, and looks whether the owner lives.
func (s *Standby) round(ctx context.Context) error {
	begun := time.Now()
	if err := s.live.CheckPlace(); err != nil {
		return fmt.Errorf("%w: %w", errRestore, err)
	}
	c, err := s.service.archive.contentsWith(ctx, s.bases)
	if err == nil {
		err = s.look(ctx, c.owner)
	}
	if err != nil {
		s.read = time.Time{}
		return err
	}
	id, err := c.current()
	if err == nil {
		err = s.repeatAll(ctx, c, id)
	}
	if errors.Is(err, fs.ErrNotExist) { // merged since the list
		err = nil
		begun = s.Status().Current
	}
	if err != nil {
		return err
	}
	have, _, err := s.live.Commits()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.Host, s.status.Commits, s.status.Current = c.owner.Host, have, begun
	return err
}

// look reads the renewal of the owner.
func (s *Standby) look(ctx context.Context, o owner) error {
	text, err := read(ctx, s.service.to, s.service.names.renewalName(), renewalBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if o.Session == "" { // then it is as if the owner did not renew its ownership
		o.Failover = s.owner.Failover
	}
	now := time.Now()
	var r renewal
	_ = json.Unmarshal(text, &r) // of a damaged one the owner is unknown
	isNew := o != s.owner || r.Session == o.Session && !bytes.Equal(text, s.renewal)
	// After a time in which this server saw nothing, the owner gets its whole time again: it may not have reached the
	// destination either. A slow destination is no such time, or nobody would take over.
	if isNew || now.Sub(s.read) > max(s.config.Failover, 2*standbyPoll) {
		s.renewed = now
	}
	if o.Session != s.claimed {
		s.attempts = 0
	}
	s.owner, s.last, s.renewal, s.read = o, r, text, now
	return nil
}

const renewalBytes = 4 << 10

// repeatAll repeats the commits of a timeline after the last one of the store. The error is errRestore if the timeline
// does not lead on from there.
func (s *Standby) repeatAll(ctx context.Context, c *contents, id string) error {
	have, _, err := s.live.Commits()
	if err != nil {
		return err
	}
	line := c.line(id)
	if !slices.ContainsFunc(line, func(p stretch) bool { return p.timeline == s.timeline && have <= p.last }) {
		return fmt.Errorf("%w: the timeline %s does not have its commit %d", errRestore, id, have)
	}
	steps, err := c.stepsAfter(line, have, time.Time{}, time.Time{})
	if err != nil {
		return fmt.Errorf("%w: %w", errRestore, err)
	}
	r := Recovered{Segments: 1}
	for _, step := range steps {
		err := s.live.Repeat(ctx, func(to *backupfile.Replay) error {
			return s.service.archive.repeat(ctx, plan{timeline: id}, step, to, &r)
		})
		around := errors.Is(err, journal.ErrDamaged) && s.leadsAround(ctx, id, step)
		if around || errors.Is(err, backupfile.ErrOtherHistory) {
			return fmt.Errorf("%w: %w", errRestore, err)
		}
		if err != nil {
			return err
		}
		s.timeline = step.Timeline
	}
	return nil
}

// leadsAround reports whether a newer backup than those that the standby knows makes a segment unnecessary.
func (s *Standby) leadsAround(ctx context.Context, id string, damaged step) bool {
	c, err := s.service.archive.contents(ctx)
	return err == nil && c.leadsAround(c.line(id), damaged)
}

// leadsAround reports whether a restore of a line needs no segment up to this one.
func (c *contents) leadsAround(line []stretch, damaged step) bool {
	base, err := c.baseOf(line, time.Time{})
	return err == nil && base.Manifest.Commits >= damaged.until
}

// due reports whether this server takes over now.
func (s *Standby) due(promote bool) bool {
	waited, released := time.Since(s.renewed), s.last.Released && s.last.Session == s.owner.Session
	failover := max(s.config.Failover, s.owner.Failover)
	switch {
	case s.claimed != "" && s.owner.Session == s.claimed && s.attempts < attemptsMax: // nobody else has
		return true
	case released && s.owner.Session != s.former && (promote || s.config.Failover > 0):
		return true
	case s.config.Failover > 0 && s.owner.Failover > 0 && waited >= failover:
		return true
	}
	// An owner that renews its ownership releases the destination when that has its last commits. Any other one does not
	// look for requests, and is fenced.
	return promote && s.asked == s.owner.Session && min(time.Since(s.askedAt), waited) >= s.owner.Failover
}

// takeOver makes a new session of this server the owner, and repeats what the destination has by then.
func (s *Standby) takeOver(ctx context.Context) (id string, err error) {
	s.service.session = newID() // a request of an earlier attempt may be on its way
	c, err := s.service.contents(ctx)
	if err != nil {
		return "", err
	}
	current, err := c.current()
	if err == nil {
		err = s.service.mayTakeOver(c, current, dbfile.Origin{Timeline: s.timeline, Newest: true})
	}
	if err == nil { // no server owns the destination if this one fails after it has fenced the other
		err = s.record(s.timeline)
	}
	if err != nil {
		return "", err
	}
	if !s.failed {
		s.config.Log.Info("taking over from the server on "+cmp.Or(c.owner.Host, "an unknown host"),
			"released", s.last.Released, "unseen_us", time.Since(s.renewed).Microseconds())
	}
	s.claimed = s.service.session
	s.attempts++
	if id, c, err = s.service.putOwner(ctx, current); err != nil {
		return "", err
	}
	err = retryMissing(func() error {
		err := s.repeatAll(ctx, c, current)
		if errors.Is(err, fs.ErrNotExist) {
			if again, errList := s.service.contents(ctx); errList == nil {
				c = again
			}
		}
		return err
	})
	if err != nil {
		return "", err
	}
	have, history, err := s.live.Commits()
	last, short := c.end(current)
	if err == nil && (have != last || short != "" && short != history.Short()) {
		err = fmt.Errorf("%w: it has commits up to %d, and the destination up to %d", errRestore, have, last)
	}
	if err == nil {
		err = s.record(current)
	}
	return id, err
}

// record stores beside the store which commit of a timeline is its last one.
func (s *Standby) record(timeline string) error {
	have, _, err := s.live.Commits()
	if err != nil {
		return err
	}
	return dbfile.WriteOrigin(s.path, dbfile.Origin{Timeline: timeline, Commits: have, Newest: true})
}
