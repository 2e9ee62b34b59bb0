package backup

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestLoss compares what the service says about the removal of a backup, and about the states that a restore has, with
// restores.
func TestLoss(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	var backups []Backup
	add := func() {
		t.Helper()
		r.acquire()
		r.must(r.makeScheduled(time.Now().Add(time.Duration(len(backups)-9) * time.Minute)))
		all, err := r.List(t.Context())
		r.must(err)
		backups = append(backups, all[0])
	}
	madeAt := func(i int) time.Time { return until(backups[i].Manifest) }
	want := func(i int, want Loss) {
		t.Helper()
		got, err := r.Loss(t.Context(), backups[i].Name)
		if err != nil || got.Some != want.Some || !got.After.Equal(want.After) || !got.Before.Equal(want.Before) {
			t.Errorf("loss of backup %d: %+v, %v, want %+v", i, got, err, want)
		}
	}
	remove := func(i int) {
		t.Helper()
		r.must(r.Delete(t.Context(), backups[i].Name, admin))
	}
	wantSince := func(i int) {
		t.Helper()
		if got, err := r.contents().restorableSince(); err != nil || !got.Equal(madeAt(i)) {
			t.Errorf("restorable since %s, %v, want the backup %d of %s", got, err, i, madeAt(i))
		}
	}
	r.create(2)
	add()
	want(0, Loss{Some: true})
	wantSince(0)
	for range 3 {
		r.create(1)
		r.ship()
	}
	want(0, Loss{Some: true})
	add()
	r.create(2)
	r.ship()
	want(0, Loss{Some: true, Before: madeAt(1)})
	want(1, Loss{}) // the segments after the first backup have all
	wantSince(0)

	var first time.Time // when the first commit after the first backup was made
	for _, s := range r.segments() {
		switch s.First - backups[0].Manifest.Commits {
		case 1:
			first = s.To
		case 2:
			r.must(os.Remove(filepath.Join(r.to, s.name)))
		}
	}
	want(1, Loss{Some: true, After: first})
	wantSince(1)
	add()
	r.create(1)
	r.ship()
	want(1, Loss{Some: true, After: first, Before: madeAt(2)})
	want(2, Loss{})
	r.wantRestored(madeAt(2).Add(-time.Microsecond), 6)
	remove(1)
	r.wantError(madeAt(2).Add(-time.Microsecond), missingText)
	wantSince(2)
	r.wantRestored(first, 3)
	r.wantRestored(madeAt(2), 7)

	want(2, Loss{Some: true, After: first})
	want(0, Loss{Some: true, Before: madeAt(2)})
	remove(0)
	r.wantError(first, "no complete backup from before that time")
	want(2, Loss{Some: true})
	r.wantRestored(time.Time{}, 8)
	remove(2)
	if got, err := r.Loss(t.Context(), backups[2].Name); err != nil || got != (Loss{}) {
		t.Errorf("without the backup: %+v, %v", got, err)
	}
}
