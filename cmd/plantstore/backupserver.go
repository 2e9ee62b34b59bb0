package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/sqlite/backupfile"
)

// backupServer makes a backup on a server, downloads it to a file or to standard output, and removes it from the
// server.
func (p *program) backupServer(ctx context.Context, r *remote, to string, o *backupOptions) error {
	write := p.receiveFile
	if to == streamArg {
		if err := p.checkStream(o); err != nil {
			return err
		}
		write = p.receiveStream
	} else {
		if o.manifest != "" {
			return errManifestFlag
		}
		for _, name := range []string{to, to + backupfile.ManifestSuffix} {
			if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
				return errors.Join(err, fmt.Errorf("backup to %s: %s already exists; use a new file", to, name))
			}
		}
	}
	job, err := p.makeOn(ctx, r)
	if err != nil {
		return err
	}
	if err := write(ctx, r, job, to, o); err != nil {
		fmt.Fprintf(p.stderr, "the server keeps the backup %s\n", printable(job.Backup))
		if ctx.Err() != nil {
			return errInterrupted
		}
		return err
	}
	var deleted struct{}
	if err := r.do(ctx, http.MethodDelete, r.at("backups/"+job.Backup), nil, &deleted); err != nil {
		fmt.Fprintf(p.stderr, "warning: the server keeps the backup %s: %v\n", printable(job.Backup), err)
	}
	return nil
}

// makeOn makes a backup on a server and returns its job when it is complete.
func (p *program) makeOn(ctx context.Context, r *remote) (job admin.BackupJob, err error) {
	const pollEvery = 200 * time.Millisecond
	if err := r.do(ctx, http.MethodPost, r.at("backups"), nil, &job); err != nil {
		return job, err
	}
	progress := p.newProgress(0)
	defer progress.end()
	for job.State == admin.JobRunning {
		progress.part(job.Done, 2*max(1, job.All)) // the download is the other half
		if !waitUntil(ctx, time.Now().Add(pollEvery)) {
			fmt.Fprintf(p.stderr, "the server continues the backup %s\n", printable(job.Backup))
			return job, errInterrupted
		}
		if err := r.do(ctx, http.MethodGet, r.at("backup-jobs/"+strconv.FormatInt(job.ID, 10)), nil, &job); err != nil {
			return job, err
		}
	}
	if job.State != admin.JobComplete || job.Manifest == nil {
		return job, fmt.Errorf("the server could not make the backup: %s", printable(job.Error))
	}
	return job, nil
}

// receive downloads the backup of a job and compares it with its manifest.
func (p *program) receive(ctx context.Context, r *remote, job admin.BackupJob, to io.Writer) error {
	res, err := r.send(ctx, http.MethodGet, r.at("backups/"+job.Backup+"/content"), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	progress := p.newProgress(0)
	defer progress.end()
	all, done, sum := job.Manifest.Bytes, int64(0), sha256.New()
	counted := writerFunc(func(b []byte) (int, error) {
		done += int64(len(b))
		progress.part(all+done, 2*all)
		return len(b), nil
	})
	if _, err := io.Copy(io.MultiWriter(to, sum, counted), io.LimitReader(res.Body, all+1)); err != nil {
		return fmt.Errorf("download of the backup: %w", err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != job.Manifest.SHA256 {
		return fmt.Errorf("the downloaded backup differs from its manifest: SHA-256 %s, want %s; try again",
			got, printable(job.Manifest.SHA256))
	}
	return nil
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func (p *program) receiveFile(
	ctx context.Context, r *remote, job admin.BackupJob, to string, o *backupOptions,
) (err error) {
	path, err := filePath(to)
	if err != nil {
		return err
	}
	file, err := createOutput(ctx, path, false)
	if err != nil {
		return fmt.Errorf("backup to %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, file.Discard()) }()
	if err := p.receive(ctx, r, job, file); err != nil {
		return err
	}
	m := backupfile.Manifest(*job.Manifest)
	if err := file.Publish(); err != nil {
		return fmt.Errorf("backup to %s: %w", path, err)
	}
	if err := m.Write(path + backupfile.ManifestSuffix); err != nil {
		return err
	}
	return p.printBackup(path, m, o.asJSON)
}

func (p *program) receiveStream(
	ctx context.Context, r *remote, job admin.BackupJob, _ string, o *backupOptions,
) error {
	if err := p.receive(ctx, r, job, interruptibleTo(ctx, p.stdout)); err != nil {
		return err
	}
	m := backupfile.Manifest(*job.Manifest)
	if o.manifest != "" {
		if err := m.Write(o.manifest); err != nil {
			return err
		}
	}
	p.reportStream(m)
	return nil
}
