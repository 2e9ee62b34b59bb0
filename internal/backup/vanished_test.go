package backup

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/sqlite/dbfile"
)

// logged returns the log of the service from now on.
func (r *copyRig) logged() *logLines {
	log := &logLines{}
	r.config.Log = slog.New(slog.NewJSONHandler(log, nil))
	return log
}

// empty moves all files of the destination to another directory, and returns a function that moves them back.
func (r *copyRig) empty() (fill func()) {
	r.t.Helper()
	away := r.t.TempDir()
	move := func(from, to string) {
		all, err := os.ReadDir(from)
		r.must(err)
		for _, f := range all {
			r.must(os.Rename(filepath.Join(from, f.Name()), filepath.Join(to, f.Name())))
		}
	}
	move(r.to, away)
	return func() { move(away, r.to) }
}

const noBackups = "has no backup of this store"

// TestFilesAreRemoved removes all files of the destination: the server says so, and makes a new backup.
func TestFilesAreRemoved(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	log := r.logged()
	r.backup()
	r.create(2)
	r.ship()
	if log.contains(noBackups) {
		t.Error("a warning of a new destination")
	}
	r.empty()
	r.create(1)
	if err := r.copier.ship(t.Context()); err == nil {
		t.Error("a commit is acknowledged without an owner")
	}
	r.ship()
	if !log.contains(noBackups) || !r.backupNeeded() {
		t.Errorf("no warning, or no backup is needed: %v", log.newLines(t))
	}
	r.backup()
	r.wantRestored(time.Time{}, 3)

	r.must(r.engine.Close())
	r.to = t.TempDir()
	r.serve(r.config.DB)
	log = r.logged()
	r.ship()
	if log.contains(noBackups) {
		t.Error("a warning of another destination, which the operator has set")
	}
}

// TestDiskIsNotMounted starts a server whose destination is an empty directory on another disk than before. It copies
// nothing there until the disk is back, or the operator allows it.
func TestDiskIsNotMounted(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(2)
	r.ship()
	r.must(r.engine.Close())
	fill := r.empty()
	origin, err := dbfile.ReadOrigin(r.path)
	r.must(err)
	origin.Device++
	r.must(dbfile.WriteOrigin(r.path, origin))

	r.serve(r.config.DB)
	r.must(r.Claim(t.Context()))
	r.create(1)
	err = r.copier.ship(t.Context())
	if err == nil || !strings.Contains(err.Error(), "on another disk") ||
		!strings.Contains(err.Error(), "--take-over "+origin.Timeline) {
		t.Errorf("on another disk: %v", err)
	}
	r.acquire()
	if err := r.makeScheduled(time.Now()); err == nil {
		t.Error("a backup on another disk")
	}
	if all, err := os.ReadDir(r.to); err != nil || len(all) > 0 {
		t.Errorf("the directory has %v, %v", all, err)
	}
	fill()
	r.ship()
	r.wantRestored(time.Time{}, 3)

	r.must(r.engine.Close())
	r.empty()
	origin.Timeline = r.ownTimeline()
	r.must(dbfile.WriteOrigin(r.path, origin))
	r.serve(r.config.DB, origin.Timeline)
	r.ship()
	r.backup()
	r.wantRestored(time.Time{}, 3)
}

// TestDiskIsUnmounted unmounts the disk while the server runs. A segment that it has stored in the directory below is
// not removed from the journal, so that the disk gets it too.
func TestDiskIsUnmounted(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	r.create(2)
	r.ship()
	fill := r.empty()
	origin, err := dbfile.ReadOrigin(r.path)
	r.must(err)
	origin.Device++
	r.must(dbfile.WriteOrigin(r.path, origin))
	log := r.logged()
	for range 3 {
		r.create(1)
		if err := r.copier.round(t.Context()); err == nil {
			t.Error("a commit is acknowledged")
		}
	}
	lines := log.newLines(t)
	if len(lines) != 3 || !strings.Contains(lines[2], "on another disk") { // with that of the backup
		t.Errorf("log %q", lines)
	}
	r.empty()
	fill()
	r.create(1)
	r.ship()
	if r.backupNeeded() {
		t.Error("the copy has a gap")
	}
	r.wantRestored(time.Time{}, 6)
}

// TestBackupIsRemoved removes backups that a list had. The log names those that neither retention nor an operator of
// the server removed.
func TestBackupIsRemoved(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var names []string
	for hours := range 5 {
		names = append(names, r.nameAt(time.Duration(hours-5)*time.Hour))
		r.copyAs(names[hours])
	}
	list := func(want ...string) {
		t.Helper()
		if _, err := r.scheduled(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, r.log.newLines(t)); diff != "" {
			t.Errorf("log, -want +got:\n%s", diff)
		}
	}
	list()
	if err := r.Delete(t.Context(), names[1], admin); err != nil {
		t.Fatal(err)
	}
	list()
	for _, name := range []string{names[0], names[4]} { // as a rule for old objects removes the first one
		if err := os.Remove(filepath.Join(r.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	list("WARN a backup has vanished: nobody has removed it through this server " + names[4])
	list()
	r.copyAs(r.nameAt(-time.Minute))
	r.removeOld()
	if lines := r.log.newLines(t); len(lines) != 1 || !strings.Contains(lines[0], "removed an old backup "+names[2]) {
		t.Errorf("log %v", lines)
	}
	list()
	if got := r.vanished.Load(); got != 1 {
		t.Errorf("%v backups vanished, want 1", got)
	}
}

// TestListDuringRemoval removes a backup through the server while a list of the destination runs.
func TestListDuringRemoval(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	name := r.nameAt(-time.Hour)
	r.copyAs(name)
	if _, err := r.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	inner := r.to
	r.interpose(&slowList{inner, func() {
		r.interpose(inner)
		if err := r.Delete(t.Context(), name, admin); err != nil {
			t.Error(err)
		}
	}})
	for range 2 {
		if _, err := r.files(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if lines := r.log.newLines(t); lines != nil {
		t.Errorf("log %v", lines)
	}
}

// slowList is a destination that calls a function after it has read a list.
type slowList struct {
	destination

	after func()
}

func (d *slowList) list(ctx context.Context, prefix string) ([]file, error) {
	files, err := d.destination.list(ctx, prefix)
	d.after()
	return files, err
}

// TestListOfUnreadableDirectory lists a directory whose files cannot be found out about: they are not missing.
func TestListOfUnreadableDirectory(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may search each directory")
	}
	r := newRig(t)
	r.copyAs(r.nameAt(-time.Hour))
	if err := os.Chmod(r.dir, 0o400); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(r.dir, 0o700)
	if files, err := r.to.list(t.Context(), ""); err == nil {
		t.Errorf("listed %v", files)
	}
}
