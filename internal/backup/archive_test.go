package backup

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/audit"
	"plantstore/internal/plant"
	"plantstore/internal/s3"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/journal"
	"plantstore/internal/store"
)

// copyRig is a store with a service that copies its commits to a directory when the test says so.
type copyRig struct {
	*Service

	t      *testing.T
	engine *sqlite.Engine
	to     string // destination
	s3     s3.Config
	random *rand.Rand
	ids    []int64 // ids of the plants, one for each commit

	caughtUp string // Config.CaughtUp of the next server
}

func newCopyRig(t *testing.T) *copyRig {
	t.Helper()
	return newCopyRigTo(t, t.TempDir(), s3.Config{})
}

// newCopyRigTo returns a rig with a destination.
func newCopyRigTo(t *testing.T, to string, server s3.Config) *copyRig {
	t.Helper()
	r := &copyRig{t: t, to: to, s3: server, random: rand.New(rand.NewPCG(1, 2))}
	r.serve(filepath.Join(t.TempDir(), "p.db"))
	t.Cleanup(func() { r.must(r.engine.Close()) })
	return r
}

// serve opens the store at a path with a service, which may take over from others.
func (r *copyRig) serve(db string, takeOver ...string) {
	r.t.Helper()
	e, err := sqlite.Open(r.t.Context(), sqlite.Config{Path: db, Server: true})
	r.must(err)
	r.engine = e
	r.Service, err = New(Config{
		DB: db, Destination: r.to, S3: r.s3, Scratch: r.t.TempDir(), Every: time.Hour, Keep: 2, Engine: e, Lag: time.Second,
		TakeOver: takeOver, CaughtUp: r.caughtUp,
		Record: func(audit.Event) {}, Log: slog.New(slog.NewTextHandler(r.t.Output(), nil)),
		Metrics: prometheus.NewRegistry(),
	})
	r.must(err)
}

func (r *copyRig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// create commits plants, one after the other.
func (r *copyRig) create(n int) {
	r.t.Helper()
	for range n {
		id := r.random.Int64()
		_, err := r.engine.Insert(r.t.Context(), []store.Create{{
			Plant: plant.NewPlant{ID: id, Plant: plant.Plant{Name: fmt.Sprint("plant ", len(r.ids))}}, At: time.Now(),
		}})
		r.must(err)
		r.ids = append(r.ids, id)
	}
}

func (r *copyRig) ship() {
	r.t.Helper()
	r.must(r.copier.ship(r.t.Context()))
}

func (r *copyRig) backup() {
	r.t.Helper()
	r.acquire()
	r.must(r.makeScheduled(time.Now()))
}

// takeOver closes the server and starts one for another store, which takes over.
func (r *copyRig) takeOver(db string) {
	r.t.Helper()
	r.must(r.engine.Close())
	r.serve(db, r.contents().owner.Timeline)
}

// contents returns what the destination has.
func (r *copyRig) contents() *contents {
	r.t.Helper()
	c, err := r.archive.contents(r.t.Context())
	r.must(err)
	return c
}

// restore restores the destination and returns the path of the store.
func (r *copyRig) restore(at time.Time) (string, Recovered, error) {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), "p.db")
	a, err := OpenArchive(r.t.Context(), r.to, r.s3, path)
	r.must(err)
	got, err := a.Restore(r.t.Context(), path, Point{At: at}, false, nil)
	return path, got, err
}

// wantRestored restores the destination, which must have the first plants.
func (r *copyRig) wantRestored(at time.Time, plants int) string {
	r.t.Helper()
	path, got, err := r.restore(at)
	r.must(err)
	v, err := backupfile.Verify(r.t.Context(), path, nil)
	r.must(err)
	if len(v.Faults) > 0 || int(v.Plants) != plants || int(got.Plants) != plants {
		r.t.Errorf("restored %d plants, verified %d plants with faults %q, want %d plants",
			got.Plants, v.Plants, v.Faults, plants)
	}
	e, err := sqlite.Open(r.t.Context(), sqlite.Config{Path: path, ReadOnly: true})
	r.must(err)
	defer e.Close()
	for i, id := range r.ids {
		record, err := e.Get(r.t.Context(), id)
		if found := err == nil; found != (i < plants) || found && record.Name != fmt.Sprint("plant ", i) {
			r.t.Errorf("plant %d after the restore: %v, %v", i, record, err)
		}
	}
	return path
}

