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
func (c *Client) MakeBackup(ctx context.Context, progress func(done, all int64)) (admin.BackupJob, error) {
	const pollEvery = 200 * time.Millisecond
	job, err := do[admin.BackupJob](ctx, c, http.MethodPost, c.at("backups"), nil)
	if err != nil {
		return job, err
	}
	for job.State == admin.JobRunning {
		progress(job.Done, job.All)
		select {
		case <-ctx.Done():
			return job, ctx.Err()
		case <-time.After(pollEvery):
		}
		now, err := get[admin.BackupJob](ctx, c, c.at("backup-jobs/"+strconv.FormatInt(job.ID, 10)))
		if err != nil {
			return job, err
		}
		job = now
	}
	if job.State != admin.JobComplete {
		return job, fmt.Errorf("the server could not make the backup: %s", terminal.Printable(job.Error))
	}
	return job, nil
}

// DownloadBackup downloads the backup of a complete job and compares it with its manifest.
func (c *Client) DownloadBackup(ctx context.Context, job admin.BackupJob, to io.Writer) error {
	res, err := c.send(ctx, http.MethodGet, c.at("backups/"+job.Backup+"/content"), nil)
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
func (c *Client) DeleteBackup(ctx context.Context, name string) error {
	_, err := do[struct{}](ctx, c, http.MethodDelete, c.at("backups/"+name), nil)
	return err
}

// Settings returns the settings in force of the server.
func (c *Client) Settings(ctx context.Context) ([]admin.Setting, error) {
	list, err := get[admin.SettingList](ctx, c, c.at("settings"))
	return list.Settings, err
}
