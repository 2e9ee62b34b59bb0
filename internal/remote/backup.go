package remote

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/terminal"
)

// MakeBackup makes a backup on the server and returns its job when it is complete. It returns a running job if ctx ends
// first: the server continues the backup.
func (r *Server) MakeBackup(ctx context.Context, progress func(done, all int64)) (job admin.BackupJob, err error) {
	const pollEvery = 200 * time.Millisecond
	if err := r.do(ctx, http.MethodPost, r.at("backups"), nil, &job); err != nil {
		return job, err
	}
	for job.State == admin.JobRunning {
		progress(job.Done, job.All)
		select {
		case <-ctx.Done():
			return job, ctx.Err()
		case <-time.After(pollEvery):
		}
		if err := r.do(ctx, http.MethodGet, r.at("backup-jobs/"+strconv.FormatInt(job.ID, 10)), nil, &job); err != nil {
			return job, err
		}
	}
	if job.State != admin.JobComplete || job.Manifest == nil {
		return job, fmt.Errorf("the server could not make the backup: %s", terminal.Printable(job.Error))
	}
	return job, nil
}

// DownloadBackup downloads the backup of a complete job and compares it with its manifest.
func (r *Server) DownloadBackup(ctx context.Context, job admin.BackupJob, to io.Writer) error {
	res, err := r.send(ctx, http.MethodGet, r.at("backups/"+job.Backup+"/content"), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(res.Body, job.Manifest.Bytes+1)); err != nil {
		return fmt.Errorf("download of the backup: %w", err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != job.Manifest.SHA256 {
		return fmt.Errorf("the downloaded backup differs from its manifest: SHA-256 %s, want %s; try again",
			got, terminal.Printable(job.Manifest.SHA256))
	}
	return nil
}

// DeleteBackup removes a backup from the server.
func (r *Server) DeleteBackup(ctx context.Context, name string) error {
	return r.do(ctx, http.MethodDelete, r.at("backups/"+name), nil, &struct{}{})
}

// Settings returns the settings in force of the server.
func (r *Server) Settings(ctx context.Context) ([]admin.Setting, error) {
	var list struct {
		Settings []admin.Setting `json:"settings"`
	}
	err := r.do(ctx, http.MethodGet, r.at("settings"), nil, &list)
	return list.Settings, err
}