// segments returns the names of the segments.
func (r *copyRig) segments() []segment {
	r.t.Helper()
	var all []segment
	for _, of := range r.contents().segments {
		all = append(all, of...)
	}
	slices.SortStableFunc(all, func(a, b segment) int { return cmp.Or(cmp.Compare(a.First, b.First), a.To.Compare(b.To)) })
	return all
}

func TestRestoreAnyCommit(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.create(3)
	r.backup()
	var times []time.Time // just after each commit
	for i := range 20 {
		r.create(1)
		times = append(times, time.Now())
		if i%3 == 0 {
			r.ship()
		}
	}
	r.wantRestored(time.Time{}, 22) // one commit is not shipped
	r.ship()
	r.wantRestored(time.Time{}, 23)
	for i, at := range times {
		r.wantRestored(at, 4+i)
	}
	before := len(r.segments())
	r.must(r.mergeOld(t.Context(), time.Now().Add(3*time.Hour)))
	if n := len(r.segments()); n != 1 && n != 2 { // the test may run at the end of an hour
		t.Errorf("%d segments after the merge of %d", n, before)
	}
	for i, at := range times {
		r.wantRestored(at, 4+i)
	}
}

// TestRestoredStoreContinues restores an earlier commit, and continues from there in the same destination.
func TestRestoredStoreContinues(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(5)
	undo := time.Now()
	r.create(5)
	r.ship()
	before := time.Now()
	r.must(r.mergeOld(t.Context(), time.Now().Add(3*time.Hour)))

	path := r.wantRestored(undo, 5)
	old := r.ids
	r.ids = r.ids[:5:5]
	r.takeOver(path)
	r.create(4)
	r.ship()
	r.wantRestored(time.Time{}, 9)
	r.ids = old
	r.wantRestored(before, 10)
}

// TestSegmentIsDamaged alters, cuts, exchanges and removes segments.
func TestSegmentIsDamaged(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	for range 4 {
		r.create(2)
		r.ship()
	}
	all := r.segments()
	path := func(i int) string { return filepath.Join(r.to, all[i].name) }
	whole, err := os.ReadFile(path(2))
	r.must(err)
	other, err := os.ReadFile(path(1))
	r.must(err)
	altered := append([]byte(nil), whole...)
	altered[len(altered)/2] ^= 1
	for name, content := range map[string][]byte{
		"altered": altered, "cut": whole[:len(whole)-3], "empty": {}, "another": other, "removed": nil,
	} {
		r.must(os.Remove(path(2)))
		if content != nil {
			r.must(os.WriteFile(path(2), content, 0o600))
		}
		restored, _, err := r.restore(time.Time{})
		named := 2
		if content == nil {
			named = 3
		}
		if err == nil || !strings.Contains(err.Error(), all[named].name) || !strings.Contains(err.Error(), "--at") {
			t.Errorf("%s: restore: %v", name, err)
		}
		if _, err := os.Stat(restored); !os.IsNotExist(err) {
			t.Errorf("%s: the restore created a file: %v", name, err)
		}
		if content == nil {
			r.must(os.WriteFile(path(2), whole, 0o600))
		}
	}
	r.must(os.WriteFile(path(2), altered, 0o600))
	r.wantRestored(all[1].To, 4)
}

// TestShipsAgain kills the server after it has stored segments and before it has removed them from the journal.
func TestShipsAgain(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(3)
	r.ship()
	r.create(3)
	r.ship()
	for range 2 {
		r.must(r.engine.Close())
		r.serve(r.config.DB)
		r.ship()
		r.create(1)
		r.ship()
	}
	r.wantRestored(time.Time{}, 8)
	if n := len(r.segments()); n != 4 {
		t.Errorf("%d segments, want 4", n)
	}
}

