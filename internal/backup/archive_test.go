package backup

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/audit"
	"plantstore/internal/plant"
	"plantstore/internal/s3"
	"plantstore/internal/sqlite"
	"plantstore/internal/sqlite/backupfile"
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
	ids    []int64 // of the plants, one for each commit
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

// serve opens the store at a path with a service.
func (r *copyRig) serve(db string) {
	r.t.Helper()
	e, err := sqlite.Open(r.t.Context(), sqlite.Config{Path: db, Server: true})
	r.must(err)
	r.engine = e
	r.Service, err = New(Config{
		DB: db, Destination: r.to, S3: r.s3, Scratch: r.t.TempDir(), Every: time.Hour, Keep: 2, Journal: e, Lag: time.Second,
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
	progress := func(string) backupfile.Progress { return func(int64, int64) {} }
	_, err := r.Service.to.make(r.t.Context(), r.config.DB, r.names.nameAt(time.Now(), scheduledEnd), progress)
	r.must(err)
}

// restore restores the destination and returns the path of the store.
func (r *copyRig) restore(at time.Time) (string, Recovered, error) {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), "p.db")
	a, err := OpenArchive(r.t.Context(), r.to, r.s3, path)
	r.must(err)
	got, err := a.Restore(r.t.Context(), path, at, false, nil)
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
	all, err := listSegments(r.t.Context(), r.Service.to, r.names)
	r.must(err)
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
	r.must(r.engine.Close())

	path := r.wantRestored(undo, 5)
	old := r.ids
	r.ids = r.ids[:5:5]
	r.serve(path)
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
