package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite/backupfile"
)

// admin is the origin of the requests of these tests.
var admin = audit.Origin{Actor: audit.Actor{Kind: audit.Token, ID: "7", Name: "admin"}, Address: "127.0.0.1"}

// end waits for a job of the rig and returns it.
func (r *rig) end(j Job, err error) Job {
	r.t.Helper()
	for err == nil && j.Ended.IsZero() {
		<-time.After(time.Millisecond)
		j, err = r.Job(j.ID)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return j
}

// newEvents returns the events since the last call: the action, the actor, the result, and the name of the file.
func (r *rig) newEvents() (lines []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		details := map[string]string{}
		for _, d := range e.Details {
			details[d.Key] = d.Value
		}
		line := fmt.Sprint(e.Action, " ", e.Actor.ID, " ", filepath.Base(details["file"]), " ", details["result"])
		lines = append(lines, strings.TrimSpace(line))
	}
	r.events = nil
	return lines
}

func (r *rig) wantEvents(want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.newEvents()); diff != "" {
		r.t.Errorf("audit log, -want +got:\n%s", diff)
	}
}

// fault returns the text of an error, "" for nil, without the directory of the rig.
func (r *rig) fault(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), r.dir, "DIR")
}

// TestService makes a manual backup, lists, reads, verifies, drills and deletes it.
func TestService(t *testing.T) {
	t.Parallel()
	testService(t, newRig(t), "copy", "check")
}

