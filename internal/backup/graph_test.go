package backup

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

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
	a := newArchive(f.Service.to, f.names)
	g, err := a.graph(f.t.Context())
	f.must(err)
	base, steps, err := g.plan(f.t.Context(), at)
	if err != nil {
		f.t.Errorf("seed %d, %v: %v", seed, at, err)
		return
	}
	got, want := f.all[0].tip, f.all[0]
	for _, c := range f.all {
		if (at.IsZero() || !c.at.After(at)) && c.at.After(want.at) {
			want = c
		}
	}
	if got.number != base.Manifest.Commits {
		f.t.Fatalf("the route begins with %s", base.Name)
	}
	for i, s := range steps {
		last := i == len(steps)-1
		content, err := a.check(f.t.Context(), s.segment)
		f.must(err)
		_, err = journal.Read(bytes.NewReader(content), func(c *journal.Commit, after journal.History) error {
			if c.Number > got.number && c.Number <= s.until.commits && (!last || at.IsZero() || !c.At.After(at)) {
				got = tip{c.Number, after}
			}
			return nil
		})
		f.must(err)
	}
	if got != want.tip {
		f.t.Errorf("seed %d, %v: reached commit %v, want %v", seed, at, got, want.tip)
	}
}
