package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite/dbfile"
)

// another returns a rig for another server with the same destination and the store at a path.
func (r *copyRig) another(db string, takeOver ...string) *copyRig {
	r.t.Helper()
	other := &copyRig{t: r.t, to: r.to, s3: r.s3, random: r.random, ids: slices.Clone(r.ids)}
	other.serve(db, takeOver...)
	r.t.Cleanup(func() { r.must(other.engine.Close()) })
	return other
}

// wantFenced copies commits, which another server does not allow.
func (r *copyRig) wantFenced() {
	r.t.Helper()
	_, fenced := errors.AsType[*FencedError](r.copier.round(r.t.Context()))
	select {
	case <-r.Fenced():
	default:
		fenced = false
	}
	if _, is := errors.AsType[*FencedError](r.Fault()); !fenced || !is {
		r.t.Errorf("the old server goes on: %v", r.Fault())
	}
	if err := r.Sync(r.t.Context()); err == nil {
		r.t.Error("Sync of the old server succeeds")
	}
}

// TestTwoServers restores the store of a server that lives on. The other one starts only if it takes over. Then the old
// one acknowledges nothing more, and what it still stores is named.
func TestTwoServers(t *testing.T) {
	t.Parallel()
	old := newCopyRig(t)
	old.backup()
	old.create(5)
	old.ship()
	restored := old.wantRestored(time.Time{}, 5)
	old.create(3) // after the restore
	old.ship()

	other := old.another(restored)
	other.must(other.engine.AppendAudit(t.Context(), audit.Event{Action: audit.StoreRestore})) // as the command does
	other.must(RecordedRestore(t.Context(), restored))
	other.wantRefused("belongs to the server on " + old.host)
	old.create(1)
	old.ship() // the refused start has not changed anything
	id := old.contents().owner.Timeline
	other.wantTakeOver(id)
	other = other.again(id)
	other.ids = slices.Clone(old.ids)
	other.wantRestored(time.Time{}, 9)
	other.ship()
	other.create(2)
	other.ship()

	old.create(4)
	old.wantFenced()
	old.must(old.engine.Close())
	old.serve(old.config.DB)
	old.wantRefused("went on after it was a copy of the other")

	other.wantRestored(time.Time{}, 11)
	_, got, err := other.restore(time.Time{})
	old.must(err)
	want := "4 commits by the server on " + old.host
	if len(got.LeftOut) != 1 || !strings.HasPrefix(got.LeftOut[0], want) || !strings.Contains(got.LeftOut[0], id) {
		t.Errorf("left out %q, want %s", got.LeftOut, want)
	}
	v, err := other.archive.Verify(t.Context(), nil)
	if err != nil || len(v.Faults) > 0 || len(v.LeftOut) != 1 {
		t.Errorf("verified %+v, %v", v, err)
	}
	path := filepath.Join(t.TempDir(), "p.db")
	got, err = old.archive.Restore(t.Context(), path, Point{Timeline: id}, false, nil)
	if err != nil || got.Plants != 13 {
		t.Errorf("restored %+v, %v, want 13 plants", got, err)
	}
}

// wantTakeOver claims the destination, which the error allows with a timeline.
func (r *copyRig) wantTakeOver(id string) {
	r.t.Helper()
	if err := r.Claim(r.t.Context()); err == nil || !strings.Contains(err.Error(), "--take-over "+id) {
		r.t.Errorf("claim: %v, want --take-over %s", err, id)
	}
}

// again starts the server again, which may take over. It first restores what was stored since the restore of its store.
func (r *copyRig) again(takeOver ...string) *copyRig {
	r.t.Helper()
	r.must(r.engine.Close())
	r.catchUp(takeOver...)
	r.serve(r.config.DB, takeOver...)
	return r
}

// catchUp restores what was stored since the restore of the store, which nobody has open.
func (r *copyRig) catchUp(takeOver ...string) {
	r.t.Helper()
	c := r.config
	c.TakeOver = takeOver
	var err error
	r.caughtUp, _, err = CatchUp(r.t.Context(), c)
	r.must(err)
}

