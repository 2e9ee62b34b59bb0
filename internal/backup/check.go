package backup

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"plantstore/internal/sqlite/backupfile"
)

// verify reads the backup of a job and compares it with its manifest.
func (s *Service) verify(j *Job, b Backup) ([]string, error) {
	faults, err := s.to.verify(s.ctx, b.Name, b.Manifest, s.steps(j))
	return faults, cmp.Or(err, damage(faults))
}

// drill restores the backup of a job, with the segments after it, into a scratch file and verifies that file. A store
// has one server, which runs one drill at a time, so a scratch directory that exists was left by a killed server.
func (s *Service) drill(j *Job, b Backup) (faults []string, err error) {
	s.removeScratch()
	if err := checkSpace(s.config.Scratch, b.Manifest.Bytes); err != nil {
		return nil, err
	}
	if err := os.Mkdir(s.scratch, 0o700); err != nil { // such as one of another user
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.scratch)) }()
	path := filepath.Join(s.scratch, "restored.db")
	progress := s.steps(j)
	err = retryMissing(func() error {
		c, err := s.archive.contentsWith(s.ctx, []Backup{b})
		if err != nil {
			return err
		}
		id := b.Manifest.Timeline
		if current, err := c.current(); err == nil && isOn(c.line(current), b.Manifest) {
			id = current
		}
		p, err := c.plan(id, time.Time{})
		if err == nil {
			_, err = s.archive.restore(s.ctx, p, path, false, progress("restore"))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	v, err := backupfile.Verify(s.ctx, path, progress("check"))
	s.mu.Lock()
	j.Plants = v.Plants
	s.mu.Unlock()
	return v.Faults, cmp.Or(err, damage(v.Faults))
}

// removeScratch removes the directory of a killed drill.
func (s *Service) removeScratch() {
	if err := os.RemoveAll(s.scratch); err != nil {
		s.config.Log.Warn("could not remove the scratch directory of a killed drill", "file", s.scratch, "error", err)
	}
}

// damage returns an error if there are faults.
func damage(faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("the backup is damaged: %s", faults[0])
}