// TestCopierNeedsBackup shows that a copy which no backup begins makes a backup due.
func TestCopierNeedsBackup(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.create(1)
	r.ship()
	if !r.backupNeeded() {
		t.Error("no backup is due without any backup")
	}
	r.must(r.engine.Close())
	r.serve(r.config.DB)
	r.backup()
	r.ship()
	if r.backupNeeded() {
		t.Error("a backup is due although the history of one continues")
	}
	r.must(r.engine.StopJournal(context.Background()))
	_, _, err := r.engine.StartJournal(t.Context())
	r.must(err)
	r.create(1)
	r.ship()
	if !r.backupNeeded() {
		t.Error("no backup is due after a gap")
	}
}

// TestCopyInBucket copies commits to a bucket that is away for a time, and that loses responses.
func TestCopyInBucket(t *testing.T) {
	t.Parallel()
	server, proxy, _ := newPrefix(t)
	r := newCopyRigTo(t, prefixAddress, s3.Config{Endpoint: proxy.Endpoint})
	r.backup()
	for range 3 {
		r.create(1)
		r.ship()
	}
	r.wantRestored(time.Time{}, 3)

	server.Kill()
	r.create(2)
	if err := r.copier.ship(t.Context()); err == nil {
		t.Error("stored a segment without a server")
	}
	r.create(1)
	r.must(server.Resume(t.Context()))
	r.ship()
	r.wantRestored(time.Time{}, 6)

	r.create(1)
	proxy.CutResponses(1)
	if err := r.copier.ship(t.Context()); err == nil {
		t.Error("a lost response is a success")
	}
	proxy.Pass()
	r.ship()
	r.wantRestored(time.Time{}, 7)

	r.must(r.mergeOld(t.Context(), time.Now().Add(3*time.Hour)))
	r.wantRestored(time.Time{}, 7)
	a, err := OpenArchive(t.Context(), prefixAddress, r.s3, r.config.DB)
	r.must(err)
	v, err := a.Verify(t.Context(), nil)
	r.must(err)
	if len(v.Faults) > 0 || v.Backups != 1 || v.Segments == 0 {
		t.Errorf("verified %+v", v)
	}
}

// next waits until the clock shows another second, which the name of a backup has.
func (r *copyRig) next() {
	r.t.Helper()
	waitUntil(r.t.Context(), time.Now().Truncate(time.Second).Add(time.Second))
}

// wantError restores the destination, which must fail with a text.
func (r *copyRig) wantError(at time.Time, text string) {
	r.t.Helper()
	path, _, err := r.restore(at)
	if err == nil || !strings.Contains(err.Error(), text) {
		r.t.Errorf("restore: %v, want an error with %q", err, text)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		r.t.Errorf("the failed restore created a file: %v", err)
	}
}

const missingText = "the commits before it are missing; to restore the store as it was before, add --at "

// TestUndoBehindBackup restores the time before an import, although a backup has the import.
func TestUndoBehindBackup(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(5)
	r.ship()
	undo := time.Now()
	r.create(5)
	r.next()
	r.backup()
	r.create(1)
	r.ship()
	path := r.wantRestored(undo, 5)
	r.ids = r.ids[:5:5]
	r.takeOver(path)
	r.create(4)
	r.ship()
	r.wantRestored(time.Time{}, 9)
}

// TestBackupContinues restores a backup by its file and continues from there in the same destination.
func TestBackupContinues(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.create(5)
	r.backup() // before the segment
	r.create(2)
	between := time.Now()
	r.create(4)
	r.ship()
	r.wantRestored(between, 7)
	backups, err := r.List(t.Context())
	r.must(err)
	path := filepath.Join(t.TempDir(), "p.db")
	_, err = backupfile.Restore(t.Context(), backups[0].Location, path, false, nil)
	r.must(err)
	r.ids = r.ids[:5:5]
	r.takeOver(path)
	r.create(4)
	r.ship()
	r.wantRestored(time.Time{}, 9)
}

