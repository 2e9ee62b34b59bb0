package backup

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite/backupfile"
)

// Kind is the kind of a job.
type Kind string

// The kinds of jobs.
const (
	Making    Kind = "backup" // copies the store to a new backup
	Verifying Kind = "verify" // reads a backup and compares it with its manifest
	Drilling  Kind = "drill"  // restores a backup into a scratch file, and verifies that file
)

// The states of a job.
const (
	JobRunning  = "running"
	JobComplete = "complete"
	JobFailed   = "failed"
)

// Job is a piece of work that a Service does in the background, in the form of the admin API.
type Job struct {
	ID      int64     `json:"id"` // 1 for the first job of the process, and one more for each later one
	Kind    Kind      `json:"kind"`
	Backup  string    `json:"backup"` // name of the backup
	State   string    `json:"state"`
	By      string    `json:"by,omitempty"` // name of the actor, or its id
	Started time.Time `json:"started_at"`   // UTC
	Ended   time.Time `json:"ended_at,omitzero"`

	Step string `json:"step,omitempty"` // "copy" in pages, "check" in plants; "upload", "download", "restore" in bytes
	Done int64  `json:"done"`           // progress of the step
	All  int64  `json:"all"`            // 0: unknown

	Plants int64 `json:"plants,omitempty"` // in the store that a drill has restored

	Failures     int       `json:"failures,omitempty"`     // scheduled backups that failed for the same reason
	FailingSince time.Time `json:"failing_since,omitzero"` // start of the first of them

	Faults   []string            `json:"faults,omitempty"`  // damage that a verification or a drill has found; at most 20
	Error    string              `json:"error,omitempty"`   // why the job failed
	Manifest backupfile.Manifest `json:"manifest,omitzero"` // the backup's; the zero value until it is known

	origin audit.Origin  // who requested the job, or the schedule
	slot   chan struct{} // holds an element for the job until its end
}

// jobsMax is the number of jobs whose results a Service keeps; see joinFailures.
const jobsMax = 50

// Jobs returns the last jobs of the process, newest first.
func (s *Service) Jobs() []Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []Job{}
	for _, j := range slices.Backward(s.jobs) {
		all = append(all, *j)
	}
	return all
}

// Job returns a job, or ErrNoJob.
func (s *Service) Job(id int64) (Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.ID == id {
			return *j, nil
		}
	}
	return Job{}, ErrNoJob
}

// addJob adds a job that has started in a slot, and forgets the oldest one that has ended. The caller has locked mu.
func (s *Service) addJob(slot chan struct{}, kind Kind, name string, by audit.Origin) *Job {
	j := &Job{
		ID: s.nextJob, Kind: kind, Backup: name, State: JobRunning, By: cmp.Or(by.Actor.Name, by.Actor.ID),
		Started: time.Now().UTC(), origin: by, slot: slot,
	}
	s.nextJob++
	s.jobs = append(s.jobs, j)
	ended := slices.IndexFunc(s.jobs, func(j *Job) bool { return !j.Ended.IsZero() })
	if len(s.jobs) > jobsMax && ended >= 0 {
		s.jobs = slices.Delete(s.jobs, ended, ended+1)
	}
	return j
}

// endJob stores the result of a job and releases its slot, so that the next job can start when this one has ended.
func (s *Service) endJob(j *Job, m backupfile.Manifest, faults []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j.State, j.Ended, j.Manifest, j.Faults = JobComplete, time.Now().UTC(), m, faults
	if err != nil {
		j.State, j.Error = JobFailed, err.Error()
	}
	<-j.slot
}

// joinFailures makes a failed scheduled backup stand for the earlier ones that failed for the same reason since the
// last one that was made, so that a full disk doesn't push all other jobs out of the list. Each attempt has other
// digits in its reason: the name of the backup and sizes.
func (s *Service) joinFailures(failed *Job) {
	reason := func(j *Job) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsDigit(r) {
				return -1
			}
			return r
		}, j.Error)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	failed.Failures, failed.FailingSince = 1, failed.Started
	for i, j := range slices.Backward(s.jobs) {
		switch {
		case j.Kind == Making && j.State == JobComplete:
			return
		case j != failed && j.Failures > 0 && reason(j) == reason(failed):
			failed.Failures, failed.FailingSince = j.Failures+1, j.FailingSince
			s.jobs = slices.Delete(s.jobs, i, i+1)
			return
		}
	}
}

