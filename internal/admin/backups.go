package admin

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/backup"
	"plantstore/internal/plant"
)

// BackupQuery selects a page of backups.
type BackupQuery struct {
	Cursor string // BackupPage.Next of the page before; empty: the first page
	Limit  int    // from 1 to PageMax
}

// BackupPage is a page of backups, the newest first.
type BackupPage struct {
	Backups []BackupRecord `json:"backups"`
	Next    string         `json:"next,omitempty"` // cursor of the next page; empty: this is the last page
}

// BackupJob is a job of the backup service for the operator. Its JSON is that of the API.
type BackupJob struct {
	ID        int64     `json:"id"`
	Kind      string    `json:"kind"` // backup, verify or drill
	Backup    string    `json:"backup"`
	State     string    `json:"state"`        // one of the states below
	By        string    `json:"by,omitempty"` // name of the actor
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	Step      string    `json:"step,omitempty"` // see backup.Job
	Done      int64     `json:"done"`           // of the step
	All       int64     `json:"all"`            // 0: unknown
	Faults    []string  `json:"faults,omitempty"`
	Error     string    `json:"error,omitempty"` // why the job failed

	Manifest *BackupManifest `json:"manifest,omitempty"` // nil until it is known
}

// BackupManifest is the manifest of a backup.
type BackupManifest struct {
	Format  int       `json:"format"`
	MadeAt  time.Time `json:"made_at"`
	Store   string    `json:"store"`
	Commits int64     `json:"commits"`
	Plants  int64     `json:"plants"`
	Bytes   int64     `json:"bytes"`
	SHA256  string    `json:"sha256"`
}

// The states of a job.
const (
	JobRunning  = "running"
	JobComplete = "complete"
	JobFailed   = "failed"
)

func newBackupJob(j backup.Job) BackupJob {
	job := BackupJob{
		ID: j.ID, Kind: string(j.Kind), Backup: j.Backup, State: JobRunning,
		By:        cmp.Or(j.By.Actor.Name, j.By.Actor.ID),
		StartedAt: j.Started.UTC(), EndedAt: j.Ended, Step: j.Step, Done: j.Done, All: j.All, Faults: j.Faults,
	}
	if !j.Ended.IsZero() {
		job.State, job.EndedAt = JobComplete, j.Ended.UTC()
	}
	if j.Err != nil {
		job.State, job.Error = JobFailed, j.Err.Error()
	}
	if j.Manifest.Store != "" {
		m := BackupManifest(j.Manifest)
		job.Manifest = &m
	}
	return job
}

// Backups returns a page of the backups of the store, and of the files with the name of one.
func (s *Service) Backups(ctx context.Context, q BackupQuery) (page BackupPage, err error) {
	page.Backups = []BackupRecord{}
	if q.Limit < 1 || q.Limit > PageMax {
		return page, invalid(fmt.Sprintf("limit must be from 1 to %d; got %d", PageMax, q.Limit))
	}
	follows, err := parseBackupCursor(q.Cursor)
	if err != nil {
		return page, err
	}
	ctx, end, err := s.beginBackup(ctx)
	if err != nil {
		return page, err
	}
	defer end()
	all, err := s.backups.List(ctx)
	if err != nil {
		return page, s.backupError(err)
	}
	for _, b := range all {
		if !follows(b) {
			continue
		}
		if len(page.Backups) == q.Limit {
			page.Next = backupCursor(page.Backups[q.Limit-1])
			break
		}
		page.Backups = append(page.Backups, newBackupRecord(b))
	}
	return page, nil
}

// backupCursor returns the cursor of the page after a backup: cursorVersion, its time in seconds, and its name.
func backupCursor(b BackupRecord) string {
	text := binary.BigEndian.AppendUint64([]byte{cursorVersion}, uint64(b.At.Unix()))
	return base64.RawURLEncoding.EncodeToString(append(text, b.Name...))
}

