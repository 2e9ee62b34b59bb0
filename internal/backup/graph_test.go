package backup

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/journal"
)

// TestUndoMerged restores a time before an undo after the segments of both futures are merged: one segment has the
// commits before the undo and those after it, another one has the undone commits.
func TestUndoMerged(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	day := time.Now().Add(-24 * time.Hour).Truncate(time.Hour)
	r.moveBackup(day.Add(-time.Minute))
	at := func(minute int) time.Time { return day.Add(time.Duration(minute) * time.Minute) }
	before := r.forge([]time.Time{at(0), at(5)})
	undone := r.forgeAfter(before, []time.Time{at(6)})
	after := r.forgeAfter(before, []time.Time{at(16), at(17)}, []time.Time{at(20)})
	for range 2 {
		r.wantCommits(at(5), before)
		r.wantCommits(at(8), undone)
		r.wantCommits(at(30), after)
		r.must(r.mergeOld(t.Context(), time.Now()))
	}
	if n := len(r.segments()); n != 2 {
		t.Errorf("%d segments, want 2", n)
	}
}

// TestUndoHidesNoGap asks for a time at which a commit is missing, before an undo.
func TestUndoHidesNoGap(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	begin := time.Now().Add(-3 * time.Hour).Truncate(time.Second)
	r.moveBackup(begin)
	at := func(minute int) time.Time { return begin.Add(time.Duration(minute) * time.Minute) }
	before := r.forge([]time.Time{at(1)})
	r.forgeAfter(before, []time.Time{at(2)}, []time.Time{at(4)})
	r.must(os.Remove(filepath.Join(r.to, r.segments()[1].name)))
	after := r.forgeAfter(before, []time.Time{at(30)})
	r.forgeAfter(after, []time.Time{at(36)}, []time.Time{at(40)}, []time.Time{at(41)})
	r.must(os.Remove(filepath.Join(r.to, r.segments()[4].name)))
	r.wantCommits(at(1), before)
	r.wantError(at(2), missingText)
	r.wantError(at(5), missingText)
	r.wantCommits(at(33), after)
	r.wantError(time.Time{}, missingText)
}

// TestClockWasSetBack detects a missing segment although the backup was made before the clock was set back.
func TestClockWasSetBack(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	back := time.Now().Add(-2 * time.Hour).Truncate(time.Second)
	first := r.forge([]time.Time{back})
	r.forgeAfter(first, []time.Time{back.Add(time.Second)}, []time.Time{back.Add(2 * time.Second)})
	r.must(os.Remove(filepath.Join(r.to, r.segments()[1].name)))
	r.wantError(time.Time{}, missingText)
	r.wantCommits(back, first) // as the error says
}

// TestUndoneClockWasAhead undoes commits of a clock that was a day ahead.
func TestUndoneClockWasAhead(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	now := time.Now()
	ahead := now.Add(24 * time.Hour)
	first := r.forge([]time.Time{now})
	r.forgeAfter(first, []time.Time{now.Add(time.Millisecond), ahead}, []time.Time{ahead})
	last := r.forgeAfter(first, []time.Time{now.Add(time.Second)})
	r.wantCommits(time.Time{}, last)
}

// TestForks makes histories with undone futures, segments that are stored again with other ends, and merges, some of
// which are killed. Each time must lead to the latest commit before it, and the newest commit to be found.
func TestForks(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	begin := time.Now().Add(-24 * time.Hour).Truncate(time.Hour)
	r.moveBackup(begin)
	for range 12 {
		seed := rand.Uint64()
		for _, s := range r.segments() {
			r.must(os.Remove(filepath.Join(r.to, s.name)))
		}
		f := forks{copyRig: r, random: rand.New(rand.NewPCG(seed, 0)), now: begin}
		f.all = []forked{{tip: r.newest(), at: begin}}
		for range 30 {
			f.step()
		}
		for range 12 {
			f.check(seed, begin.Add(time.Duration(f.random.Int64N(int64(f.now.Sub(begin))))))
		}
		f.check(seed, time.Time{})
	}
}

// forks are the commits of several servers that continue each other's stores.
type forks struct {
	*copyRig

	random *rand.Rand
	now    time.Time
	all    []forked
}

type forked struct {
	tip

	before int // index of the commit before
	at     time.Time
}

