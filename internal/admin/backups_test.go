package admin_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/backup"
	"plantstore/internal/plant"
)

// backups returns the backup service of a store, without a schedule.
func backups(t *testing.T, db, destination string) *backup.Service {
	t.Helper()
	s, err := backup.New(backup.Config{
		DB: db, Destination: destination, Scratch: t.TempDir(), Every: time.Hour, Keep: 1,
		Record: func(audit.Event) {}, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// backedUp returns the operations on a store with one backup, its name, and the directory of the backups.
func backedUp(t *testing.T) (service *admin.Service, name, destination string) {
	t.Helper()
	_, path := open(t, admin.Config{}, create(1, "Acer", plant.Tag{}))
	destination = t.TempDir()
	makes := backups(t, path, destination)
	job, err := makes.MakeBackup(audit.Origin{})
	for deadline := time.Now().Add(wait); err == nil && job.Ended.IsZero() && time.Now().Before(deadline); {
		job, err = makes.Job(job.ID)
	}
	if err != nil || job.Error != "" || job.Ended.IsZero() {
		t.Fatalf("got %+v, %v", job, err)
	}
	// It has not read the store yet, which the end of a context would prevent.
	service, _ = open(t, admin.Config{Backups: backups(t, path, destination)})
	return service, job.Backup, destination
}

// TestFirstBackupIsNoticed shows that the warning about a missing backup ends within 10 s of the first one, although a
// list with a backup is used for a minute.
func TestFirstBackupIsNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, path := open(t, admin.Config{})
		destination := t.TempDir()
		makes := backups(t, path, destination)
		service, _ := open(t, admin.Config{Backups: makes})
		service.SetListTime(wait)
		check := func(after time.Duration, want string) {
			t.Helper()
			<-time.After(after)
			var got string
			for _, w := range service.Warnings(t.Context()) {
				if strings.HasPrefix(w.ID, "backup") {
					got += w.ID
				}
			}
			if got != want {
				t.Errorf("%s later: got the warnings %q about backups, want %q", after, got, want)
			}
		}
		check(0, "backup-missing")
		if _, err := makes.MakeBackup(audit.Origin{}); err != nil {
			t.Fatal(err)
		}
		check(9*time.Second, "backup-missing")
		check(time.Second, "")
		if err := os.RemoveAll(destination); err != nil {
			t.Fatal(err)
		}
		check(59*time.Second, "")
		check(time.Second, "backups-fail")
	})
}

// A client that disconnects does not hide the last backup from other clients.
func TestLastBackupAfterDisconnect(t *testing.T) {
	t.Parallel()
	service, name, _ := backedUp(t)
	service.SetListTime(wait)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	service.State(gone)
	if got := service.State(t.Context()).LastBackup; got == nil || got.Name != name {
		t.Errorf("got %+v, want %s", got, name)
	}
}

// The last known backup stays while the destination cannot be listed, and the state has the reason.
func TestLastBackupWithoutList(t *testing.T) {
	t.Parallel()
	service, name, destination := backedUp(t)
	service.SetListTime(wait)
	check := func(when, fault string) {
		t.Helper()
		service.ExpireLastBackup()
		for range 2 { // the second call uses the same list
			state := service.State(t.Context())
			if state.LastBackup == nil || state.LastBackup.Name != name || state.BackupsError != fault {
				t.Errorf("%s: got %+v, %q; want %s, %q", when, state.LastBackup, state.BackupsError, name, fault)
			}
		}
	}
	check("before", "")
	if err := os.Rename(destination, destination+".away"); err != nil {
		t.Fatal(err)
	}
	check("without the directory", "open "+destination+": no such file or directory")
	if err := os.Rename(destination+".away", destination); err != nil {
		t.Fatal(err)
	}
	check("after", "")
	service.SetListTime(-1) // has ended before the list
	check("late", "the destination did not return the list within -1ns")
	service.SetListTime(wait)
	check("in time", "")
}