// TestRestoreInGap asks for times at which commits are missing.
func TestRestoreInGap(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(5)
	r.ship()
	before := time.Now()
	r.must(r.engine.StopJournal(t.Context()))
	r.create(5)
	gap := time.Now()
	r.create(1)
	_, _, err := r.engine.StartJournal(t.Context())
	r.must(err)
	r.next()
	r.backup()
	r.create(2)
	r.ship()
	r.wantError(gap, missingText)
	r.wantError(before, missingText) // nothing shows that the gap began later
	r.wantRestored(r.segments()[0].To, 5)
	r.wantRestored(time.Time{}, 13)
}

// TestOtherStoreInDestination starts a new store with the name of a lost one.
func TestOtherStoreInDestination(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(5)
	r.ship()
	r.must(r.engine.Close())
	r.next()
	r.serve(filepath.Join(t.TempDir(), "p.db"))
	r.wantRefused("has the backups of another store")
	r.wantRestored(time.Time{}, 5)
}

// wantRefused claims the destination, which is another server's.
func (r *copyRig) wantRefused(text string) {
	r.t.Helper()
	err := r.Claim(r.t.Context())
	if _, owned := errors.AsType[*OwnedError](err); !owned || !strings.Contains(err.Error(), text) {
		r.t.Errorf("claim: %v, want an OwnedError with %q", err, text)
	}
}

// TestNeededBackup needs a backup after a gap, also after a restart, and when the destination was emptied. Until then
// the lag grows.
func TestNeededBackup(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(1)
	r.ship()
	copied := r.copier.copiedTo()
	r.must(r.engine.StopJournal(t.Context()))
	_, _, err := r.engine.StartJournal(t.Context())
	r.must(err)
	r.create(1)
	for range 2 {
		r.ship()
		r.ship()
		if !r.backupNeeded() || r.copier.copiedTo().After(copied) && copied.After(r.segments()[0].To) {
			t.Errorf("after a gap: needed %v, copied to %v, want %v", r.backupNeeded(), r.copier.copiedTo(), copied)
		}
		r.must(r.engine.Close())
		r.serve(r.config.DB)
		copied = r.copier.copiedTo()
		r.create(1)
	}
	r.next()
	r.backup()
	r.must(r.engine.Close())
	r.serve(r.config.DB)
	r.ship()
	if r.backupNeeded() {
		t.Error("a backup is needed after the next one")
	}
	r.must(os.RemoveAll(r.to))
	r.must(os.Mkdir(r.to, 0o700))
	if err := r.mergeOld(t.Context(), time.Now()); !errors.Is(err, errNoOwner) {
		t.Errorf("merge: %v", err)
	}
	r.ship()
	if !r.backupNeeded() {
		t.Error("no backup is needed although the destination is empty")
	}
}

// TestLagWhileAway restarts a server while the destination lacks a commit.
func TestLagWhileAway(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.create(1)
	acknowledged := time.Now()
	r.must(r.engine.Close())
	r.serve(r.config.DB)
	if copied := r.copier.copiedTo(); copied.After(acknowledged) {
		t.Errorf("says that all is copied up to %v, want at most %v", copied, acknowledged)
	}
}

// tip is a commit that others can follow.
type tip struct {
	number  int64
	history journal.History
}

// newest returns the end of the newest backup.
func (r *copyRig) newest() tip {
	r.t.Helper()
	backups, err := r.List(r.t.Context())
	r.must(err)
	return tip{backups[0].Manifest.Commits, journal.ParseHistory(backups[0].Manifest.History)}
}

// forge stores a segment for each group of times, with a commit at each of them, after the newest backup.
func (r *copyRig) forge(groups ...[]time.Time) tip {
	r.t.Helper()
	return r.forgeAfter(r.newest(), groups...)
}