// step does one thing at random.
func (f *forks) step() {
	f.now = f.now.Add(time.Duration(f.random.IntN(100_000)) * time.Millisecond)
	if f.random.IntN(4) > 0 {
		f.store()
		return
	}
	left := map[string][]byte{} // by a killed merge
	for _, s := range f.segments() {
		content, err := os.ReadFile(filepath.Join(f.to, s.name))
		f.must(err)
		if f.random.IntN(4) == 0 {
			left[s.name] = content
		}
	}
	f.must(f.mergeOld(f.t.Context(), f.now.Add(time.Duration(f.random.IntN(4*3600))*time.Second)))
	for name, content := range left {
		f.must(os.WriteFile(filepath.Join(f.to, name), content, 0o600))
	}
}

// store stores commits after the newest one, or after an old one, with some that are stored already.
func (f *forks) store() {
	from := len(f.all) - 1
	if f.random.IntN(3) == 0 {
		from = f.random.IntN(len(f.all))
	}
	var path []int
	for again := f.random.IntN(4); again > 0 && from > 0; again-- {
		path = append([]int{from}, path...)
		from = f.all[from].before
	}
	last := from
	if len(path) > 0 {
		last = path[len(path)-1]
	}
	for range f.random.IntN(5) {
		f.now = f.now.Add(time.Duration(1+f.random.IntN(2000)) * time.Millisecond)
		c := journal.Commit{Number: f.all[last].number + 1, At: f.now, Changes: journal.ChangedRows(nil)}
		f.all = append(f.all, forked{tip: tip{c.Number, f.all[last].history.After(&c)}, before: last, at: f.now})
		last = len(f.all) - 1
		path = append(path, last)
	}
	if len(path) == 0 {
		return
	}
	times := make([]time.Time, len(path))
	for i, n := range path {
		times[i] = f.all[n].at
	}
	f.forgeAfter(f.all[from].tip, times)
}

// check finds the route to a time.
func (f *forks) check(seed uint64, at time.Time) {
	f.t.Helper()
	want := f.all[0]
	for _, c := range f.all {
		if (at.IsZero() || !c.at.After(at)) && c.at.After(want.at) {
			want = c
		}
	}
	if got, err := f.planned(at); err != nil || got != want.tip {
		f.t.Errorf("seed %d, %v: a restore would reach commit %v, %v, want %v", seed, at, got, err, want.tip)
	}
}

// planned returns the commit that a restore would reach, also with a backup of addBackup.
func (r *copyRig) planned(at time.Time) (got tip, err error) {
	r.t.Helper()
	a := newArchive(r.Service.to, r.names)
	g, err := a.graph(r.t.Context())
	r.must(err)
	base, steps, err := g.plan(r.t.Context(), at)
	if err != nil {
		return got, err
	}
	got = tip{base.Manifest.Commits, journal.ParseHistory(base.Manifest.History)}
	for i, s := range steps {
		last := i == len(steps)-1
		_, content, err := a.check(r.t.Context(), s.segment)
		r.must(err)
		_, err = journal.Read(bytes.NewReader(content), func(c *journal.Commit, after journal.History) error {
			if c.Number > got.number && c.Number <= s.until.commits && (!last || at.IsZero() || !c.At.After(at)) {
				got = tip{c.Number, after}
			}
			return nil
		})
		r.must(err)
	}
	return got, nil
}

// addBackup stores a copy of the newest backup with the manifest of one that was made at a time after a commit.
func (r *copyRig) addBackup(last tip, at time.Time) {
	r.t.Helper()
	backups, err := r.List(r.t.Context())
	r.must(err)
	content, err := os.ReadFile(backups[0].Location)
	r.must(err)
	m := backups[0].Manifest
	m.MadeAt, m.Commits, m.History = at, last.number, last.history.String()
	text, err := json.Marshal(m)
	r.must(err)
	path := filepath.Join(r.to, r.names.nameAt(at, scheduledEnd))
	r.must(os.WriteFile(path, content, 0o600))
	r.must(os.WriteFile(path+backupfile.ManifestSuffix, text, 0o600))
}

