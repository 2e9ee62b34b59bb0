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
func (p *program) backupServer(ctx context.Context, r *remote.Server, to string, o *backupOptions) error {
	if to != terminal.StreamName {
		if _, err := config.FilePath(to); err != nil {
			return err
		}
		if err := backupfile.RefuseExisting(to, to+backupfile.ManifestSuffix); err != nil {
			return fmt.Errorf("backup to %s: %w", to, err)
		}
	}
	job, err := p.makeOn(ctx, r)
	if err != nil {
		return err
	}
	if err := p.receive(ctx, r, job, to, o); err != nil {
		fmt.Fprintf(p.Stderr, "the server keeps the backup %s\n", terminal.Printable(job.Backup))
		return err
	}
	if err := r.DeleteBackup(ctx, job.Backup); err != nil {
		fmt.Fprintf(p.Stderr, "warning: the server keeps the backup %s: %v\n", terminal.Printable(job.Backup), err)
	}
	return nil
}

// makeOn makes a backup on a server and returns its job when it is complete.
func (p *program) makeOn(ctx context.Context, r *remote.Server) (admin.BackupJob, error) {
	progress := p.NewProgress(0)
	defer progress.End()
	job, err := r.MakeBackup(ctx, func(done, all int64) { progress.Part(done, 2*max(1, all)) }) // half of the work
	if errors.Is(err, context.Canceled) && job.Backup != "" {
		fmt.Fprintf(p.Stderr, "the server continues the backup %s\n", terminal.Printable(job.Backup))
	}
	return job, err
}

// receive downloads the backup of a job, and writes its manifest.
func (p *program) receive(
	ctx context.Context, r *remote.Server, job admin.BackupJob, to string, o *backupOptions,
) (err error) {
	m := *job.Manifest
	if to == terminal.StreamName {
		if err := p.download(ctx, r, job, terminal.InterruptibleWriter(ctx, p.Stdout)); err != nil {
			return err
		}
		return p.reportBackup(to, m, o)
	}
	file, err := terminal.CreateOutput(ctx, to, false)
	if err != nil {
		return fmt.Errorf("backup to %s: %w", to, err)
	}
	defer func() { err = errors.Join(err, file.Discard()) }()
	if err := p.download(ctx, r, job, file); err != nil {
		return err
	}
	if err := file.Publish(); err != nil {
		return fmt.Errorf("backup to %s: %w", to, err)
	}
	if err := m.Write(to + backupfile.ManifestSuffix); err != nil {
		return err
	}
	return p.reportBackup(to, m, o)
}

func (p *program) download(ctx context.Context, r *remote.Server, job admin.BackupJob, to io.Writer) error {
	progress := p.NewProgress(0)
	defer progress.End()
	shown := backupfile.Progress(func(done, all int64) { progress.Part(all+done, 2*all) }).Writer(job.Manifest.Bytes)
	return r.DownloadBackup(ctx, job, io.MultiWriter(to, shown))
}