// testService tests the operations. The last steps of a backup and of a verification differ.
func testService(t *testing.T, r *rig, lastOfBackup, lastOfVerify string) {
	t.Helper()
	defer r.Close()
	made := r.end(r.MakeBackup(admin))
	name := made.Backup
	if made.Error != "" || made.Kind != Making || made.ID != 1 || made.origin != admin || made.Step != lastOfBackup ||
		made.Done != made.All || made.All == 0 || made.Manifest.Bytes == 0 || !strings.HasSuffix(name, "-manual.db") {
		t.Fatalf("job %+v", made)
	}
	all, err := r.List(t.Context())
	want := []Backup{{
		Name: name, At: all[0].At, Manual: true, Location: r.to.location(name), Bytes: made.Manifest.Bytes,
		Manifest: made.Manifest,
	}}
	if diff := cmp.Diff(want, all); diff != "" || err != nil {
		t.Errorf("List: %v, -want +got:\n%s", err, diff)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if all, err := r.List(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("List after the end of its context: got %+v, %v", all, err)
	}
	b, reader, err := r.Open(t.Context(), name, admin)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(reader)
	if err := errors.Join(err, reader.Close()); err != nil {
		t.Fatal(err)
	}
	stored, err := os.ReadFile(filepath.Join(r.dir, name))
	if err != nil || string(got) != string(stored) || int64(len(got)) != b.Bytes {
		t.Errorf("Open: %d bytes of %d, %v", len(got), b.Bytes, err)
	}
	for i, check := range []func(context.Context, string, audit.Origin) (Job, error){r.Verify, r.Drill} {
		j := r.end(check(t.Context(), name, admin))
		if j.Error != "" || j.Faults != nil || j.Step != []string{lastOfVerify, "check"}[i] || j.Backup != name ||
			j.Manifest != made.Manifest {
			t.Errorf("job %+v", j)
		}
	}
	if err := r.Delete(t.Context(), name, admin); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(r.dir, "p-*")); err != nil || len(left) > 0 {
		t.Errorf("left after Delete: %v, %v", left, err)
	}
	if left, err := filepath.Glob(filepath.Join(r.config.Scratch, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left after the drill: %v, %v", left, err)
	}
	r.wantEvents("backup.start 7 "+name, "store.backup 7 "+name+" complete", "backup.download 7 "+name,
		"backup.drill 7 "+name+" complete", "backup.delete 7 "+name)
	var kinds []Kind
	for _, j := range r.Jobs() {
		kinds = append(kinds, j.Kind)
	}
	if !slices.Equal(kinds, []Kind{Drilling, Verifying, Making}) {
		t.Errorf("jobs %v", kinds)
	}
}

// TestServiceRefuses tests the errors of names, of backups that are no complete ones of this store, and of jobs.
func TestServiceRefuses(t *testing.T) {
	t.Parallel()
	r, other := newRig(t), newRig(t)
	defer r.Close()
	bare, cut, foreign, future := r.nameAt(-4*time.Hour), r.nameAt(-3*time.Hour), r.nameAt(-2*time.Hour),
		r.nameAt(time.Hour)
	r.write(bare, "anything")
	r.copyAs(cut)
	r.write(cut, "x")
	other.dir = r.dir
	other.copyAs(foreign)
	r.copyAs(future)
	r.write("p-secret.db", "no backup")
	all, err := r.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	faults := map[string]string{}
	for _, b := range all {
		faults[b.Name] = r.fault(b.Fault)
	}
	noManifest := "DIR/" + bare + ".json: the manifest is missing, so nothing shows whether the backup is complete"
	want := map[string]string{
		bare: noManifest, cut: "it has 1 bytes; its manifest has " + r.bytesOf(cut),
		foreign: "it is a backup of another store; use a --backup-dir for each store",
		future:  "its name has a time in the future",
	}
	if diff := cmp.Diff(want, faults); diff != "" {
		t.Errorf("faults, -want +got:\n%s", diff)
	}
	for _, name := range []string{
		"", ".", "..", "p-secret.db", "../p.db", "p-20260102T030405Z.db/../../p.db", "p-20260102T030405Z.db.json",
		"p-20260102T030405Z.db", "p-20260102T030405Z-manual.db", "q-20260102T030405Z.db", "p-20260102T030405Z.db\x00",
	} {
		want[name] = "no backup has this name"
	}
	for name, want := range want {
		_, reader, errOpen := r.Open(t.Context(), name, admin)
		_, errVerify := r.Verify(t.Context(), name, admin)
		_, errDrill := r.Drill(t.Context(), name, admin)
		for _, err := range []error{errOpen, errVerify, errDrill} {
			if got := r.fault(err); got != want || reader != nil {
				t.Errorf("%q: got %s, want %s", name, got, want)
			}
		}
		errDelete := r.Delete(t.Context(), name, admin)
		if deletes := name == bare || name == cut || name == future; deletes != (errDelete == nil) {
			t.Errorf("Delete %q: %v", name, errDelete)
		}
	}
	left, err := r.to.list(t.Context(), "p-")
	if len(left) != 3 || err != nil { // the foreign one, its manifest, and the file with another name
		t.Errorf("left after Delete: %v, %v", left, err)
	}
	r.wantEvents(r.deletions(bare, cut, future)...)
	if _, err := r.Job(1); !errors.Is(err, ErrNoJob) {
		t.Errorf("Job: %v", err)
	}
}

// deletions returns the events of deletions in the order of the events of the rig.
func (r *rig) deletions(names ...string) (lines []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if name := filepath.Base(e.Details[0].Value); e.Action == audit.BackupDelete && slices.Contains(names, name) {
			lines = append(lines, "backup.delete 7 "+name)
		}
	}
	return lines
}

// TestServiceFindsDamage tests that a verification and a drill report a changed byte, and that the audit log has it.
func TestServiceFindsDamage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.Close()
	name := r.nameAt(-time.Hour)
	r.copyAs(name)
	path := filepath.Join(r.dir, name)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[5000] ^= 1
	r.write(name, string(text))
	const damaged = "the backup is damaged: "
	j := r.end(r.Verify(t.Context(), name, admin))
	if !strings.HasPrefix(j.Error, damaged) || len(j.Faults) == 0 {
		t.Errorf("verification: %+v", j)
	}
	j = r.end(r.Drill(t.Context(), name, admin))
	if !strings.HasPrefix(j.Error, damaged+"its SHA-256 is ") {
		t.Errorf("drill: %+v", j)
	}
	r.wantEvents("backup.drill 7 " + name + " failed")
}