func (r *copyRig) forgeAfter(last tip, groups ...[]time.Time) tip {
	r.t.Helper()
	var e journal.Encoder
	for _, times := range groups {
		before, commits := last.history, []journal.Commit(nil)
		for _, at := range times {
			c := journal.Commit{Number: last.number + 1, At: at.Truncate(time.Microsecond), Changes: journal.ChangedRows(nil)}
			commits, last = append(commits, c), tip{c.Number, last.history.After(&c)}
		}
		s, content, err := e.Encode(r.archive.store, r.ownTimeline(), before, commits)
		r.must(err)
		r.must(r.Service.to.put(r.t.Context(), s.Name(r.names.segmentPrefix()), content))
	}
	r.copier.setCopied(r.ownTimeline(), last.number, last.history)
	return last
}

// moveBackup changes the time of the newest backup.
func (r *copyRig) moveBackup(at time.Time) {
	r.t.Helper()
	backups, err := r.List(r.t.Context())
	r.must(err)
	name := filepath.Join(r.to, r.names.nameAt(at, scheduledEnd))
	m := backups[0].Manifest
	m.MadeAt = at
	if at.Before(m.CommittedAt) {
		m.CommittedAt = at
	}
	text, err := json.Marshal(m)
	r.must(err)
	r.must(os.Remove(backups[0].Location + backupfile.ManifestSuffix))
	r.must(os.Rename(backups[0].Location, name))
	r.must(os.WriteFile(name+backupfile.ManifestSuffix, text, 0o600))
}

// wantCommits restores the destination, which must have a commit as its last one.
func (r *copyRig) wantCommits(at time.Time, last tip) {
	r.t.Helper()
	if _, got, err := r.restore(at); err != nil || got.Commits != last.number {
		r.t.Errorf("restored %d commits, %v, want %d", got.Commits, err, last.number)
	}
}

// TestMergeAround merges segments although one of them is damaged, and removes the parts that a killed server has left,
// unless the merged segment is damaged.
func TestMergeAround(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	begin := time.Now().Add(-24 * time.Hour).Truncate(time.Hour)
	var groups [][]time.Time
	for hour := range 2 {
		for second := range 5 {
			groups = append(groups, []time.Time{begin.Add(time.Duration(hour)*time.Hour + time.Duration(second)*time.Second)})
		}
	}
	r.forge(append(groups, []time.Time{begin.Add(2 * time.Hour)})...)
	all := r.segments()
	parts := map[string][]byte{}
	for _, s := range all {
		content, err := os.ReadFile(filepath.Join(r.to, s.name))
		r.must(err)
		parts[s.name] = content
	}
	write := func(name string, content []byte) { r.must(os.WriteFile(filepath.Join(r.to, name), content, 0o600)) }
	wantDamage := func(name string, left int) {
		t.Helper()
		if err := r.mergeOld(t.Context(), time.Now()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("merge: %v, want an error with %s", err, name)
		}
		if n := len(r.segments()); n != left {
			t.Errorf("%d segments, want %d", n, left)
		}
	}
	write(all[0].name, nil)
	wantDamage(all[0].name, 7) // the 5 of the damaged hour, 1, and the newest one

	for name, content := range parts {
		if name != all[5].name { // the removal had begun
			write(name, content)
		}
	}
	r.must(r.mergeOld(t.Context(), time.Now()))
	if n := len(r.segments()); n != 3 {
		t.Errorf("%d segments, want one for each hour", n)
	}

	merged := r.segments()[0]
	for _, s := range all[:5] {
		write(s.name, parts[s.name])
	}
	write(merged.name, nil)
	wantDamage(merged.name, 8)
}

