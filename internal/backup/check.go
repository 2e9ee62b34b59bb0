package backup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"plantstore/internal/sqlite"
)

// verify reads the backup of a job and compares it with its manifest.
func (s *Service) verify(j *Job, b Backup) ([]string, error) {
	v, err := s.to.verify(s.ctx, b.Name, s.plants(j, b))
	if err != nil {
		return nil, err
	}
	return v.Faults, damage(v)
}

// plants returns a function that adds to the number of checked plants of a job.
func (s *Service) plants(j *Job, b Backup) func(more int64) {
	progress, done := s.progress(j, "check"), int64(0)
	progress(0, b.Manifest.Plants)
	return func(more int64) {
		done += more
		progress(done, b.Manifest.Plants)
	}
}

// drill restores the backup of a job into a scratch file and verifies that file.
func (s *Service) drill(j *Job, b Backup) (faults []string, err error) {
	dir, err := os.MkdirTemp(s.config.Scratch, scratchPattern)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "restored.db")
	r, err := s.to.open(b.Name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if _, err := sqlite.RestoreFrom(s.ctx, r, &b.Manifest, path, false, s.progress(j, "restore")); err != nil {
		return nil, err
	}
	v, err := sqlite.Verify(s.ctx, path, s.plants(j, b))
	if err != nil {
		return nil, err
	}
	if m := b.Manifest; v.Plants != m.Plants || v.Commits != m.Commits || v.Store != m.Store {
		v.Faults = append(v.Faults, fmt.Sprintf(
			"the restored store has %d plants up to commit %d of store %s; the manifest has %d up to commit %d of store %s",
			v.Plants, v.Commits, v.Store, m.Plants, m.Commits, m.Store))
	}
	return v.Faults, damage(v)
}

// damage returns an error if a verification has found faults.
func damage(v sqlite.Verification) error {
	if len(v.Faults) == 0 {
		return nil
	}
	return fmt.Errorf("the backup is damaged: %d faults; the first one: %s", len(v.Faults)+v.More, v.Faults[0])
}

// scratchPattern is the pattern of the names of scratch directories.
const scratchPattern = ".plantstore-scratch-*"
