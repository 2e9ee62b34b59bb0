package main

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/backup"
)

// backupSettings are the settings of the backups of a server.
type backupSettings struct {
	dir   text
	every timeout
	keep  count
}

// rows returns the rows of the table of settings.
func (b *backupSettings) rows() []setting {
	return []setting{
		{
			"backup-dir", &b.dir, "", "1.0.0", "`directory` for scheduled backups; empty: no backups",
			"Use a directory on another disk than the store's, for this store alone. " +
				"It is an error with PostgreSQL, which has its own tools.",
		},
		{"backup-every", &b.every, "1d", "1.0.0", "`time` between two scheduled backups", ""},
		{
			"backup-keep", b.keep.between(1, 1<<30), "7", "1.0.0", "number of scheduled `backups` to keep",
			"The server removes older ones.",
		},
	}
}

// check returns a usage error for settings that contradict each other.
func (b *backupSettings) check(s *settings) error {
	if b.dir != "" && s.db.isDatabase() {
		return s.fault("backup-dir", "scheduled backups need a store in a file; back up PostgreSQL with its own tools")
	}
	return nil
}

// checkBackupDir returns an error if the server cannot create files in the backup directory. It creates a file and
// removes it, because the mode of the directory alone does not decide.
func (s *settings) checkBackupDir() error {
	dir := string(s.backup.dir)
	if dir == "" {
		return nil
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.fault("backup-dir", "directory %q does not exist; create it or change the setting", dir)
	case err != nil:
		return s.fault("backup-dir", "%w", err)
	case !info.IsDir():
		return s.fault("backup-dir", "%q is not a directory; change the setting", dir)
	}
	f, err := os.CreateTemp(dir, ".plantstore*")
	if err == nil {
		err = errors.Join(f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return s.fault("backup-dir",
			"cannot create a file: %w; give the server's user write access or change the setting", err)
	}
	return nil
}

// newBackups returns the backups of a server, nil without a destination.
func (p *program) newBackups(
	s *settings, trace *serverAudit, log *slog.Logger, metrics prometheus.Registerer,
) *backup.Service {
	if s.backup.dir == "" {
		return nil
	}
	return backup.New(backup.Config{
		DB: s.db.path, Directory: string(s.backup.dir), Scratch: p.scratchDir(s.db.path),
		Every: time.Duration(s.backup.every), Keep: s.backup.keep.n,
		By: trace.by, Record: trace.Record, Log: log, Metrics: metrics,
	})
}

// scratchDir returns the directory of temporary copies of a store: the one that TMPDIR names, else that of the store.
func (p *program) scratchDir(db string) string {
	return cmp.Or(p.environ["TMPDIR"], filepath.Dir(db))
}