// TestFencedAtEnd closes a fenced server, which has made a commit since: the destination has it, and it is counted.
func TestFencedAtEnd(t *testing.T) {
	t.Parallel()
	old := newCopyRig(t)
	old.backup()
	old.create(1)
	old.ship()
	other := old.another(old.wantRestored(time.Time{}, 1), old.ownTimeline())
	other.ship()
	old.create(1)
	old.Start()
	<-old.Fenced()
	old.create(1)
	old.Close()
	_, got, err := other.restore(time.Time{})
	if err != nil || !strings.HasPrefix(fmt.Sprint(got.LeftOut), "[2 commits by") {
		t.Errorf("restored %+v, %v, want 2 commits that are left out", got, err)
	}
}

// TestFencedLate stores commits of the old server after the new one has caught up: nobody has acknowledged them, so
// they do not keep the new one from its start.
func TestFencedLate(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]int{"nothing to catch up": 0, "something to catch up": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := newCopyRig(t)
			old.backup()
			old.create(1)
			old.ship()
			id := old.ownTimeline()
			other := old.another(old.wantRestored(time.Time{}, 1))
			old.create(later)
			old.ship()
			old.must(other.engine.Close())
			other.catchUp(id)
			old.create(1)
			old.wantFenced()
			other.ids = slices.Clone(old.ids[:1+later])
			other.serve(other.config.DB, id)
			other.create(1)
			other.ship()
			_, got, err := other.restore(time.Time{})
			old.must(err)
			if got.Plants != int64(len(other.ids)) || !strings.HasPrefix(fmt.Sprint(got.LeftOut), "[1 commit by") {
				t.Errorf("restored %+v, want %d plants, and that 1 commit is left out", got, len(other.ids))
			}
		})
	}
}

// TestTakeOverOnce starts with the same settings again after another server has taken over since.
func TestTakeOverOnce(t *testing.T) {
	t.Parallel()
	first := newCopyRig(t)
	first.backup()
	first.create(2)
	first.ship()
	id := first.contents().owner.Timeline
	second := first.another(first.wantRestored(time.Time{}, 2), id)
	second.create(1)
	second.ship()
	third := first.another(second.wantRestored(time.Time{}, 3), second.ownTimeline())
	third.create(1)
	third.ship()
	second.must(second.engine.Close())
	second.serve(second.config.DB, id)
	second.wantRefused("this store only up to")
	third.ship()
	third.wantRestored(time.Time{}, 4)
}

// TestStoreMoves starts a server with copies of the file of a store: older ones are refused, and one that has gone on
// elsewhere.
func TestStoreMoves(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(2)
	r.ship()
	r.must(r.engine.Close())
	older := filepath.Join(t.TempDir(), "p.db")
	for _, suffix := range []string{"", "-origin", "-mark"} {
		content, err := os.ReadFile(r.config.DB + suffix)
		r.must(err)
		r.must(os.WriteFile(older+suffix, content, 0o600))
	}
	other := r.another(older)
	other.wantRefused("belongs to")
	r.serve(r.config.DB)
	r.ship() // goes on after a restart
	r.create(1)
	r.ship()
	r.must(r.engine.Close())
	id := r.ownTimeline()
	other = other.again(id)
	other.wantRefused("it is an older copy")
	other.create(2)
	other = other.again(id)
	other.wantRefused("went on after it was a copy of the other")
	r.serve(r.config.DB)
	r.ship()
	r.wantRestored(time.Time{}, 3)
}

// TestCopyWithoutHistory starts a server with a copy of the file that was served without the copy of commits: nothing
// shows that it has the same commits.
func TestCopyWithoutHistory(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(1)
	r.ship()
	r.must(r.engine.Close())
	content, err := os.ReadFile(r.config.DB)
	r.must(err)
	path := filepath.Join(t.TempDir(), "p.db")
	r.must(os.WriteFile(path, content, 0o600))
	other := r.another(path)
	r.must(other.engine.StopJournal(t.Context()))
	other.create(3)
	other = other.again(r.ownTimeline())
	other.wantRefused("nothing shows that this store has the same ones")
	r.serve(r.config.DB)
	r.ship()
	r.wantRestored(time.Time{}, 1)
}

