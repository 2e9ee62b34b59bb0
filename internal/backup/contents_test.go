package backup

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/journal"
)

// begin begins a timeline after a commit of another one, as a server does that takes over at a time.
func (r *copyRig) begin(from string, after tip, since time.Time) (id string) {
	r.t.Helper()
	id = newID()
	knew := slices.Sorted(maps.Keys(r.contents().known(r.ownTimeline())))
	r.must(putObject(r.t.Context(), r.Service.to, r.names.timelineName(id), timeline{
		ID: id, Store: r.archive.store, From: from, Commits: after.number, Since: since, Knew: knew,
	}))
	r.must(putObject(r.t.Context(), r.Service.to, r.names.ownerName(),
		owner{Session: r.session, Timeline: id, Store: r.archive.store, Since: since}))
	r.own = &ownership{timeline: timeline{ID: id, Commits: after.number}, begun: true}
	r.copier.setCopied(r.ownTimeline(), after.number, after.history)
	return id
}

// beginAt changes the times of the first backup and of its timeline.
func (r *copyRig) beginAt(at time.Time) (first string) {
	r.t.Helper()
	r.moveBackup(at)
	id := r.ownTimeline()
	begun := timeline{ID: id, Store: r.archive.store, Since: at}
	r.must(putObject(r.t.Context(), r.Service.to, r.names.timelineName(id), begun))
	r.archive = newArchive(r.Service.to, r.names, r.archive.store)
	r.copier.setCopied(r.ownTimeline(), 0, journal.History{})
	return id
}

// TestUndoMerged restores a time before an undo after the segments of both futures are merged.
func TestUndoMerged(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	day := time.Now().Add(-24 * time.Hour).Truncate(time.Hour)
	first := r.beginAt(day.Add(-time.Minute))
	at := func(minute int) time.Time { return day.Add(time.Duration(minute) * time.Minute) }
	before := r.forge([]time.Time{at(0), at(5)})
	undone := r.forgeAfter(before, []time.Time{at(6)})
	r.must(r.mergeOld(t.Context(), time.Now()))
	r.begin(first, before, at(15))
	after := r.forgeAfter(before, []time.Time{at(16), at(17)}, []time.Time{at(20)})
	for range 2 {
		r.wantCommits(at(5), before)
		r.wantCommits(at(8), undone)
		r.wantCommits(at(15), before)
		r.wantCommits(at(30), after)
		r.must(r.mergeOld(t.Context(), time.Now()))
	}
	if n := len(r.segments()); n != 3 {
		t.Errorf("%d segments, want one of the undone future and two of the other", n)
	}
}

// TestUndoHidesNoGap asks for a time at which a commit is missing, before an undo.
func TestUndoHidesNoGap(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	begin := time.Now().Add(-3 * time.Hour).Truncate(time.Second)
	first := r.beginAt(begin)
	at := func(minute int) time.Time { return begin.Add(time.Duration(minute) * time.Minute) }
	before := r.forge([]time.Time{at(1)})
	r.forgeAfter(before, []time.Time{at(2)}, []time.Time{at(4)})
	r.must(os.Remove(filepath.Join(r.to, r.segments()[1].name)))
	r.begin(first, before, at(29))
	after := r.forgeAfter(before, []time.Time{at(30)})
	r.forgeAfter(after, []time.Time{at(36)}, []time.Time{at(40)}, []time.Time{at(41)})
	own := r.contents().segments[r.ownTimeline()]
	r.must(os.Remove(filepath.Join(r.to, own[1].name)))
	r.wantCommits(at(1), before)
	r.wantError(at(2), missingText)
	r.wantError(at(5), missingText)
	r.wantCommits(at(29), before)
	r.wantError(at(33), missingText)
	r.wantError(time.Time{}, missingText)
	r.wantCommits(at(30), after) // as the error says
}

