package backup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite"
)

// standbyConfig returns the configuration of a standby of the server with the store at a path.
func (r *copyRig) standbyConfig(db string) Config {
	c := r.config
	c.DB, c.Engine, c.Standby, c.Failover = db, nil, true, time.Hour
	return c
}

// TestStandbyAfterGap opens a standby whose store is a backup after which a segment is missing: it is restored from a
// newer backup.
func TestStandbyAfterGap(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.create(1)
	r.ship()
	r.backup()
	db, _, err := r.restore(time.Time{})
	r.must(err)
	r.create(1)
	r.ship()
	lost := r.segments()
	r.must(os.Remove(filepath.Join(r.to, lost[len(lost)-1].name)))
	r.create(1)
	r.ship()
	r.acquire()
	r.must(r.makeScheduled(time.Now().Add(time.Second))) // no other one has its name
	s, err := OpenStandby(t.Context(), r.standbyConfig(db), "")
	r.must(err)
	if got, want := s.Status().Commits, r.newest().number; got != want {
		t.Errorf("the store has %d commits, want %d", got, want)
	}
	r.must(s.Close())
}

// TestStandbyWithoutFile removes the file of a standby: it gives the store up, and fences no owner before that.
func TestStandbyWithoutFile(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(1)
	r.ship()
	db, _, err := r.restore(time.Time{})
	r.must(err)
	s, err := OpenStandby(t.Context(), r.standbyConfig(db), "")
	r.must(err)
	r.must(s.round(t.Context()))
	r.must(os.Remove(db))
	if _, err := s.takeOver(t.Context()); err == nil {
		t.Error("it takes over")
	}
	if got := r.contents().owner.Session; got != r.session {
		t.Error("it has fenced the owner")
	}
	if err := s.round(t.Context()); !errors.Is(err, errRestore) {
		t.Errorf("the round: %v, want %v", err, errRestore)
	}
	r.must(s.Close())
	s, err = OpenStandby(t.Context(), r.standbyConfig(db), "")
	r.must(err)
	r.must(s.round(t.Context()))
	r.must(s.Close())
}

// TestStandbyKeepsChanges opens a standby on a restored store that a command has changed since: the change is kept
// aside.
func TestStandbyKeepsChanges(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(1)
	r.ship()
	db, _, err := r.restore(time.Time{})
	r.must(err)
	s, err := OpenStandby(t.Context(), r.standbyConfig(db), "")
	r.must(err)
	r.create(1)
	r.ship()
	r.must(s.round(t.Context()))
	r.must(s.Close())
	engine, err := sqlite.Open(t.Context(), sqlite.Config{Path: db, MustExist: true})
	r.must(err)
	r.must(engine.AppendAudit(t.Context(), audit.Event{Time: time.Now(), Action: audit.StoreRestore}))
	r.must(engine.Close())
	s, err = OpenStandby(t.Context(), r.standbyConfig(db), "")
	r.must(err)
	if got, want := s.Status().Commits, r.contents().lastOf(r.ownTimeline()); got != want {
		t.Errorf("the store has %d commits, want %d", got, want)
	}
	r.must(s.Close())
	if kept, _ := filepath.Glob(db + "-set-aside-*"); len(kept) != 1 {
		t.Errorf("kept %v, want one file", kept)
	}
}

// TestStandbyLeavesTime lets a take-over fail: the standby repeats it at once, but not without end.
func TestStandbyLeavesTime(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(1)
	r.ship()
	db, _, err := r.restore(time.Time{})
	r.must(err)
	s, err := OpenStandby(t.Context(), r.standbyConfig(db), "")
	r.must(err)
	r.must(s.round(t.Context()))
	s.renewed = time.Now()
	for range attemptsMax {
		_, err = s.takeOver(t.Context())
		r.must(err)
		r.must(s.round(t.Context()))
		s.renewed = time.Now()
	}
	if s.due(false) {
		t.Error("it takes over again, and no other one can")
	}
	r.must(s.Close())
}

// TestStandbySlowDestination lets the rounds of a standby take some seconds: it takes over nevertheless. After a fault
// of the destination, the owner has its whole time again.
func TestStandbySlowDestination(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(1)
	r.ship()
	db, _, err := r.restore(time.Time{})
	r.must(err)
	c := r.standbyConfig(db)
	s, err := OpenStandby(t.Context(), c, "")
	r.must(err)
	r.must(s.round(t.Context()))
	seen := time.Now().Add(-c.Failover)
	s.renewed, s.read = seen, time.Now().Add(-c.Failover/2)
	r.must(s.round(t.Context()))
	if !s.renewed.Equal(seen) {
		t.Error("a slow round counts as a sign of the owner")
	}
	r.must(os.Rename(r.to, r.to+"-away"))
	if err := s.round(t.Context()); err == nil {
		t.Error("the destination is away, and the round succeeds")
	}
	r.must(os.Rename(r.to+"-away", r.to))
	r.must(s.round(t.Context()))
	if s.renewed.Equal(seen) {
		t.Error("the owner has no time to come back")
	}
	r.must(s.Close())
}