// TestMergeOfOtherContent merges segments one of which has the content of a longer one.
func TestMergeOfOtherContent(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	at := time.Now().Add(-24 * time.Hour).Truncate(time.Hour)
	begin := r.newest()
	r.forge([]time.Time{at}, []time.Time{at}, []time.Time{at, at})
	long := r.segments()[2]
	content, err := os.ReadFile(filepath.Join(r.to, long.name))
	r.must(err)
	r.must(os.Remove(filepath.Join(r.to, long.name)))
	r.forgeAfter(begin, []time.Time{at}, []time.Time{at}, []time.Time{at}, []time.Time{at})
	short := r.segments()[2]
	r.must(os.WriteFile(filepath.Join(r.to, short.name), content, 0o600))
	if err := r.mergeOld(t.Context(), time.Now()); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("merge: %v", err)
	}
	if n := len(r.segments()); n != 4 {
		t.Errorf("%d segments, want 4", n)
	}
}

// TestDamageNeedsBackup damages a segment: a backup becomes due, and no second one after a restart.
func TestDamageNeedsBackup(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	for range 3 {
		r.create(1)
		r.ship()
	}
	r.must(r.engine.Close())
	r.serve(r.config.DB) // which has to read the segments
	r.ship()
	r.must(os.WriteFile(filepath.Join(r.to, r.segments()[0].name), nil, 0o600))
	merge := func() {
		t.Helper()
		if err := r.mergeOld(t.Context(), time.Now().Add(3*time.Hour)); !errors.Is(err, journal.ErrDamaged) {
			t.Errorf("merge: %v", err)
		}
	}
	merge()
	if !r.backupNeeded() {
		t.Error("no backup is needed")
	}
	r.next()
	r.backup()
	r.must(r.engine.Close())
	r.serve(r.config.DB)
	r.ship()
	merge()
	if r.backupNeeded() {
		t.Error("a second backup is needed")
	}
	r.wantRestored(time.Time{}, 3)
}

// TestHostileSegment merges a segment whose first line names a path.
func TestHostileSegment(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	at := time.Now().Add(-24 * time.Hour).Truncate(time.Hour).UTC()
	r.forge([]time.Time{at}, []time.Time{at}, []time.Time{at})
	s := r.segments()[0]
	s.Format, s.From, s.To = 1, at, at
	s.Before, s.After = "/../../../escaped"+strings.Repeat("0", 47), strings.Repeat("0", 64)
	header, err := json.Marshal(s.Segment)
	r.must(err)
	z, err := zstd.NewWriter(nil)
	r.must(err)
	r.must(os.WriteFile(filepath.Join(r.to, s.name), z.EncodeAll(append(header, '\n'), nil), 0o600))
	if err := r.mergeOld(t.Context(), time.Now()); err == nil || !strings.Contains(err.Error(), "other values") {
		t.Errorf("merge: %v, want an error", err)
	}
	escaped, err := filepath.Glob(filepath.Join(r.to, "..", "*escaped*"))
	if len(escaped) > 0 || err != nil {
		t.Errorf("outside of the destination: %q, %v", escaped, err)
	}
}

// TestSync creates plants that the destination must have when Sync returns: not before it has a backup, and not while
// it is away.
func TestSync(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.create(1)
	r.running.Go(r.copier.run)
	defer r.Close()
	if err := r.Sync(t.Context()); !errors.Is(err, errNoBase) {
		t.Errorf("without a backup: %v", err)
	}
	r.running.Go(r.schedule)
	for r.backupNeeded() {
		<-time.After(time.Millisecond)
	}
	for n := range 5 {
		r.create(1)
		r.must(r.Sync(t.Context()))
		r.wantRestored(time.Time{}, 2+n)
	}
	r.must(os.Rename(r.to, r.to+"-away"))
	r.create(1)
	if err := r.Sync(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the destination: %v", err)
	}
	r.must(os.Rename(r.to+"-away", r.to))
	r.must(r.Sync(t.Context()))
	r.wantRestored(time.Time{}, 7)
}

