package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// scratch returns the directory of a drill. A store has one server, which runs one drill at a time, so the directory
// needs no lock: it is in use, or left by a killed server of the same store.
func (s *Service) scratch() (string, error) {
	db, err := filepath.Abs(s.config.DB)
	sum := sha256.Sum256([]byte(db))
	return filepath.Join(s.config.Scratch, ".plantstore-scratch-"+hex.EncodeToString(sum[:8])), err
}

// newScratch creates the directory of a drill, after removeScratch. The caller removes it.
func (s *Service) newScratch() (string, error) {
	path, err := s.scratch()
	if err == nil {
		err = os.Mkdir(path, 0o700) // fails if another user has created it
	}
	return path, err
}

// removeScratch removes the directory of a killed drill.
func (s *Service) removeScratch() {
	path, err := s.scratch()
	if err == nil {
		_, err = os.Lstat(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = os.RemoveAll(path)
	}
	if err != nil {
		s.config.Log.Warn("could not remove the scratch directory of a killed drill", "file", path, "error", err)
		return
	}
	s.config.Log.Info("removed the scratch directory of a killed drill", "file", path)
}
