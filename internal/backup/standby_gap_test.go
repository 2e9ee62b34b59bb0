package backup

import (
	"os"
	"path/filepath"
	"testing"
	"time"
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