// TestRetentionOfSegments keeps a segment whose commit began just before the oldest backup, and ended after it, and a
// segment after that backup, although the clock was set back.
func TestRetentionOfSegments(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	first, err := r.List(t.Context())
	r.must(err)
	now := time.Now()
	ago := func(d time.Duration) []time.Time { return []time.Time{now.Add(-d)} }
	r.forge(ago(3*time.Hour), ago(2*time.Second), ago(2*time.Hour))
	r.removeOld()
	if n := len(r.segments()); n != 3 {
		t.Errorf("%d segments, want 3: they follow the oldest backup", n)
	}
	r.create(2)
	r.next()
	r.backup()
	r.must(r.Delete(t.Context(), first[0].Name, r.config.By))
	r.removeOld()
	if all := r.segments(); len(all) != 2 || all[0].To.Before(now.Add(-time.Minute)) {
		t.Errorf("segments %+v, want the last two", all)
	}
}

// TestClockWasAhead detects a missing segment although the clock was a day ahead when the backup was made.
func TestClockWasAhead(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	ahead := time.Now().Add(24 * time.Hour).Truncate(time.Second)
	r.moveBackup(ahead)
	for range 3 {
		r.create(1)
		r.ship()
	}
	r.wantRestored(time.Time{}, 3)
	r.must(os.Remove(filepath.Join(r.to, r.segments()[1].name)))
	r.wantError(time.Time{}, missingText)
	r.wantRestored(r.segments()[0].To, 1) // as the error says
	r.must(os.Remove(filepath.Join(r.to, r.segments()[0].name)))
	r.wantError(time.Time{}, missingText)
	r.wantRestored(until(r.contents().bases[0].Manifest), 0) // as that says
}

// hooked is a destination that calls after a list of segments, and before a file is opened or stored.
type hooked struct {
	destination

	before    func(name string) // called with the name of the file; for a list, with the prefix of segments
	beforePut func(name string)
}

func (h *hooked) put(ctx context.Context, name string, content []byte) error {
	if h.beforePut != nil {
		h.beforePut(name)
	}
	return h.destination.put(ctx, name, content)
}

func (h *hooked) putOnce(ctx context.Context, name string, content []byte) error {
	if h.beforePut != nil {
		h.beforePut(name)
	}
	return h.destination.putOnce(ctx, name, content)
}

func (h *hooked) list(ctx context.Context, prefix string) ([]file, error) {
	files, err := h.destination.list(ctx, prefix)
	if h.before != nil && strings.HasSuffix(prefix, ".") {
		h.before(prefix)
	}
	return files, err
}

func (h *hooked) open(ctx context.Context, name string) (io.ReadCloser, error) {
	if h.before != nil {
		h.before(name)
	}
	return h.destination.open(ctx, name)
}

// interpose returns the destination of the service with a hook.
func (r *copyRig) interpose() *hooked {
	h := &hooked{destination: r.Service.to}
	r.Service.to, r.archive.to = h, h
	return h
}

// TestShipsDuringList stores a segment just after a merge has listed the segments: no backup is needed.
func TestShipsDuringList(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.create(1)
	r.backup()
	r.ship()
	h := r.interpose()
	h.before = func(name string) {
		if name == r.names.segmentPrefix() {
			h.before = nil
			r.create(1)
			r.ship()
		}
	}
	r.must(r.mergeOld(t.Context(), time.Now()))
	if r.backupNeeded() {
		t.Error("a backup is needed although nothing is missing")
	}
}

// TestOverlap stores commits again, with others after them, while a merge reads them: the merged segment ends at the
// newer backup, and the other one has that end inside.
func TestOverlap(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	backups, err := r.List(t.Context())
	r.must(err)
	first := backups[0].Manifest.Commits
	put := func(from, to int64) {
		previous, commits, err := r.engine.Journal(t.Context(), first+from-1, 1<<20)
		r.must(err)
		var e journal.Encoder
		s, content, err := e.Encode(r.archive.store, r.ownTimeline(), previous, commits[:to-from+1])
		r.must(err)
		r.must(r.Service.to.put(t.Context(), s.Name(r.names.segmentPrefix()), content))
	}
	r.create(5)
	put(1, 2)
	put(3, 5)
	r.copier.setCopied(r.ownTimeline(), first+5, journal.History{})
	r.next()
	r.backup()
	r.create(5)
	h := r.interpose()
	h.before = func(name string) {
		if name == r.names.segmentPrefix() {
			h.before = nil
			put(3, 10)
		}
	}
	r.must(r.mergeOld(t.Context(), time.Now().Add(3*time.Hour)))
	r.must(r.Delete(t.Context(), backups[0].Name, r.config.By))
	r.wantRestored(time.Time{}, 10)
}