// TestGapBeforeBackup asks for a time at which a commit is missing, before a backup that ends inside a segment.
func TestGapBeforeBackup(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(1)
	r.ship()
	r.create(1)
	r.ship()
	lost := r.segments()[1]
	r.create(3)
	at := time.Now()
	r.next()
	r.backup()
	r.create(1)
	r.ship()
	r.wantRestored(at, 5)
	r.must(os.Remove(filepath.Join(r.to, lost.name)))
	r.wantRestored(time.Time{}, 6)
	r.wantError(at, missingText)
}

// TestUndoOfUndo goes on from a future whose first commits the retention removes. A time before the next backup needs
// them.
func TestUndoOfUndo(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	begin := time.Now().Add(-100 * time.Hour).Truncate(time.Hour)
	r.moveBackup(begin)
	zero := r.newest()
	at := func(hour int) time.Time { return begin.Add(time.Duration(hour) * time.Hour) }
	undone := r.forge([]time.Time{at(1)}, []time.Time{at(2), at(2), at(2)})
	other := r.forgeAfter(zero, []time.Time{at(3)})
	r.addBackup(other, at(24))
	r.forgeAfter(other, []time.Time{at(25)})
	last := r.forgeAfter(undone, []time.Time{at(30)}, []time.Time{at(40)})
	r.addBackup(last, at(48))
	for range 2 {
		if got, err := r.planned(time.Time{}); err != nil || got != last {
			t.Errorf("a restore would reach commit %v, %v, want %v", got, err, last)
		}
		r.removeOld()
	}
	if got, err := r.planned(at(45)); err == nil {
		t.Errorf("a restore would reach commit %v, want an error", got)
	}
}

// TestUndoBeforeOldest asks for a time in an undone future, of which retention has removed everything. A manual backup
// is left from before it.
func TestUndoBeforeOldest(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	begin := time.Now().Add(-100 * time.Hour).Truncate(time.Hour)
	r.moveBackup(begin)
	for _, suffix := range []string{"", backupfile.ManifestSuffix} {
		path := func(end string) string { return filepath.Join(r.to, r.names.nameAt(begin, end)+suffix) }
		r.must(os.Rename(path(scheduledEnd), path(manualEnd)))
	}
	first := r.newest()
	at := func(hour float64) time.Time { return begin.Add(time.Duration(hour * float64(time.Hour))) }
	undone := r.forge([]time.Time{at(1), at(2)})
	other := r.forgeAfter(first, []time.Time{at(23.4), at(23.5)})
	r.addBackup(other, at(24))
	last := r.forgeAfter(other, []time.Time{at(25)})
	want := func(hour float64, want tip) {
		t.Helper()
		if got, err := r.planned(at(hour)); err != nil || got != want {
			t.Errorf("a restore of hour %v would reach commit %v, %v, want %v", hour, got, err, want)
		}
	}
	want(3, undone)
	r.removeOld()
	if got, err := r.planned(at(3)); err == nil {
		t.Errorf("a restore would reach commit %v, want an error", got)
	}
	want(0, first) // as the error says
	want(24, other)
	want(25, last)
}

// TestRestoreBehind restores newest commits that lie ahead of the clock.
func TestRestoreBehind(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	times := make([]time.Time, 11)
	for i := range times {
		times[i] = time.Now().Add(10*time.Minute + time.Duration(i)*time.Second)
	}
	second := r.forge(times[:2])
	r.forge(times[:5]) // a server was killed
	r.wantCommits(time.Time{}, r.forgeAfter(second, times[2:10]))
	r.wantCommits(time.Time{}, r.forgeAfter(second, times[10:]))
}

// TestClockWasSetBackAtBackup keeps a segment from before a backup, which has its commits. Then the clock is set back.
func TestClockWasSetBackAtBackup(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	made := time.Now().Add(-10 * time.Hour).Truncate(time.Second)
	ago := func(minutes int) []time.Time { return []time.Time{made.Add(-time.Duration(minutes) * time.Minute)} }
	before := r.forge(ago(90), ago(30), ago(6))
	first, err := r.List(t.Context())
	r.must(err)
	r.addBackup(before, made)
	r.must(r.Delete(t.Context(), first[0].Name, r.config.By))
	r.removeOld()
	if n := len(r.segments()); n != 2 {
		t.Fatalf("%d segments, want 2", n)
	}
	want := r.forgeAfter(before, ago(42))
	if got, err := r.planned(time.Time{}); err != nil || got != want {
		t.Errorf("a restore would reach commit %v, %v, want %v", got, err, want)
	}
}