// TestHistories makes histories with undone futures, segments that are stored again with other ends, and merges, some
// of which are killed. Each time must lead to what the owner at that time had, and the newest commit to be found.
func TestHistories(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	begin := time.Now().Add(-24 * time.Hour).Truncate(time.Hour)
	first := r.beginAt(begin)
	zero := r.newest()
	for range 12 {
		seed := rand.Uint64()
		files, err := filepath.Glob(filepath.Join(r.to, "p.*"))
		r.must(err)
		for _, name := range files {
			if filepath.Base(name) != r.names.timelineName(first) {
				r.must(os.Remove(name))
			}
		}
		h := history{copyRig: r, random: rand.New(rand.NewPCG(seed, 0)), now: begin}
		h.all = [][]forged{{{zero, begin}}}
		h.ids, h.since = []string{first}, []time.Time{begin}
		r.own = &ownership{timeline: timeline{ID: first}, begun: true}
		r.must(putObject(t.Context(), r.Service.to, r.names.ownerName(), owner{Session: r.session, Timeline: first}))
		for range 30 {
			h.step()
		}
		for range 12 {
			h.check(seed, begin.Add(time.Duration(h.random.Int64N(int64(h.now.Sub(begin))))))
		}
		h.check(seed, time.Time{})
	}
}

// history has the commits of several servers that continue each other's stores.
type history struct {
	*copyRig

	random *rand.Rand
	now    time.Time
	ids    []string    // the timelines, in the order of their owners
	since  []time.Time // for each timeline
	all    [][]forged  // all commits that lead to the end of each timeline
}

type forged struct {
	tip

	at time.Time
}

// step does one thing at random.
func (h *history) step() {
	h.now = h.now.Add(time.Duration(h.random.IntN(100_000)) * time.Millisecond)
	switch h.random.IntN(8) {
	case 0:
		of := h.random.IntN(len(h.all))
		keep := 1 + h.random.IntN(len(h.all[of]))
		h.all = append(h.all, slices.Clone(h.all[of][:keep]))
		h.since = append(h.since, h.now)
		h.ids = append(h.ids, h.begin(h.ids[of], h.all[of][keep-1].tip, h.now))
	case 1, 2:
		h.mergeKilled()
	default:
		h.store()
	}
}

// mergeKilled merges segments, and leaves some that the merged ones cover.
func (h *history) mergeKilled() {
	left := map[string][]byte{}
	for _, s := range h.segments() {
		content, err := os.ReadFile(filepath.Join(h.to, s.name))
		h.must(err)
		if h.random.IntN(4) == 0 {
			left[s.name] = content
		}
	}
	h.must(h.mergeOld(h.t.Context(), h.now.Add(time.Duration(h.random.IntN(4*3600))*time.Second)))
	for name, content := range left {
		h.must(os.WriteFile(filepath.Join(h.to, name), content, 0o600))
	}
}

// store stores commits of the newest timeline, with some that are stored already.
func (h *history) store() {
	n := len(h.all) - 1
	all := h.all[n]
	from := len(all)
	for from > 1 && all[from-1].at.After(h.since[n]) && h.random.IntN(2) == 0 {
		from--
	}
	for range h.random.IntN(5) {
		h.now = h.now.Add(time.Duration(1+h.random.IntN(2000)) * time.Millisecond)
		last := all[len(all)-1]
		c := journal.Commit{Number: last.number + 1, At: h.now, Changes: journal.ChangedRows(nil)}
		all = append(all, forged{tip{c.Number, last.history.After(&c)}, h.now})
	}
	h.all[n] = all
	if from == len(all) {
		return
	}
	var times []time.Time
	for _, c := range all[from:] {
		times = append(times, c.at)
	}
	h.forgeAfter(all[from-1].tip, times)
}

// check plans a restore of a time.
func (h *history) check(seed uint64, at time.Time) {
	h.t.Helper()
	n := len(h.all) - 1
	for n > 0 && !at.IsZero() && h.since[n].After(at) {
		n--
	}
	want := h.all[n][0]
	for _, c := range h.all[n] {
		if at.IsZero() || !c.at.After(at) {
			want = c
		}
	}
	if got, err := h.planned(at); err != nil || got != want.tip {
		h.t.Errorf("seed %d, %v: a restore would reach commit %v, %v, want %v", seed, at, got, err, want.tip)
	}
}

