package backup

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"plantstore/internal/sqlite/dbfile"
)

// A destination has one owner: a session of a server. An S3 server may have no conditional writes, so the mutual
// exclusion needs only that a read follows a finished write.
//
//   - A server that starts stores an object with its session first, and lists the segments after that.
//   - A server that has stored a segment reads the owner again before it acknowledges anything because of it.
//
// If the old server still reads its own object, its segment was stored before the new one has listed them, and the new
// one follows it. Else the old server is fenced: it acknowledges nothing more, and ends.
//
// Each session has a timeline of its own, also after a restart: what a fenced server stores, even one with a copy of
// the same disk, is never among the commits of another. The timeline begins with an object, which is stored after the
// list. Until then the timeline before it counts. After that, the server reads the owner once more. So of servers that
// start at the same time, one goes on only if no other has stored its session meanwhile, and each later one lists what
// it acknowledges. A timeline with commits that the owner's does not know is an error for each server and each reader,
// so that nothing is left out in silence.
//
// A request may take effect long after its sender has given it up, and so undo a later claim. Therefore each request
// that stores the owner has another timeline, and is sent once. A server is the owner only while it reads the timeline
// of the one that has succeeded.

// FencedError is the error of a server that may not add commits to the destination, because another one took over.
type FencedError struct {
	Destination string
	Host        string // the owner's; empty: unknown
	Since       time.Time
}

func (e *FencedError) Error() string {
	return fmt.Sprintf("the server on %s took over the backups in %s at %s; this one stops, and acknowledges nothing more",
		cmp.Or(e.Host, "another host"), e.Destination, e.Since.UTC().Format(time.RFC3339))
}

// OwnedError is the error of a server whose store does not continue what a destination has.
type OwnedError struct {
	Destination string
	Reason      string
	TakeOver    string // the value of --take-over with which the server would start; empty: none
}

func (e *OwnedError) Error() string {
	text := e.Destination + " " + e.Reason
	if e.TakeOver != "" {
		text += "; to go on with this store and stop any other server there, start it with --take-over " + e.TakeOver
	}
	return text
}

// ownership is what a server owns.
type ownership struct {
	timeline

	begun   bool      // the object with the timeline is stored
	history string    // short, after the commits before the timeline; empty: unknown
	since   time.Time // when this server became the owner
}

// Claim makes this server the owner of the destination. It returns an OwnedError if that belongs to another one, and
// nil if the destination does not respond and this server has owned it before: it claims it as soon as that responds.
func (s *Service) Claim(ctx context.Context) error {
	_, err := s.ensureOwner(ctx, false)
	if err == nil || IsRefusal(err) {
		return err
	}
	if !HasOwned(s.config.DB, s.config.Destination) {
		return err
	}
	origin, errOrigin := dbfile.ReadOrigin(s.path)
	if errOrigin != nil {
		return errOrigin
	}
	s.mu.Lock()
	s.former = &ownership{timeline: timeline{ID: origin.Timeline}, begun: true}
	s.mu.Unlock()
	s.config.Log.Warn("could not read the owner of the destination of the backups; trying again", "error", err)
	return nil
}

// Check returns the error that Claim would return, and changes nothing.
func Check(ctx context.Context, c Config) error {
	s, err := newService(c)
	if err != nil {
		return err
	}
	defer s.cancel()
	s.dry = true
	if _, err = s.claim(ctx, nil); err != nil && !IsRefusal(err) && HasOwned(c.DB, c.Destination) {
		c.Log.Warn("could not read the owner of the destination of the backups; the server starts and tries again",
			"error", err)
		return nil
	}
	return err
}

// HasOwned reports whether the server of the store at a path has owned a destination. It starts while that is away.
func HasOwned(db, destination string) bool {
	origin, err := dbfile.ReadOrigin(dbfile.RealPath(db))
	to, errTo := newDestination(Config{Destination: destination})
	return err == nil && errTo == nil && origin.Holder && origin.Destination == to.location("")
}

// IsRefusal reports whether an error means that this server is not the owner: a FencedError or an OwnedError.
func IsRefusal(err error) bool {
	_, fenced := errors.AsType[*FencedError](err)
	_, owned := errors.AsType[*OwnedError](err)
	return fenced || owned
}

// Fenced returns a channel that is closed when this server is no longer the owner, and Fault then tells why.
func (s *Service) Fenced() <-chan struct{} { return s.fencing }

// Fault returns why this server is no longer the owner; nil if it is, or has not claimed the destination yet.
func (s *Service) Fault() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fault
}