// reserve reserves a backup for its removal, or for the start of a job that reads it, until the caller calls release.
// It returns ErrRunning if a job uses the backup, or another caller has reserved it.
func (s *Service) reserve(name string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reserved[name] || slices.ContainsFunc(s.jobs, func(j *Job) bool { return j.Backup == name && j.Ended.IsZero() }) {
		return nil, ErrRunning
	}
	s.reserved[name] = true
	s.unlist(name)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.reserved, name)
		s.unlist(name)
	}, nil
}

// unlist makes no list miss a backup, not even one that has begun. The caller has locked mu.
func (s *Service) unlist(name string) {
	delete(s.listed, name)
	s.changes++
}

// steps returns a function that returns the progress of a step of a job.
func (s *Service) steps(j *Job) func(step string) backupfile.Progress {
	return func(step string) backupfile.Progress {
		return func(done, all int64) {
			s.mu.Lock()
			defer s.mu.Unlock()
			j.Step, j.Done, j.All = step, done, all
		}
	}
}

// MakeBackup starts a manual backup and records that in the audit log. Retention keeps manual backups. It returns
// ErrRunning while another backup runs.
func (s *Service) MakeBackup(by audit.Origin) (Job, error) {
	started := time.Now().Truncate(time.Second)
	return s.start(s.making, Making, by, func() string {
		if !started.After(s.lastManual) { // the times in the names must differ
			started = s.lastManual.Add(time.Second)
		}
		s.lastManual = started
		return s.names.nameAt(started, manualEnd)
	}, func(j *Job) {
		waitUntil(s.ctx, started)
		m, err := s.make(j, time.Now())
		s.recordEnd(audit.StoreBackup, j, m, err)
		s.endJob(j, m, nil, err)
	})
}

// Verify starts a job that reads a complete backup and compares it with its manifest. It returns ErrRunning while
// another verification or drill runs, and an error that wraps ErrNotFound if there is no such backup.
func (s *Service) Verify(ctx context.Context, name string, by audit.Origin) (Job, error) {
	return s.startCheck(ctx, Verifying, name, by, s.verify)
}

// Drill starts a job that restores a complete backup into a scratch file, verifies that file, compares it with the
// manifest and removes it. It records the end in the audit log. It returns the errors of Verify.
func (s *Service) Drill(ctx context.Context, name string, by audit.Origin) (Job, error) {
	return s.startCheck(ctx, Drilling, name, by, func(j *Job, b Backup) ([]string, error) {
		faults, err := s.drill(j, b)
		s.recordEnd(audit.BackupDrill, j, b.Manifest, err)
		return faults, err
	})
}

func (s *Service) startCheck(
	ctx context.Context, kind Kind, name string, by audit.Origin, check func(*Job, Backup) ([]string, error),
) (Job, error) {
	release, err := s.reserve(name) // until the job uses it
	if err != nil {
		return Job{}, err
	}
	defer release()
	b, err := s.Find(ctx, name)
	if err != nil {
		return Job{}, err
	}
	return s.start(s.checking, kind, by, func() string { return name }, func(j *Job) {
		faults, err := check(j, b)
		s.endJob(j, b.Manifest, faults, err)
	})
}

// start starts a job unless the slot is taken. It calls name with s.mu locked.
func (s *Service) start(
	slot chan struct{}, kind Kind, by audit.Origin, name func() string, do func(*Job),
) (Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return Job{}, ErrClosed
	}
	select {
	case slot <- struct{}{}:
	default:
		return Job{}, ErrRunning
	}
	j := s.addJob(slot, kind, name(), by)
	if kind == Making {
		s.record(audit.BackupStart, by, s.fileDetail(j.Backup))
	}
	s.running.Go(func() { do(j) }) // ends with the job, by endJob; Close waits for it
	return *j, nil
}

// recordEnd records the result of a job in the audit log.
func (s *Service) recordEnd(action audit.Action, j *Job, m backupfile.Manifest, err error) {
	result := "complete"
	switch {
	case errors.Is(err, context.Canceled):
		result = "interrupted"
	case err != nil:
		result = "failed"
	}
	s.record(action, j.origin, append(s.details(j.Backup, m), audit.Detail{Key: "result", Value: result})...)
}
