package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/backup"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// BackupPage is a page of backups, the newest first.
type BackupPage struct {
	Backups []BackupRecord `json:"backups"`
	Next    string         `json:"next,omitempty"` // cursor of the next page; empty: this is the last page
}

// BackupRecord is a backup, in the form of the API.
type BackupRecord struct {
	Name     string    `json:"name"`
	At       time.Time `json:"at"`     // start of the backup
	Manual   bool      `json:"manual"` // made on demand, so no retention applies to it
	Location string    `json:"location"`
	Bytes    int64     `json:"bytes"`
	Complete bool      `json:"complete"`
	Fault    string    `json:"fault,omitempty"` // why it is not complete

	// From the manifest; absent without one.
	MadeAt  time.Time `json:"made_at,omitzero"`
	Store   string    `json:"store,omitempty"`
	Commits int64     `json:"commits,omitempty"`
	Plants  int64     `json:"plants,omitempty"`
	SHA256  string    `json:"sha256,omitempty"`
}

func newBackupRecord(b backup.Backup) BackupRecord {
	r := BackupRecord{
		Name: b.Name, At: b.At, Manual: b.Manual, Location: b.Location, Bytes: b.Bytes, Complete: b.Fault == nil,
		MadeAt: b.Manifest.MadeAt, Store: b.Manifest.Store, Commits: b.Manifest.Commits, Plants: b.Manifest.Plants,
		SHA256: b.Manifest.SHA256,
	}
	if b.Fault != nil {
		r.Fault = b.Fault.Error()
	}
	return r
}

// BackupJob is a job of the backup service.
type BackupJob = backup.Job

// The states of a job of the backup service, and of an import.
const (
	JobRunning  = backup.JobRunning
	JobComplete = backup.JobComplete
	JobFailed   = backup.JobFailed
)

// BackupSchedule is when and where the server makes backups.
type BackupSchedule = backup.Schedule

// BackupSchedule returns the schedule of the backups; the zero value if the server makes none.
func (s *Service) BackupSchedule() (schedule BackupSchedule) {
	if s.config.Backups != nil {
		schedule = s.config.Backups.Schedule()
	}
	return schedule
}

// Backups returns a page of the backups of the store, complete or not.
func (s *Service) Backups(ctx context.Context, q ListQuery) (page BackupPage, err error) {
	page.Backups = []BackupRecord{}
	at, name, err := parseCursor(q.Cursor)
	if err != nil || q.Cursor != "" && name == "" {
		return page, errCursor
	}
	all, err := withBackups(ctx, s, s.config.Backups.List)
	if err != nil {
		return page, err
	}
	for _, b := range all { // the backup of the cursor may be removed
		if q.Cursor == "" || cmp.Or(cmp.Compare(b.At.Unix(), at), strings.Compare(b.Name, name)) < 0 {
			page.Backups = append(page.Backups, newBackupRecord(b))
		}
	}
	page.Backups, page.Next = cut(page.Backups, q.Limit, func(last BackupRecord) string {
		return newCursor(last.At.Unix(), last.Name)
	})
	return page, nil
}

const (
	lastBackupEvery = 10 * time.Second // for which State uses the same list of backups, and every caller one without any
	listTimeMax     = 2 * time.Second
)

// newestBackup is the newest complete backup, read at most every lastBackupEvery.
type newestBackup struct {
	timeMax time.Duration // in which the destination must return the list

	mu     sync.Mutex    // guards the fields below, even while one goroutine lists the backups
	record *BackupRecord // newest one in the last complete list; nil: none
	fault  string        // why the list at the time at failed; empty: it did not
	at     time.Time
}

// lastBackup returns the newest complete backup, nil without one, and why the destination could not be listed. The
// backup is then from the last complete list. The result is shared, so one client's disconnect must not stop it.
func (s *Service) lastBackup(ctx context.Context, ageMax time.Duration) (last *BackupRecord, fault string) {
	if s.config.Backups == nil {
		return nil, ""
	}
	n := &s.newest
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.record == nil || n.fault != "" {
		ageMax = min(ageMax, lastBackupEvery) // the first backup, or the end of a failure, is noticed soon
	}
	if time.Since(n.at) < ageMax {
		return n.record, n.fault
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), n.timeMax)
	defer cancel()
	b, err := s.config.Backups.Newest(ctx)
	logged := n.fault
	n.at, n.fault = time.Now(), ""
	switch {
	case err == nil:
		record := newBackupRecord(b)
		n.record = &record
	case errors.Is(err, backup.ErrNotFound):
		n.record = nil
	default:
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("the destination did not return the list within %s", n.timeMax)
		}
		if n.fault = err.Error(); n.fault != logged {
			s.log.Warn("could not list the backups", "error", err)
		}
	}
	return n.record, n.fault
}

