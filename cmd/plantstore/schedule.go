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

	"plantstore/internal/sqlite"
)

// schedule makes backups of the store that a server serves, and keeps the last
// ones. Its methods are for one goroutine.
type schedule struct {
	db, dir string
	every   time.Duration
	keep    int
	log     *slog.Logger
	remove  func(path string) error // os.Remove, but in tests
	store   string                  // of which backups are made, as in a manifest; empty until it was read
	ignored map[string]bool         // files of which a warning was logged; at most ignoredMax

	last       prometheus.Gauge // when this server made its last backup
	failed     prometheus.Counter
	notRemoved prometheus.Counter
}

// checkBackupDir refuses a directory in which the server cannot make backups. It
// creates a file there and removes it: permissions do not tell the whole of it.
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

// startSchedule begins to make backups if the settings ask for them. The
// function that it returns ends that, and waits for it.
func startSchedule(s *settings, log *slog.Logger, metrics prometheus.Registerer) (stop func()) {
	if s.backupDir == "" {
		return func() {}
	}
	j := newSchedule(s.db.path, string(s.backupDir), time.Duration(s.backupEvery), s.backupKeep.n, log)
	metrics.MustRegister(j.last, j.failed, j.notRemoved)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // ends with ctx; stop waits for it
		defer close(done)
		j.run(ctx)
	}()
	return func() { cancel(); <-done }
}

func newSchedule(db, dir string, every time.Duration, keep int, log *slog.Logger) *schedule {
	return &schedule{
		db: db, dir: dir, every: every, keep: keep, log: log, remove: os.Remove, ignored: map[string]bool{},
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "plantstore_backup_last_success_timestamp_seconds",
			Help: "When this server made its last scheduled backup; 0 before the first one.",
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

// run makes a backup whenever the last one is old enough, until ctx ends. The
// last one before the first of its own is the newest complete one in the
// directory, which an earlier run of the server made.
func (j *schedule) run(ctx context.Context) {
	due := time.Now()
	j.store, _ = sqlite.StoreAt(ctx, j.db) // the backup that is due now will meet the same error
	if old, err := j.backups(); err == nil && len(old) > 0 {
		due = old[len(old)-1].at.Add(j.every)
	}
	for waitUntil(ctx, due) {
		begun := time.Now()
		switch err := j.backup(ctx, begun); {
		case ctx.Err() != nil:
			return
		case err != nil:
			due = time.Now().Add(min(j.every, retryBackup))
		default:
			due = begun.Add(j.every)
			j.removeOld()
		}
	}
}

// retryBackup is how long after a backup that failed another is tried.
const retryBackup = time.Minute

// waitUntil returns true at a time, and false as soon as ctx ends.
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

// backup makes a backup, and logs and counts how that went.
func (j *schedule) backup(ctx context.Context, begun time.Time) error {
	path := filepath.Join(j.dir, j.prefix()+begun.UTC().Format(backupTime)+backupEnd)
	m, err := sqlite.Backup(ctx, j.db, path, nil)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		j.failed.Inc()
		j.log.Error("backup failed", "file", path, "error", err)
	default:
		j.store = m.Store
		j.last.Set(float64(begun.Unix()))
		j.log.Info("backup made", "file", path, "plants", m.Plants, "bytes", m.Bytes, "took_us", time.Since(begun).Microseconds())
	}
	return err
}

// removeOld removes all but the newest complete backups.
func (j *schedule) removeOld() {
	old, err := j.backups()
	if err != nil {
		j.noteNotRemoved(j.dir, err)
		return
	}
	for ; len(old) > j.keep; old = old[1:] {
		path := filepath.Join(j.dir, old[0].name)
		// The file before its manifest, as they were made the other way round.
		err := j.remove(path)
		if err == nil { // else the backup needs its manifest
			err = j.remove(path + sqlite.ManifestSuffix)
		}
		if err != nil {
			j.noteNotRemoved(path, err)
		}
	}
}

func (j *schedule) noteNotRemoved(path string, err error) {
	j.notRemoved.Inc()
	j.log.Warn("old backup not removed", "file", path, "error", err)
}

// The name of a scheduled backup is prefix, the time of its begin and
// backupEnd.
const (
	backupTime = "20060102T150405Z"
	backupEnd  = ".db"
)

// prefix is what the names of the backups of this store begin with.
func (j *schedule) prefix() string {
	return strings.TrimSuffix(filepath.Base(j.db), ".db") + "-"
}

// scheduledBackup is a complete backup in the directory.
type scheduledBackup struct {
	name string
	at   time.Time
}

// backups returns the complete scheduled backups of this store, oldest first.
// It logs a warning for each file that has the name of one and is none.
func (j *schedule) backups() ([]scheduledBackup, error) {
	entries, err := os.ReadDir(j.dir) // sorted by name, so by time
	var complete []scheduledBackup
	for _, entry := range entries {
		at, ok := j.timeOf(entry.Name())
		if !ok {
			continue
		}
		if why := j.checkBackup(entry.Name(), at); why != nil {
			j.noteIgnored(entry.Name(), why)
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

// checkBackup returns why a file that has the name of a backup is not a
// complete one.
func (j *schedule) checkBackup(name string, at time.Time) error {
	const clockSkew = time.Minute // a clock that was set back a little
	if time.Until(at) > clockSkew {
		return errors.New("its name has a time in the future")
	}
	m, err := sqlite.BackupManifest(filepath.Join(j.dir, name))
	if err == nil && m.Store != j.store {
		err = errors.New("it is a backup of another store: give each store a --backup-dir of its own")
	}
	return err
}

// ignoredMax bounds the warnings of ignored files, and the memory for them.
const ignoredMax = 100

// noteIgnored logs a warning for a file, once in the life of the server.
func (j *schedule) noteIgnored(name string, why error) {
	if j.ignored[name] || len(j.ignored) == ignoredMax {
		return
	}
	j.ignored[name] = true
	j.log.Warn("file is not counted as a backup", "file", filepath.Join(j.dir, name), "error", why)
}
