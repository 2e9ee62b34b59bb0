package backup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/s3"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/sqlite/journal"
)

// schedule makes a backup every config.Every until Close. The interval begins with the newest complete backup in the
// destination, which an earlier run of the server may have made.
func (s *Service) schedule() {
	s.removeScratch()
	next := time.Now()
	if old, err := s.scheduled(); err == nil && len(old) > 0 { // the backup logs the same error
		last := old[len(old)-1].At
		s.last.Set(float64(last.Unix()))
		next = last.Add(s.config.Every)
	}
	var err error
	for s.setNext(next, nil); s.waitDue(next, err != nil) && s.acquire(); s.setNext(next, err) {
		started := time.Now()
		switch err = s.makeScheduled(started); {
		case s.ctx.Err() != nil:
			return
		case err != nil:
			s.failed.Add(1)
			next = time.Now().Add(min(s.config.Every, retryAfter))
		default:
			s.last.Set(float64(started.Unix()))
			next = started.Add(s.config.Every)
			s.removeOld()
		}
	}
}

// needBackup makes a backup due that has a commit: no segment leads to it.
func (s *Service) needBackup(commit int64) {
	s.mu.Lock()
	s.needed = max(s.needed, commit+1)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // the schedule has not received the last signal yet
	}
}

// waitDue waits until a time and returns true. Unless the last backup failed, it also returns true when a commit
// needs a backup that no backup has. It returns false at the end of the service.
func (s *Service) waitDue(at time.Time, failed bool) bool {
	for failed || !s.backupNeeded() {
		select {
		case <-s.ctx.Done():
			return false
		case <-s.wake:
		case <-time.After(time.Until(at)):
			return true
		}
	}
	return waitUntil(s.ctx, time.Now().Truncate(time.Second).Add(time.Second)) // the times in the names must differ
}

func (s *Service) backupNeeded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.needed > s.made
}

// acquire waits until no other backup runs and returns true. It returns false at the end of the service. endJob
// releases the slot.
func (s *Service) acquire() bool {
	select {
	case <-s.ctx.Done():
		return false
	case s.making <- struct{}{}:
		return true
	}
}

// retryAfter is the wait after a failed backup.
const retryAfter = time.Minute

// waitUntil waits until a time and returns true. It returns false when ctx ends.
func waitUntil(ctx context.Context, at time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Until(at)):
		return true
	}
}

// setNext notes when the next backup is due, and why the last one failed.
func (s *Service) setNext(at time.Time, fault error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next, s.scheduleFault = at, fault
}

// Schedule describes the scheduled backups.
type Schedule struct {
	Destination string
	Every       time.Duration
	Keep        int
	Next        time.Time // when the next backup is due; zero until the service has read the destination
	Copied      time.Time // a restore has all commits from before this time; zero: only those in backups
	Timeline    string    // has the last commit in the destination; empty: the server is not its owner
	Since       time.Time // when it became the owner
	Segments    int64     // in the destination, at the last merge
	Faults      []string  // why the last copy and the last merge failed
	Fault       error     // why the last scheduled backup failed; nil: it did not
}

// Schedule returns the schedule of the service.
func (s *Service) Schedule() Schedule {
	copied, fault := s.copier.restorableTo()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := Schedule{
		Destination: s.to.location(""), Every: s.config.Every, Keep: s.config.Keep, Next: s.next, Copied: copied,
		Fault:    s.scheduleFault,
		Segments: s.merging.segments,
	}
	if s.own != nil {
		all.Timeline, all.Since = s.own.ID, s.own.since
		if !s.own.begun {
			all.Timeline = s.own.From
		}
	}
	if fault != nil {
		all.Faults = append(all.Faults, fmt.Sprintf("could not copy commits: %v", fault))
	}
	if err := s.merging.fault; err != nil {
		all.Faults = append(all.Faults, fmt.Sprintf("could not merge segments: %v", err))
	}
	return all
}