// TestVerifyNeedsManifest shows that the verification of a backup whose manifest has been removed since it was found
// is not a success.
func TestVerifyNeedsManifest(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.Close()
	name := r.nameAt(-time.Hour)
	r.copyAs(name)
	if err := os.Remove(filepath.Join(r.dir, name) + backupfile.ManifestSuffix); err != nil {
		t.Fatal(err)
	}
	faults, err := r.to.verify(t.Context(), name, backupfile.Manifest{}, func(string) backupfile.Progress { return nil })
	if !errors.Is(err, backupfile.ErrNoManifest) {
		t.Errorf("got %v, %v, want %v", faults, err, backupfile.ErrNoManifest)
	}
}

// TestServiceRunsOneJob tests that a second backup or check is refused while one runs, that a backup in use is not
// deleted, and that Close ends the jobs.
func TestServiceRunsOneJob(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name := r.nameAt(-time.Hour)
	r.copyAs(name)
	r.mu.Lock() // blocks the first entry of the audit log, so the job does not end
	drill, err := r.Drill(t.Context(), name, admin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(t.Context(), name, admin); !errors.Is(err, ErrRunning) {
		t.Errorf("a second check: %v", err)
	}
	if err := r.Delete(t.Context(), name, admin); !errors.Is(err, ErrRunning) {
		t.Errorf("Delete: %v", err)
	}
	r.mu.Unlock()
	r.end(drill, nil)
	r.making <- struct{}{} // as a scheduled backup does
	if _, err := r.MakeBackup(admin); !errors.Is(err, ErrRunning) {
		t.Errorf("a second backup: %v", err)
	}
	<-r.making
	first, err := r.MakeBackup(admin)
	if err != nil {
		t.Fatal(err)
	}
	r.end(first, nil)
	second, err := r.MakeBackup(admin) // usually in the same second
	if err != nil || second.Backup == first.Backup {
		t.Errorf("second backup %+v, %v", second, err)
	}
	r.Close()
	j, err := r.Job(second.ID)
	if err != nil || j.Ended.IsZero() || j.Error != "" && !strings.Contains(j.Error, context.Canceled.Error()) {
		t.Errorf("after Close: %+v, %v", j, err)
	}
	if _, err := r.MakeBackup(admin); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// TestRetentionSkipsUsed tests that retention does not remove a backup that a job reads, but removes it after the job.
func TestRetentionSkipsUsed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.Close()
	names := []string{r.nameAt(-4 * time.Hour), r.nameAt(-3 * time.Hour), r.nameAt(-2 * time.Hour), r.nameAt(-time.Hour)}
	for _, name := range names {
		r.copyAs(name)
	}
	if _, err := r.List(t.Context()); err != nil { // reads the identity of the store, as the schedule does
		t.Fatal(err)
	}
	r.mu.Lock() // blocks the first entry of the audit log, so the job does not end
	drill, err := r.Drill(t.Context(), names[0], admin)
	if err != nil {
		t.Fatal(err)
	}
	r.removeOld()
	r.want("during the drill", []string{names[0], names[2], names[3]},
		[]string{"INFO removed an old backup " + names[1]}, time.Time{}, 0, 0)
	r.mu.Unlock()
	if j := r.end(drill, nil); j.Error != "" {
		t.Errorf("the drill: %v", j.Error)
	}
	r.removeOld()
	r.want("after the drill", names[2:], []string{"INFO removed an old backup " + names[0]}, time.Time{}, 0, 0)
}

// interposed is a destination that calls a function before it reads a manifest.
type interposed struct {
	destination
	before func()
}

func (d interposed) open(ctx context.Context, name string) (io.ReadCloser, error) {
	if strings.HasSuffix(name, backupfile.ManifestSuffix) {
		d.before()
	}
	return d.destination.open(ctx, name)
}

// interpose replaces the destination.
func (r *rig) interpose(to destination) { r.to, r.archive.to = to, to }

// TestHold tests that no job starts on a backup during its removal, that no removal starts while a job starts, and that
// each can follow afterwards, even after an error.
func TestHold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.Close()
	name := r.nameAt(-time.Hour)
	if _, err := r.Verify(t.Context(), name, admin); !errors.Is(err, ErrNotFound) {
		t.Errorf("Verify of no backup: %v", err)
	}
	r.copyAs(name)
	release, err := r.reserve(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Verify(t.Context(), name, admin); !errors.Is(err, ErrRunning) {
		t.Errorf("Verify: %v", err)
	}
	if err := r.Delete(t.Context(), name, admin); !errors.Is(err, ErrRunning) {
		t.Errorf("Delete: %v", err)
	}
	release()
	inner := r.to
	r.interpose(interposed{inner, func() {
		r.interpose(inner)
		if err := r.Delete(t.Context(), name, admin); !errors.Is(err, ErrRunning) {
			t.Errorf("Delete while a job starts: %v", err)
		}
	}})
	if j := r.end(r.Verify(t.Context(), name, admin)); j.Error != "" {
		t.Errorf("Verify afterwards: %v", j.Error)
	}
	if err := r.Delete(t.Context(), name, admin); err != nil {
		t.Errorf("Delete afterwards: %v", err)
	}
	if len(r.reserved) != 0 {
		t.Errorf("still reserved: %v", r.reserved)
	}
}

// TestRemovedSinceList tests that a backup that another program removes during a list, or before retention does, is no
// fault.
func TestRemovedSinceList(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	defer r.Close()
	names := []string{r.nameAt(-3 * time.Hour), r.nameAt(-2 * time.Hour), r.nameAt(-time.Hour)}
	for _, name := range names {
		r.copyAs(name)
	}
	inner, ok := r.to.(*directory)
	if !ok {
		t.Fatal("the destination is no directory")
	}
	remove := func() {
		if err := removeBackup(t.Context(), inner, names[0]); err != nil {
			t.Error(err)
		}
	}
	r.interpose(interposed{inner, remove})
	all, err := r.List(t.Context())
	if err != nil || len(all) != 2 || all[1].Name != names[1] {
		t.Errorf("List: %+v, %v", all, err)
	}
	r.copyAs(names[0])
	if all, err := r.scheduled(); err != nil || len(all) != 2 {
		t.Errorf("scheduled: %+v, %v", all, err)
	}
	r.interpose(inner)
	r.copyAs(names[0])
	inner.removeFile = func(path string) error { return errors.Join(os.Remove(path), os.Remove(path)) } // the second fails
	r.removeOld()
	r.want("after retention", names[1:], []string{"INFO removed an old backup " + names[0]}, time.Time{}, 0, 0)
}

// TestServiceForgetsJobs tests that the service keeps a limited number of jobs, and those that run.
func TestServiceForgetsJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	start := func() *Job {
		slot := make(chan struct{}, 1)
		slot <- struct{}{}
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.addJob(slot, Making, "", admin)
	}
	running := start()
	defer r.endJob(running, backupfile.Manifest{}, nil, nil)
	for range jobsMax + 5 {
		r.endJob(start(), backupfile.Manifest{}, nil, nil)
	}
	jobs := r.Jobs()
	if len(jobs) != jobsMax || jobs[0].ID != jobsMax+6 || jobs[jobsMax-1].ID != running.ID {
		t.Errorf("%d jobs, from %d to %d", len(jobs), jobs[0].ID, jobs[len(jobs)-1].ID)
	}
}

// TestRetentionKeepsManual tests that retention neither counts nor removes manual backups, and that a manual backup
// does not delay the next scheduled one.
func TestRetentionKeepsManual(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var manual, scheduled []string
		for i := range 4 {
			manual = append(manual, r.names.nameAt(time.Now(), manualEnd))
			r.end(r.MakeBackup(admin))
			if i == 0 {
				r.start()
			}
			scheduled = append(scheduled, r.nameAt(0))
			r.advance(time.Hour)
		}
		scheduled = append(scheduled, r.nameAt(0))
		files, err := filepath.Glob(filepath.Join(r.dir, "p-*.db"))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, file := range files {
			got = append(got, filepath.Base(file))
		}
		want := slices.Sorted(slices.Values(append(manual, scheduled[3:]...)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}