// planned returns the commit that a restore would reach, also with a backup of addBackup.
func (r *copyRig) planned(at time.Time) (got tip, err error) {
	r.t.Helper()
	a := newArchive(r.Service.to, r.names, "")
	c, err := a.contents(r.t.Context())
	r.must(err)
	p, err := c.planFor(Point{At: at})
	if err != nil {
		return got, err
	}
	got = tip{p.base.Manifest.Commits, journal.ParseHistory(p.base.Manifest.History)}
	for _, s := range p.steps {
		content, err := a.readSegment(r.t.Context(), s.segment)
		r.must(err)
		_, err = journal.Read(bytes.NewReader(content), func(c *journal.Commit, after journal.History) error {
			if c.Number > got.number && c.Number <= s.until && (at.IsZero() || !c.At.After(at)) {
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
	m.MadeAt, m.CommittedAt, m.Commits, m.History, m.Timeline = at, at, last.number, last.history.String(), r.ownTimeline()
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
	r.create(2)
	at := time.Now()
	r.create(1)
	r.next()
	r.backup()
	r.create(1)
	r.ship()
	r.wantRestored(at, 4)
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
	first := r.beginAt(begin)
	zero := r.newest()
	at := func(hour int) time.Time { return begin.Add(time.Duration(hour) * time.Hour) }
	undone := r.forge([]time.Time{at(1)}, []time.Time{at(2), at(2), at(2)})
	r.begin(first, zero, at(3))
	other := r.forgeAfter(zero, []time.Time{at(3)})
	r.addBackup(other, at(24))
	later := r.forgeAfter(other, []time.Time{at(25)})
	r.begin(first, undone, at(29))
	last := r.forgeAfter(undone, []time.Time{at(30)}, []time.Time{at(40)})
	r.addBackup(last, at(48))
	for range 2 {
		for hour, want := range map[int]tip{26: later, 60: last} {
			if got, err := r.planned(at(hour)); err != nil || got != want {
				t.Errorf("a restore of hour %d would reach commit %v, %v, want %v", hour, got, err, want)
			}
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
	of := r.beginAt(begin)
	for _, suffix := range []string{"", backupfile.ManifestSuffix} {
		path := func(end string) string { return filepath.Join(r.to, r.names.nameAt(begin, end)+suffix) }
		r.must(os.Rename(path(scheduledEnd), path(manualEnd)))
	}
	first := r.newest()
	at := func(hour float64) time.Time { return begin.Add(time.Duration(hour * float64(time.Hour))) }
	undone := r.forge([]time.Time{at(1), at(2)})
	r.begin(of, first, at(23))
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
	tenth := r.forgeAfter(second, times[2:10])
	r.wantCommits(time.Time{}, tenth)
	r.wantCommits(time.Time{}, r.forgeAfter(tenth, times[10:]))
}

// listed is a destination that lists further files, which it does not have.
type listed struct {
	destination

	files []file
}

func (l *listed) list(ctx context.Context, prefix string) ([]file, error) {
	files, err := l.destination.list(ctx, prefix)
	if strings.HasSuffix(prefix, ".") {
		files = append(files, l.files...)
	}
	return files, err
}

// TestPlanOfManySegments plans with 100,000 segments, which a merge has not replaced or could not remove: the time that
// it takes is not their square.
func TestPlanOfManySegments(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.ship()
	const commits = 100_000
	l := &listed{destination: r.Service.to}
	add := func(first, last int64) {
		s := journal.Segment{
			Timeline: r.ownTimeline(), First: first, Last: last, To: time.Unix(last, 0), After: journal.History{}.String(),
		}
		l.files = append(l.files, file{name: s.Name(r.names.segmentPrefix())})
	}
	first := r.contents().bases[0].Manifest.Commits + 1
	for i := range int64(commits) {
		add(first+i, first+i)
	}
	r.archive.to = l
	for _, want := range []int{commits, 2} {
		p, err := r.contents().planFor(Point{})
		if n := len(p.steps); err != nil || n != want || p.steps[n-1].until != first+commits-1 {
			t.Errorf("%d steps, %v, want %d", n, err, want)
		}
		add(first, first+commits/2)
		add(first+commits/2, first+commits-1)
	}
}