// makeScheduled makes a scheduled backup. The caller has acquired the slot.
func (s *Service) makeScheduled(started time.Time) error {
	s.mu.Lock()
	job := s.addJob(s.making, Making, s.names.nameAt(started, scheduledEnd), s.config.By)
	s.mu.Unlock()
	m, err := s.make(job, started)
	if err == nil {
		s.recordEnd(audit.StoreBackup, job, m, nil)
	}
	s.endJob(job, m, nil, err)
	if err != nil {
		s.joinFailures(job)
	}
	return err
}

// make makes the backup of a job and logs the result.
func (s *Service) make(job *Job, started time.Time) (backupfile.Manifest, error) {
	m, err := s.makeOwned(job)
	file := s.to.location(job.Backup)
	switch {
	case s.ctx.Err() != nil:
	case err != nil:
		s.config.Log.Error("backup failed", "file", file, "error", err)
	default:
		s.mu.Lock()
		s.made = max(s.made, m.Commits+1)
		s.mu.Unlock()
		s.config.Log.Info("backup made", "file", file, "plants", m.Plants, "bytes", m.Bytes,
			"took_us", time.Since(started).Microseconds())
	}
	return m, err
}

// makeOwned makes the backup of a job if this server is the owner.
func (s *Service) makeOwned(job *Job) (m backupfile.Manifest, err error) {
	owned, err := s.stillOwner(s.ctx)
	if err != nil {
		return m, err
	}
	s.clean()
	return s.to.make(s.ctx, s.config.DB, job.Backup, owned.ID, s.steps(job))
}

// clean removes the parts of unfinished backups of a killed server or an unreachable destination.
func (s *Service) clean() {
	removed, err := s.to.clean(s.ctx, string(s.names), func(name string) bool {
		_, isBackup := s.names.named(name)
		_, isSegment := journal.ParseName(s.names.segmentPrefix(), name)
		return isBackup || isSegment
	})
	for _, name := range removed {
		s.config.Log.Info("removed an unfinished backup", "file", s.to.location(name))
	}
	refused := errors.Is(err, s3.ErrDenied)
	said := refused && s.uploadsRefused
	s.uploadsRefused = refused
	if err != nil && !said && s.ctx.Err() == nil {
		s.config.Log.Warn("could not remove unfinished backups", "file", s.to.location(""), "error", err)
	}
}

// removeOld removes all but the newest complete scheduled backups. It skips a backup that a job uses: the retention
// after the next backup removes it.
func (s *Service) removeOld() {
	_, err := s.stillOwner(s.ctx)
	var old []Backup
	if err == nil {
		old, err = s.scheduled()
	}
	if err != nil {
		s.reportNotRemoved(s.to.location(""), err)
		return
	}
	for ; len(old) > s.config.Keep && s.mayRemove(); old = old[1:] {
		release, err := s.reserve(old[0].Name)
		if err != nil {
			continue
		}
		err = s.remove(func() error { return removeBackup(s.ctx, s.to, old[0].Name) })
		release()
		switch {
		case !s.mayRemove():
		case err != nil:
			s.reportNotRemoved(old[0].Location, err)
		default:
			s.config.Log.Info("removed an old backup", "file", old[0].Location)
		}
	}
	if err := s.removeOldSegments(s.ctx); err != nil {
		s.reportNotRemoved(s.to.location(""), err)
	}
}

func (s *Service) reportNotRemoved(file string, err error) {
	s.notRemoved.Inc()
	s.config.Log.Warn("could not remove an old backup", "file", file, "error", err)
}

// scheduled returns the complete scheduled backups of this store, oldest first. It logs a warning for each other file
// with the name of one.
func (s *Service) scheduled() (complete []Backup, err error) {
	all, err := s.List(s.ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range slices.Backward(all) {
		switch {
		case b.Manual:
		case b.Fault == nil:
			complete = append(complete, b)
		default:
			s.reportIgnored(b)
		}
	}
	return complete, nil
}

// ignoredMax limits the warnings about ignored files, and their memory.
const ignoredMax = 100

// reportIgnored logs a warning about a file once in the life of the server.
func (s *Service) reportIgnored(b Backup) {
	if s.ignored[b.Name] || len(s.ignored) == ignoredMax {
		return
	}
	s.ignored[b.Name] = true
	s.config.Log.Warn("ignored a file in the backup directory", "file", b.Location, "error", b.Fault)
}
