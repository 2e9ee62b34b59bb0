package admin

import "time"

// SetListTime sets the time in which the destination must list the backups for State.
func (s *Service) SetListTime(d time.Duration) { s.newest.timeMax = d }

// ExpireLastBackup makes the next call of State list the backups.
func (s *Service) ExpireLastBackup() {
	s.newest.mu.Lock()
	defer s.newest.mu.Unlock()
	s.newest.at = time.Time{}
}

// SetRejectsMax sets the largest number of rejects of an import.
func (s *Service) SetRejectsMax(n int) { s.rejectsMax = n }

// SetRejectsKept sets the largest number of bytes of the rejects of ended imports.
func (s *Service) SetRejectsKept(bytes int) { s.imports.rejectsMax = bytes }

// SetKeptFreeMin sets the bytes that a kept file leaves free on the disk.
func (s *Service) SetKeptFreeMin(bytes int64) { s.keptFreeMin = bytes }