// TestKilledAsItBegins goes on after the server was killed twice when its timeline had begun, and nothing beside the
// store said so yet, even if the history of the store is not known.
func TestKilledAsItBegins(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(1)
	r.ship()
	r.must(r.engine.Close())
	before, err := dbfile.ReadOrigin(r.path)
	r.must(err)
	for range 2 {
		r.serve(r.config.DB)
		_, err = r.ensureOwner(t.Context(), true)
		r.must(err)
		r.must(dbfile.WriteOrigin(r.path, before))
		r.must(r.engine.Close())
	}
	r.serve(r.config.DB)
	r.must(r.engine.StopJournal(t.Context()))
	r.must(r.engine.Close())
	r.serve(r.config.DB)
	r.must(r.Claim(t.Context()))

	first := newCopyRig(t)
	first.must(first.Claim(t.Context()))
	first.must(os.Remove(first.config.DB + "-origin"))
	first.must(first.engine.Close())
	first.serve(first.config.DB)
	first.must(first.Claim(t.Context()))
}

// TestSnapshotOfMachine goes back to an older state of the file of the store and the one beside it, and to one that has
// gone on since.
func TestSnapshotOfMachine(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(2)
	r.ship()
	r.must(r.engine.Close())
	content, err := os.ReadFile(r.config.DB)
	r.must(err)
	r.serve(r.config.DB)
	r.create(2)
	r.ship()
	r.must(r.engine.Close())
	r.must(os.WriteFile(r.config.DB, content, 0o600)) // with the same inode
	r.must(os.Remove(r.config.DB + "-mark"))
	r.serve(r.config.DB)
	r.wantRefused("it is an older copy")
	r.create(2) // without the destination
	r.must(r.engine.Close())
	r.serve(r.config.DB)
	r.wantRefused("went on after it was a copy of the other")
	r.ids = r.ids[:4]
	r.wantRestored(time.Time{}, 4)
}

// TestUndoInPlace restores an earlier state in place of the store, which goes on without asking.
func TestUndoInPlace(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(3)
	undo := time.Now()
	r.create(3)
	r.ship()
	r.must(r.engine.Close())
	_, err := r.archive.Restore(t.Context(), r.config.DB, Point{At: undo}, true, nil)
	r.must(err)
	r.serve(r.config.DB)
	r.ids = r.ids[:3]
	r.create(1)
	r.ship()
	r.wantRestored(time.Time{}, 4)

	r.must(r.engine.Close())
	backups, err := r.List(t.Context())
	r.must(err)
	name := filepath.Join(r.to, backups[0].Name)
	in, err := os.ReadFile(name)
	r.must(err)
	r.must(os.WriteFile(filepath.Join(t.TempDir(), "b.db"), in, 0o600))
	r.serve(r.config.DB)
	r.create(1)
	r.ship()
	r.wantRestored(time.Time{}, 5)
}

// TestOwnerIsRemoved removes the object with the owner, as a rule for old objects does.
func TestOwnerIsRemoved(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(1)
	r.ship()
	r.must(os.Remove(filepath.Join(r.to, r.names.ownerName())))
	r.create(1)
	if err := r.copier.ship(t.Context()); !errors.Is(err, errNoOwner) {
		t.Errorf("without the owner: %v", err)
	}
	r.ship()
	r.create(1)
	r.ship()
	if o := r.contents().owner; o.Session != r.session {
		t.Errorf("the owner is %+v", o)
	}
	r.wantRestored(time.Time{}, 3)
	r.must(os.Remove(filepath.Join(r.to, r.names.ownerName())))
	r.wantRestored(time.Time{}, 3)
}

// TestOwnerOutOfReach takes over from a server that finds no owner for a while, because its directory is not mounted.
func TestOwnerOutOfReach(t *testing.T) {
	t.Parallel()
	old := newCopyRig(t)
	old.backup()
	old.create(1)
	old.ship()
	restored, mounted := old.wantRestored(time.Time{}, 1), old.to+".mounted"
	old.must(os.Rename(old.to, mounted))
	if err := old.checkOwner(t.Context(), old.ownTimeline()); !errors.Is(err, errNoOwner) {
		t.Errorf("without the directory: %v", err)
	}
	old.must(os.Rename(mounted, old.to))
	other := old.another(restored, old.contents().owner.Timeline)
	other.create(1)
	other.ship()
	old.create(1)
	old.wantFenced()
	_ = old.copier.round(t.Context()) // the last one
	_, got, err := other.restore(time.Time{})
	if err != nil || !strings.HasPrefix(fmt.Sprint(got.LeftOut), "[1 commit by") {
		t.Errorf("restored %+v, %v, want 1 commit that is left out", got, err)
	}
}