// parseBackupCursor returns a function that reports whether a backup follows the one of a cursor, the newest first. The
// backup of the cursor may be removed since.
func parseBackupCursor(text string) (follows func(backup.Backup) bool, err error) {
	if text == "" {
		return func(backup.Backup) bool { return true }, nil
	}
	b, err := decodeCursor(text)
	if err != nil || len(b) == cursorBytes {
		return nil, errCursor()
	}
	at, name := int64(binary.BigEndian.Uint64(b[1:])), string(b[cursorBytes:])
	return func(b backup.Backup) bool {
		return cmp.Or(cmp.Compare(b.At.Unix(), at), strings.Compare(b.Name, name)) < 0
	}, nil
}

// StartBackup starts a manual backup.
func (s *Service) StartBackup(ctx context.Context, by audit.Origin) (BackupJob, error) {
	return s.startJob(ctx, func(context.Context) (backup.Job, error) { return s.backups.MakeBackup(by) })
}

// VerifyBackup starts a verification of a backup.
func (s *Service) VerifyBackup(ctx context.Context, name string, by audit.Origin) (BackupJob, error) {
	return s.startJob(ctx, func(ctx context.Context) (backup.Job, error) { return s.backups.Verify(ctx, name, by) })
}

// DrillBackup starts a drill with a backup.
func (s *Service) DrillBackup(ctx context.Context, name string, by audit.Origin) (BackupJob, error) {
	return s.startJob(ctx, func(ctx context.Context) (backup.Job, error) { return s.backups.Drill(ctx, name, by) })
}

func (s *Service) startJob(ctx context.Context, start func(context.Context) (backup.Job, error)) (BackupJob, error) {
	ctx, end, err := s.beginBackup(ctx)
	if err != nil {
		return BackupJob{}, err
	}
	defer end()
	j, err := start(ctx)
	if err != nil {
		return BackupJob{}, s.backupError(err)
	}
	return newBackupJob(j), nil
}

// BackupJobs returns the last jobs, the newest first.
func (s *Service) BackupJobs() ([]BackupJob, error) {
	if s.backups == nil {
		return nil, errBackupsOff()
	}
	jobs := []BackupJob{}
	for _, j := range s.backups.Jobs() {
		jobs = append(jobs, newBackupJob(j))
	}
	return jobs, nil
}

// BackupJob returns a job.
func (s *Service) BackupJob(id int64) (BackupJob, error) {
	if s.backups == nil {
		return BackupJob{}, errBackupsOff()
	}
	j, err := s.backups.Job(id)
	if err != nil {
		return BackupJob{}, s.backupError(err)
	}
	return newBackupJob(j), nil
}

// DeleteBackup removes a backup, complete or not.
func (s *Service) DeleteBackup(ctx context.Context, name string, by audit.Origin) error {
	ctx, end, err := s.beginBackup(ctx)
	if err != nil {
		return err
	}
	defer end()
	if err := s.backups.Delete(ctx, name, by); err != nil {
		return s.backupError(err)
	}
	return nil
}

// beginBackup is begin for an operation on backups.
func (s *Service) beginBackup(ctx context.Context) (context.Context, func(), error) {
	if s.backups == nil {
		return nil, nil, errBackupsOff()
	}
	return s.begin(ctx)
}

func errBackupsOff() error {
	return &plant.Error{
		Code:    plant.CodeBackupsOff,
		Message: "the server makes no backups; start it with --backup-dir, or use the tools of PostgreSQL",
	}
}

// backupError returns the error for a client after an operation on backups failed.
func (s *Service) backupError(err error) error {
	code := plant.CodeBackupIncomplete
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, backup.ErrClosed):
		return errShutdown()
	case errors.Is(err, backup.ErrNotFound), errors.Is(err, backup.ErrNoJob):
		code = plant.CodeBackupNotFound
	case errors.Is(err, backup.ErrRunning):
		code = plant.CodeBackupRunning
	default:
		s.log.Warn("operation on backups failed", "error", err)
	}
	return &plant.Error{Code: code, Message: err.Error()}
}
