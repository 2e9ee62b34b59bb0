package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/sqlite"
)

// schedule makes backups of the store that a server serves, and keeps the last
// ones.
type schedule struct {
	db, dir string
	every   time.Duration
	keep    int
	log     *slog.Logger
	last    prometheus.Gauge // when the last backup that succeeded was made
	failed  prometheus.Counter
}

// startSchedule begins to make backups if the settings ask for them. What it
// returns ends that, and waits for it.
func startSchedule(s *settings, log *slog.Logger, metrics prometheus.Registerer) (stop func(), err error) {
	if s.backupDir == "" {
		return func() {}, nil
	}
	if info, err := os.Stat(s.backupDir); err != nil {
		return nil, fmt.Errorf("backup-dir: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("backup-dir: %s is no directory", s.backupDir)
	}
	j := &schedule{
		db: s.db.path, dir: s.backupDir, every: s.backupEvery, keep: s.backupKeep, log: log,
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "plantstore_backup_last_success_timestamp_seconds",
			Help: "When the last scheduled backup was made; 0 if none is there.",
		}),
		failed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plantstore_backups_failed_total",
			Help: "Scheduled backups that failed.",
		}),
	}
	metrics.MustRegister(j.last, j.failed)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { // ends with ctx; stop waits for it
		defer close(done)
		j.run(ctx)
	}()
	return func() { cancel(); <-done }, nil
}

// run makes a backup whenever the last one is old enough, also the last one of
// an earlier run of the server.
func (j *schedule) run(ctx context.Context) {
	for {
		last := j.newest()
		if !last.IsZero() {
			j.last.Set(float64(last.Unix()))
		}
		timer := time.NewTimer(time.Until(last.Add(j.every)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if j.backup(ctx) {
			continue
		}
		timer.Reset(min(j.every, retryBackup))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// retryBackup is how long after a backup that failed another is tried.
const retryBackup = time.Minute

// backupTime is the form of the time in the name of a scheduled backup.
const backupTime = "20060102T150405Z"

func (j *schedule) backup(ctx context.Context) (ok bool) {
	begun := time.Now()
	path := filepath.Join(j.dir, j.prefix()+begun.UTC().Format(backupTime)+".db")
	m, err := sqlite.Backup(ctx, j.db, path, func(int64, int64) {})
	if ctx.Err() != nil {
		return false
	}
	if err == nil {
		j.log.Info("backup made", "file", path, "plants", m.Plants, "bytes", m.Bytes, "took_us", time.Since(begun).Microseconds())
		err = j.removeOld()
	}
	if err != nil {
		j.failed.Inc()
		j.log.Error("backup failed", "file", path, "error", err)
	}
	return err == nil
}

// prefix is what the names of the backups of this store begin with.
func (j *schedule) prefix() string {
	return strings.TrimSuffix(filepath.Base(j.db), ".db") + "-"
}

// backups returns the scheduled backups of this store, oldest first.
func (j *schedule) backups() ([]string, error) {
	entries, err := os.ReadDir(j.dir) // sorted by name, so by time
	var names []string
	for _, entry := range entries {
		if _, ok := j.timeOf(entry.Name()); ok {
			names = append(names, entry.Name())
		}
	}
	return names, err
}

func (j *schedule) timeOf(name string) (time.Time, bool) {
	middle, ok := strings.CutPrefix(name, j.prefix())
	if !ok {
		return time.Time{}, false
	}
	t, err := time.Parse(backupTime+".db", middle)
	return t, err == nil
}

// newest returns when the last backup was made; the zero time if there is none.
func (j *schedule) newest() time.Time {
	names, err := j.backups()
	if err != nil || len(names) == 0 {
		return time.Time{} // the backup that is due now will say what is wrong
	}
	t, _ := j.timeOf(names[len(names)-1])
	return t
}

// removeOld removes all but the newest backups; the file before its manifest,
// as they were made the other way round.
func (j *schedule) removeOld() error {
	names, err := j.backups()
	if err != nil {
		return err
	}
	for len(names) > j.keep {
		path := filepath.Join(j.dir, names[0])
		err = errors.Join(err, os.Remove(path), os.Remove(path+sqlite.ManifestSuffix))
		names = names[1:]
	}
	return err
}