// ownTimeline returns the timeline that this server adds to; empty before it is the owner.
func (s *Service) ownTimeline() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own == nil {
		return ""
	}
	return s.own.ID
}

// ensureOwner makes this server the owner, unless it is, and begins its timeline if that is to have a commit or a
// backup.
func (s *Service) ensureOwner(ctx context.Context, begin bool) (o ownership, err error) {
	select {
	case s.claiming <- struct{}{}:
		defer func() { <-s.claiming }()
	case <-ctx.Done():
		return o, ctx.Err()
	}
	s.mu.Lock()
	own, former, fault := s.own, s.former, s.fault
	s.mu.Unlock()
	if fault != nil {
		return o, fault
	}
	if own != nil {
		o = *own
	} else if o, err = s.claim(ctx, former); err != nil {
		return o, s.note(err)
	}
	if begin && !o.begun {
		if err := s.begin(ctx, &o); err != nil {
			return o, err
		}
	}
	o.since = cmp.Or(o.since, time.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own = &o
	return o, nil
}

// begin begins the timeline of this server. After a restart, that is before its first commit, so that a server which is
// restarted again and again leaves no objects.
func (s *Service) begin(ctx context.Context, o *ownership) error {
	if err := putObject(ctx, s.to, s.names.timelineName(o.ID), o.timeline); err != nil {
		return fmt.Errorf("begin a timeline: %w", err)
	}
	if err := s.checkOwner(ctx, o.ID); err != nil { // a server that has started since may not have listed it
		return err
	}
	o.begun = true
	return s.hold(o.ID)
}

// ensureBegun begins the timeline of this server, unless it has begun. Even a fenced server does so, and adds to it
// what is acknowledged only without --backup-sync.
func (s *Service) ensureBegun(ctx context.Context, id string) error {
	s.mu.Lock()
	own, fault := s.own, s.fault
	s.mu.Unlock()
	switch {
	case own != nil && own.ID == id && own.begun:
		return nil
	case own != nil && own.ID == id && fault != nil:
		late := *own
		late.Fenced, late.begun = true, true
		if err := putObject(ctx, s.to, s.names.timelineName(id), late.timeline); err != nil {
			return fmt.Errorf("begin a timeline: %w", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.own = &late
		return nil
	}
	o, err := s.ensureOwner(ctx, true)
	if err == nil && o.ID != id {
		err = errNoOwner
	}
	return err
}

// stillOwner makes this server the owner, unless it is, begins its timeline, and returns an error if another one has
// taken over since.
func (s *Service) stillOwner(ctx context.Context) (o ownership, err error) {
	if o, err = s.ensureOwner(ctx, true); err == nil {
		err = s.checkOwner(ctx, o.ID)
	}
	return o, err
}

// note remembers an error which means that this server is not the owner, and returns it.
func (s *Service) note(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if IsRefusal(err) && s.fault == nil {
		s.fault, s.own = err, cmp.Or(s.own, s.former)
		close(s.fencing)
	}
	return err
}

// contents returns what the destination has, with the complete backups of this store.
func (s *Service) contents(ctx context.Context) (c *contents, err error) {
	err = retryMissing(func() error {
		files, err := s.files(ctx)
		for i := range files {
			if errors.Is(files[i].Fault, errFuture) { // a restore uses it too; the clock of this machine may be late
				files[i].Fault = nil
			}
		}
		if err == nil {
			c, err = s.archive.contentsOf(ctx, files)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own != nil && !s.own.begun {
		c.timelines[s.own.ID] = s.own.timeline
	}
	return c, nil
}

// claim makes this server the owner, which it may have been before. It changes nothing for another owner unless the
// store may take over.
func (s *Service) claim(ctx context.Context, former *ownership) (o ownership, err error) {
	c, err := s.contents(ctx)
	if err != nil {
		return o, err
	}
	origin, err := dbfile.ReadOrigin(s.path)
	if err != nil {
		return o, err
	}
	current, err := c.current()
	if err != nil {
		return o, err
	}
	if former != nil {
		other := c.owner.Session != "" && c.owner.Session != s.session
		if former.since.IsZero() { // it has not reached the destination yet
			other = current != "" && current != former.ID
		}
		if other {
			return o, s.fenced(c.owner)
		}
	}
	to := s.to.location("")
	begun := c.timelines[origin.Timeline].ID != ""
	lost := origin.Holder && origin.Destination == to && len(c.bases) == 0 &&
		(!begun || c.isUsed(origin.Timeline)) // else the server was killed during the first backup
	if lost && origin.Device != deviceOf(to) && !begun && !slices.Contains(s.config.TakeOver, origin.Timeline) {
		return o, fmt.Errorf("%s has no backup and is on another disk than before; mount the disk with the backups; "+
			"if they are lost, start the server with --take-over %s", to, origin.Timeline)
	}
	if c.owner.Store != "" && c.owner.Store != s.archive.store || current == "" && c.hasOthersOnly() {
		return o, s.owned("has the backups of another store; give each store its own --backup-dir; to restore a store that "+
			"was lost, move "+s.config.DB+" and the files beside it away, and use --restore-missing", "")
	}
	if o, err = s.follow(ctx, c, current, origin); err != nil {
		return o, err
	}
	if lost {
		s.config.Log.Warn("the destination has no backup of this store, although this server has owned it before; "+
			"check whether somebody removed them, or another disk is mounted; making a new one", "destination", to)
	}
	return o, nil
}

// hold stores beside the store that it continues a timeline of the destination.
func (s *Service) hold(id string) error {
	to := s.to.location("")
	return dbfile.WriteOrigin(s.path, dbfile.Origin{Timeline: id, Holder: true, Destination: to, Device: deviceOf(to)})
}

// deviceOf returns the device of a directory; 0 for a bucket, and if it is unknown.
func deviceOf(destination string) uint64 {
	var dir syscall.Stat_t
	if IsBucket(destination) || syscall.Stat(destination, &dir) != nil {
		return 0
	}
	return uint64(dir.Dev) //nolint:unconvert // the types differ between systems
}

// hasOthersOnly reports whether the destination has complete backups, and all of them are of another store.
func (c *contents) hasOthersOnly() bool {
	isOthers := func(b Backup) bool { return errors.Is(b.Fault, errOtherStore) }
	return len(c.bases) == 0 && slices.ContainsFunc(c.files, isOthers)
}

func (s *Service) owned(reason, takeOver string) error {
	return &OwnedError{s.to.location(""), reason, takeOver}
}

const (
	ownerPuts  = 3
	ownerRetry = 200 * time.Millisecond
)

// putOwner stores this session as the owner of a new timeline that will follow the current one. It returns that
// timeline, and what the destination has after that.
func (s *Service) putOwner(ctx context.Context, current string) (id string, c *contents, err error) {
	for n := 1; ; n++ {
		id = newID() // a request that failed may still take effect
		o := owner{
			Session: s.session, Timeline: id, After: current, Store: s.archive.store, Since: time.Now().UTC(), Host: s.host,
			Failover: s.config.Failover,
		}
		text, err := json.Marshal(o)
		if err == nil {
			err = s.to.putOnce(ctx, s.names.ownerName(), append(text, '\n'))
		}
		if err == nil {
			break
		}
		if n == ownerPuts || dbfile.Pause(ctx, ownerRetry) != nil {
			return "", nil, fmt.Errorf("store the owner: %w", err)
		}
	}
	if c, err = s.contents(ctx); err != nil {
		return "", nil, err
	}
	switch {
	case c.owner.Session != s.session:
		return "", nil, s.fenced(c.owner)
	case c.owner.Timeline != id:
		return "", nil, errNoOwner
	}
	taken := func(id string) bool { return slices.Contains(s.config.TakeOver, id) }
	if diverged := slices.DeleteFunc(c.diverged(current), taken); len(diverged) > 0 {
		return "", nil, s.conflict(current, diverged)
	}
	return id, c, nil
}

// checkOwner returns a FencedError if another session owns the destination, and errNoOwner if this one has to claim it
// again, or has done so and the owner of the timeline id is out of date.
func (s *Service) checkOwner(ctx context.Context, id string) error {
	o, err := s.archive.readOwner(ctx)
	switch {
	case err != nil:
		return err
	case o.Session != "" && o.Session != s.session:
		return s.note(s.fenced(o))
	case o.Timeline == id:
		return nil
	}
	// Somebody has removed it, such as a rule for old objects, or a request that had failed has taken effect.
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.own != nil && s.own.ID == id {
		s.own, s.former = nil, s.own
	}
	return errNoOwner
}

var errNoOwner = errors.New("the object with the owner is missing, or is an older one of this server")

func (s *Service) fenced(o owner) error {
	return &FencedError{s.to.location(""), o.Host, o.Since}
}

const timelineBytes = 8

// newID returns a random timeline or session.
func newID() string {
	var b [timelineBytes]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// CheckTimeline returns an error unless a text has the form of a timeline.
func CheckTimeline(text string) error {
	if b, err := hex.DecodeString(text); err != nil || len(b) != timelineBytes {
		return fmt.Errorf("%q is not a timeline, which has %d hexadecimal digits", text, hex.EncodedLen(timelineBytes))
	}
	return nil
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