// ReadBackup calls read with the content of a complete backup, and records the download in the audit log. The context
// of read ends when ctx does, and with Close. An error means that it did not call read.
func (s *Service) ReadBackup(
	ctx context.Context, name string, by audit.Origin,
	read func(ctx context.Context, b BackupRecord, content io.Reader),
) error {
	_, err := withBackups(ctx, s, func(ctx context.Context) (none struct{}, err error) {
		select {
		case s.downloads <- struct{}{}:
			defer func() { <-s.downloads }()
		default:
			return none, plant.Errorf(plant.CodeBackupRunning,
				"%d downloads are in progress; try again when one has ended", downloadsMax)
		}
		b, content, err := s.config.Backups.Open(ctx, name, by)
		if err != nil {
			return none, err
		}
		defer content.Close()
		read(ctx, newBackupRecord(b), content)
		return none, nil
	})
	return err
}

// downloadsMax is the number of downloads at the same time.
const downloadsMax = 4

// FindBackup returns a complete backup.
func (s *Service) FindBackup(ctx context.Context, name string) (BackupRecord, error) {
	b, err := withBackups(ctx, s, func(ctx context.Context) (backup.Backup, error) {
		return s.config.Backups.Find(ctx, name)
	})
	return newBackupRecord(b), err
}

// StartBackup starts a manual backup.
func (s *Service) StartBackup(ctx context.Context, by audit.Origin) (BackupJob, error) {
	return withBackups(ctx, s, func(context.Context) (BackupJob, error) { return s.config.Backups.MakeBackup(by) })
}

// VerifyBackup starts a verification of a backup.
func (s *Service) VerifyBackup(ctx context.Context, name string, by audit.Origin) (BackupJob, error) {
	return withBackups(ctx, s, func(ctx context.Context) (BackupJob, error) {
		return s.config.Backups.Verify(ctx, name, by)
	})
}

// DrillBackup starts a drill with a backup.
func (s *Service) DrillBackup(ctx context.Context, name string, by audit.Origin) (BackupJob, error) {
	return withBackups(ctx, s, func(ctx context.Context) (BackupJob, error) {
		return s.config.Backups.Drill(ctx, name, by)
	})
}

// BackupJob returns a job.
func (s *Service) BackupJob(ctx context.Context, id int64) (BackupJob, error) {
	return withBackups(ctx, s, func(context.Context) (BackupJob, error) { return s.config.Backups.Job(id) })
}

// BackupJobs returns the last jobs, the newest first.
func (s *Service) BackupJobs() ([]BackupJob, error) {
	if s.config.Backups == nil {
		return nil, s.backupsOff()
	}
	return s.config.Backups.Jobs(), nil
}

// BackupLoss is what cannot be restored without a backup.
type BackupLoss = backup.Loss

// BackupLoss returns what cannot be restored without a backup.
func (s *Service) BackupLoss(ctx context.Context, name string) (BackupLoss, error) {
	return withBackups(ctx, s, func(ctx context.Context) (BackupLoss, error) {
		return s.config.Backups.Loss(ctx, name)
	})
}

// RestorableSince returns the time since which a restore of the backups and the copied commits has the state of every
// second; the zero time if there is none.
func (s *Service) RestorableSince(ctx context.Context) (time.Time, error) {
	return withBackups(ctx, s, func(ctx context.Context) (time.Time, error) {
		return s.config.Backups.RestorableSince(ctx)
	})
}

// DeleteBackup removes a backup, complete or not.
func (s *Service) DeleteBackup(ctx context.Context, name string, by audit.Origin) error {
	_, err := withBackups(ctx, s, func(ctx context.Context) (none struct{}, err error) {
		return none, s.config.Backups.Delete(ctx, name, by)
	})
	return err
}

// withBackups is run for an operation of the backup service.
func withBackups[T any](ctx context.Context, s *Service, do func(context.Context) (T, error)) (none T, err error) {
	if s.config.Backups == nil {
		return none, s.backupsOff()
	}
	return run(ctx, s, s.backupError, do)
}

// backupsOff returns the error of a server without backups.
func (s *Service) backupsOff() error {
	if w := s.config.WritePath; w != nil && errors.Is(w.Ready(), store.ErrStandby) {
		return &failure{store.ClientError(store.ErrStandby, "there are no backups here because", ""), store.ErrStandby}
	}
	return plant.Errorf(plant.CodeBackupsOff,
		"the server makes no backups; start it with --backup-dir, or use the tools of PostgreSQL")
}

// backupError returns the error for a client after an operation on backups failed.
func (s *Service) backupError(err error) error {
	code := plant.CodeBackupIncomplete
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, backup.ErrClosed):
		return errShutdown
	case errors.Is(err, backup.ErrNotFound), errors.Is(err, backup.ErrNoJob):
		code = plant.CodeBackupNotFound
	case errors.Is(err, backup.ErrRunning):
		code = plant.CodeBackupRunning
	default:
		s.log.Warn("operation on backups failed", "error", err)
	}
	return plant.Errorf(code, "%v", err)
}
