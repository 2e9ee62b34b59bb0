package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"plantstore/internal/admin"
	"plantstore/internal/config"
	"plantstore/internal/remote"
	"plantstore/internal/sqlite/backupfile"
	"plantstore/internal/terminal"
)

// backupServer makes a backup on a server, downloads it to a file or to standard output, and removes it from the
// server.
func (p *program) backupServer(ctx context.Context, r *remote.Client, to string, o *backupOptions) error {
	if to != terminal.StreamName {
		if _, err := config.FilePath(to); err != nil {
			return err
		}
		if err := backupfile.RefuseExisting(to, to+backupfile.ManifestSuffix); err != nil {
			return fmt.Errorf("backup to %s: %w", to, err)
		}
	}
	progress := p.NewProgress(0)
	defer progress.End()
	job, err := r.MakeBackup(ctx, func(done, all int64) { progress.Part(done, 2*max(1, all)) }) // half of the work
	if errors.Is(err, context.Canceled) && job.Backup != "" {
		progress.Line("the server continues the backup " + job.Backup)
	}
	if err != nil {
		return err
	}
	err = p.download(ctx, r, job, to, progress)
	progress.End()
	if err == nil {
		err = p.reportBackup(to, job.Manifest, o)
	}
	if err != nil {
		progress.Line("the server keeps the backup " + job.Backup)
		return err
	}
	if err := r.DeleteBackup(ctx, job.Backup); err != nil {
		progress.Line(fmt.Sprintf("warning: the server keeps the backup %s: %v", job.Backup, err))
	}
	return nil
}

// download downloads the backup of a job to standard output, or to a file with its manifest.
func (p *program) download(
	ctx context.Context, r *remote.Client, job admin.BackupJob, to string, progress *terminal.Progress,
) (err error) {
	shown := backupfile.Progress(func(done, all int64) { progress.Part(all+done, 2*all) }).Writer(job.Manifest.Bytes)
	if to == terminal.StreamName {
		return r.DownloadBackup(ctx, job, io.MultiWriter(terminal.InterruptibleWriter(ctx, p.Stdout), shown))
	}
	file, err := terminal.CreateOutput(ctx, to, false)
	if err != nil {
		return fmt.Errorf("backup to %s: %w", to, err)
	}
	defer func() { err = errors.Join(err, file.Discard()) }()
	if err := r.DownloadBackup(ctx, job, io.MultiWriter(file, shown)); err != nil {
		return err
	}
	if err := file.Publish(); err != nil {
		return fmt.Errorf("backup to %s: %w", to, err)
	}
	return job.Manifest.Write(to + backupfile.ManifestSuffix)
}