// TestOwnerStartsLater starts servers while they do not reach the destination: one that another has replaced meanwhile,
// and the owner.
func TestOwnerStartsLater(t *testing.T) {
	t.Parallel()
	old := newCopyRig(t)
	old.backup()
	old.create(1)
	old.ship()
	restored, id, mounted := old.wantRestored(time.Time{}, 1), old.ownTimeline(), old.to+".mounted"
	old.must(old.engine.Close())
	old.must(os.Rename(old.to, mounted))
	old.serve(old.config.DB)
	old.must(old.Claim(t.Context()))
	old.must(os.Rename(mounted, old.to))
	other := old.another(restored, id)
	other.create(1)
	other.ship()
	old.create(1)
	old.wantFenced()

	other.must(other.engine.Close())
	other.must(os.Rename(old.to, mounted))
	other.serve(other.config.DB)
	other.must(other.Claim(t.Context()))
	other.must(os.Rename(mounted, old.to))
	other.create(1)
	other.ship()
}

// TestRestart starts the server again and again: without a commit, that leaves no object. A restore of a time has the
// commits that were made before a restart and copied after it, and the segments of all sessions are merged.
func TestRestart(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(1)
	r.ship()
	r.create(2)
	at := time.Now()
	for range 3 {
		before := len(r.contents().ids())
		r.must(r.engine.Close())
		r.serve(r.config.DB)
		r.must(r.Claim(t.Context()))
		if n := len(r.contents().ids()); n != before {
			t.Errorf("%d timelines after a start, %d before it", n, before)
		}
		r.ship()
		r.create(1)
		r.ship()
	}
	if n := len(r.contents().ids()); n != 4 {
		t.Errorf("%d timelines, want 4", n)
	}
	r.wantRestored(time.Time{}, 6)
	r.wantRestored(at, 3)
	r.must(r.mergeOld(t.Context(), time.Now().Add(3*time.Hour)))
	for id, all := range r.contents().segments {
		if len(all) > 2 || len(all) == 2 && all[0].To.Truncate(time.Hour).Equal(all[1].To.Truncate(time.Hour)) {
			t.Errorf("%d segments of the timeline %s after a merge", len(all), id)
		}
	}
	r.wantRestored(time.Time{}, 6)
	r.wantRestored(at, 3)
}

// TestTakeOverAtOnce lets two servers take over from the same one at the same time: what one of them acknowledged is
// part of a restore, and that one may go on.
func TestTakeOverAtOnce(t *testing.T) {
	t.Parallel()
	first := newCopyRig(t)
	first.backup()
	first.create(2)
	first.ship()
	id := first.ownTimeline()
	a := first.another(first.wantRestored(time.Time{}, 2), id)
	b := first.another(first.wantRestored(time.Time{}, 2), id)
	h := b.interpose()
	h.beforePut = func(name string) {
		if name == b.names.ownerName() { // b has read the owner
			h.beforePut = nil
			a.ship()
			a.create(1)
			a.ship()
		}
	}
	errClaim := b.Claim(t.Context())
	_, owned := errors.AsType[*OwnedError](errClaim)
	a.create(1)
	a.wantFenced()
	if !owned || !strings.Contains(errClaim.Error(), "took over at the same time") {
		t.Errorf("claim: %v", errClaim)
	}
	a.wantRestored(time.Time{}, 4)
	b.must(b.engine.Close())
	b.serve(b.config.DB)
	b.wantRefused("belongs to the server on " + a.host)
	a.again()
	a.create(1)
	a.ship()
	a.wantRestored(time.Time{}, 5)
}

// TestDestinationIsAway starts servers while the destination does not respond: only the owner may go on.
func TestDestinationIsAway(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(2)
	r.ship()
	restored := r.wantRestored(time.Time{}, 2)
	r.must(r.engine.Close())
	r.must(os.Rename(r.to, r.to+"-away"))
	r.serve(r.config.DB)
	r.must(r.Claim(t.Context()))
	other := r.another(restored)
	if err := other.Claim(t.Context()); err == nil {
		t.Error("another server starts without the destination")
	}
	r.create(1)
	if err := r.copier.ship(context.WithoutCancel(t.Context())); err == nil {
		t.Error("copied a commit without the destination")
	}
	r.must(os.Rename(r.to+"-away", r.to))
	r.ship()
	r.wantRestored(time.Time{}, 3)
	if o, err := dbfile.ReadOrigin(r.path); err != nil || !o.Holder {
		t.Errorf("origin %+v, %v", o, err)
	}
}