// TestMergeDuringRestore merges segments each time that a restore has listed them and reads the backup.
func TestMergeDuringRestore(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	create := func() {
		for range 3 {
			r.create(1)
			r.ship()
		}
	}
	create()
	at := time.Now()
	h := r.interpose()
	h.before = func(name string) {
		if _, isBackup := r.names.named(name); isBackup {
			saved := h.before
			h.before = nil
			at = at.Add(24 * time.Hour)
			r.must(r.mergeOld(t.Context(), at))
			create()
			h.before = saved
		}
	}
	got, err := r.archive.Restore(t.Context(), filepath.Join(t.TempDir(), "p.db"), Point{}, false, nil)
	if err != nil || got.Plants != 6 {
		t.Errorf("restored %d plants, %v, want 6", got.Plants, err)
	}
}

// TestRemovedDuringRestore removes a segment while a restore reads the backup.
func TestRemovedDuringRestore(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	for range 3 {
		r.create(1)
		r.ship()
	}
	removed := filepath.Join(r.to, r.segments()[0].name)
	h := r.interpose()
	h.before = func(name string) {
		if _, isBackup := r.names.named(name); isBackup {
			h.before = nil
			r.must(os.Remove(removed))
		}
	}
	_, err := r.archive.Restore(t.Context(), filepath.Join(t.TempDir(), "p.db"), Point{}, false, nil)
	if err == nil || !strings.Contains(err.Error(), missingText) {
		t.Errorf("restore: %v, want an error with %q", err, missingText)
	}
}

// TestDamagedStore shows that no backup is made of a store with a damaged plant, and that a destination which has such
// a backup is restored from the one before it, with the segments after that.
func TestDamagedStore(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.create(3)
	r.backup()
	r.create(2)
	r.ship()
	newer := r.names.nameAt(time.Now().Add(time.Second), scheduledEnd)
	progress := func(string) backupfile.Progress { return func(int64, int64) {} }
	m, err := r.Service.to.make(t.Context(), r.config.DB, newer, r.ownTimeline(), progress)
	r.must(err)

	backup := filepath.Join(r.to, newer)
	damaged, err := os.ReadFile(backup)
	r.must(err)
	damaged[bytes.Index(damaged, []byte("plant 1"))] ^= 1 << 5
	r.must(os.WriteFile(backup, damaged, 0o600))
	m.SHA256 = fmt.Sprintf("%x", sha256.Sum256(damaged))
	r.must(os.Remove(backup + backupfile.ManifestSuffix))
	r.must(m.Write(backup + backupfile.ManifestSuffix))
	r.wantRestored(time.Time{}, 5)
	_, got, err := r.restore(time.Time{})
	fault := fmt.Sprintf("%s: the backup is damaged: plant %d does not match its digest",
		r.Service.to.location(newer), r.ids[1])
	if err != nil || got.Segments != 1 || len(got.Faults) != 1 || got.Faults[0] != fault {
		t.Errorf("restored %+v, %v; want the fault %q", got, err, fault)
	}

	store := filepath.Join(t.TempDir(), "p.db") // with the same damage
	r.must(os.WriteFile(store, damaged, 0o600))
	newest := r.names.nameAt(time.Now().Add(2*time.Second), scheduledEnd)
	_, err = r.Service.to.make(t.Context(), store, newest, r.ownTimeline(), progress)
	want := fmt.Sprintf("the store is damaged: plant %d does not match its digest; no backup was made", r.ids[1])
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("backup of a damaged store: %v, want %s", err, want)
	}
	if names, err := filepath.Glob(filepath.Join(r.to, "p-*.db")); err != nil || len(names) != 2 {
		t.Errorf("backups %q, %v", names, err)
	}
}
