package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite"
)

// schedule makes backups of the store of a server at an interval, and removes old ones. It is not safe for concurrent
// use.
type schedule struct {
	db, dir string
	every   time.Duration
	keep    int
	log     *slog.Logger
	remove  func(path string) error              // os.Remove, except in tests
	made    func(path string, m sqlite.Manifest) // called after each backup
	store   string                               // id of the store in its manifests; empty until it is read
	ignored map[string]bool                      // files with a logged warning; at most ignoredMax

	last       prometheus.Gauge // when this server made its last backup
	failed     prometheus.Counter
	notRemoved prometheus.Counter
}

// checkBackupDir returns an error if the server cannot create files in the backup directory. It creates a file and
// removes it, because the mode of the directory alone does not decide.
func (s *settings) checkBackupDir() error {
	if s.backupDir == "" {
		return nil
	}
	info, err := os.Stat(string(s.backupDir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.fault("backup-dir", "directory %q does not exist; create it or change the setting", string(s.backupDir))
	case err != nil:
		return s.fault("backup-dir", "%w", err)
	case !info.IsDir():
		return s.fault("backup-dir", "%q is not a directory; change the setting", string(s.backupDir))
	}
	f, err := os.CreateTemp(string(s.backupDir), ".plantstore*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return s.fault("backup-dir",
			"cannot create a file: %w; give the server's user write access or change the setting", err)
	}
	return nil
}

// startSchedule starts the scheduled backups of the settings. stop ends them and waits for the goroutine.
func startSchedule(
	s *settings, trace *serverAudit, log *slog.Logger, metrics prometheus.Registerer,
) (stop func()) {
	if s.backupDir == "" {
		return func() {}
	}
	b := newSchedule(s.db.path, string(s.backupDir), time.Duration(s.backupEvery), s.backupKeep.n, log)
	b.made = func(path string, m sqlite.Manifest) {
		trace.Record(trace.event(audit.StoreBackup, backupDetails(path, m)...))
	}
	metrics.MustRegister(b.last, b.failed, b.notRemoved)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // ends with ctx; stop waits for it
		defer close(done)
		b.run(ctx)
	}()
	return func() { cancel(); <-done }
}

func newSchedule(db, dir string, every time.Duration, keep int, log *slog.Logger) *schedule {
	return &schedule{
		db: db, dir: dir, every: every, keep: keep, log: log, remove: os.Remove, ignored: map[string]bool{},
		made: func(string, sqlite.Manifest) {},
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "plantstore_backup_last_success_timestamp_seconds",
			Help: "Time of this server's last scheduled backup; 0 before the first one.",
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plantstore_backups_failed_total",
			Help: "Scheduled backups that failed.",
		}),
		notRemoved: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plantstore_backups_not_removed_total",
			Help: "Old scheduled backups that could not be removed.",
		}),
	}
}

// run makes a backup every j.every until ctx ends. The interval begins with the newest complete backup in the
// directory, which an earlier run of the server may have made.
func (j *schedule) run(ctx context.Context) {
	due := time.Now()
	j.store, _ = sqlite.StoreAt(ctx, j.db) // backup logs the same error
	if old, err := j.backups(); err == nil && len(old) > 0 {
		due = old[len(old)-1].at.Add(j.every)
	}
	for waitUntil(ctx, due) {
		started := time.Now()
		switch err := j.backup(ctx, started); {
		case ctx.Err() != nil:
			return
		case err != nil:
			due = time.Now().Add(min(j.every, retryBackup))
		default:
			due = started.Add(j.every)
			j.removeOld()
		}
	}
}

// retryBackup is the wait after a failed backup.
const retryBackup = time.Minute

// waitUntil waits until a time and returns true. It returns false when ctx ends.
func waitUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// backup makes a backup, and logs and counts its result.
func (j *schedule) backup(ctx context.Context, started time.Time) error {
	path := filepath.Join(j.dir, j.prefix()+started.UTC().Format(backupTime)+backupEnd)
	m, err := sqlite.Backup(ctx, j.db, path, nil)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		j.failed.Inc()
		j.log.Error("backup failed", "file", path, "error", err)
	default:
		j.store = m.Store
		j.last.Set(float64(started.Unix()))
		j.made(path, m)
		j.log.Info("backup made", "file", path, "plants", m.Plants, "bytes", m.Bytes,
			"took_us", time.Since(started).Microseconds())
	}
	return err
}

// removeOld removes all but the newest complete backups.
func (j *schedule) removeOld() {
	old, err := j.backups()
	if err != nil {
		j.reportNotRemoved(j.dir, err)
		return
	}
	for ; len(old) > j.keep; old = old[1:] {
		path := filepath.Join(j.dir, old[0].name)
		// The manifest last: a backup without its manifest would be ignored and never removed.
		err := j.remove(path)
		if err == nil {
			err = j.remove(path + sqlite.ManifestSuffix)
		}
		if err != nil {
			j.reportNotRemoved(path, err)
		}
	}
}

func (j *schedule) reportNotRemoved(path string, err error) {
	j.notRemoved.Inc()
	j.log.Warn("could not remove an old backup", "file", path, "error", err)
}

// The name of a scheduled backup is its prefix, the time of its start and backupEnd.
const (
	backupTime = "20060102T150405Z"
	backupEnd  = ".db"
)

// prefix returns the prefix of the names of this store's backups.
func (j *schedule) prefix() string {
	return strings.TrimSuffix(filepath.Base(j.db), ".db") + "-"
}

// scheduledBackup is a complete backup in the directory.
type scheduledBackup struct {
	name string
	at   time.Time
}

// backups returns the complete scheduled backups of this store, oldest first.
// It logs a warning for each other file with the name of a backup.
func (j *schedule) backups() ([]scheduledBackup, error) {
	entries, err := os.ReadDir(j.dir) // sorted by name, so by time
	var complete []scheduledBackup
	for _, entry := range entries {
		at, ok := j.timeOf(entry.Name())
		if !ok {
			continue
		}
		if err := j.checkBackup(entry.Name(), at); err != nil {
			j.reportIgnored(entry.Name(), err)
			continue
		}
		complete = append(complete, scheduledBackup{entry.Name(), at})
	}
	return complete, err
}

// timeOf returns the time in the name of a scheduled backup.
func (j *schedule) timeOf(name string) (time.Time, bool) {
	middle, ok := strings.CutPrefix(name, j.prefix())
	if !ok {
		return time.Time{}, false
	}
	t, err := time.Parse(backupTime+backupEnd, middle)
	return t, err == nil
}

// checkBackup returns an error unless a file with the name of a backup is a complete backup of this store.
func (j *schedule) checkBackup(name string, at time.Time) error {
	const clockSkew = time.Minute // the clock may have been set back
	if time.Until(at) > clockSkew {
		return errors.New("its name has a time in the future")
	}
	m, err := sqlite.BackupManifest(filepath.Join(j.dir, name))
	if err == nil && m.Store != j.store {
		err = errors.New("it is a backup of another store; use a --backup-dir for each store")
	}
	return err
}

// ignoredMax limits the warnings about ignored files, and their memory.
const ignoredMax = 100

// reportIgnored logs a warning about a file once in the life of the server.
func (j *schedule) reportIgnored(name string, reason error) {
	if j.ignored[name] || len(j.ignored) == ignoredMax {
		return
	}
	j.ignored[name] = true
	j.log.Warn("ignored a file in the backup directory", "file", filepath.Join(j.dir, name), "error", reason)
}
