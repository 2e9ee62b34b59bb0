package admin

import (
	"time"

	"plantstore/internal/server"
)

// SetLineTime sets the time in which a client must accept the lines of a search.
func (s *Service) SetLineTime(d time.Duration) { s.lineTime = d }

// SetPartTime sets the time in which a client must accept a part of a download.
func (s *Service) SetPartTime(d time.Duration) { s.partTime = d }

// SetListTime sets the time in which the destination must list the backups for State.
func (s *Service) SetListTime(d time.Duration) { s.listTime = d }

// ExpireLastBackup makes the next call of State list the backups.
func (s *Service) ExpireLastBackup() {
	s.lastMu.Lock()
	defer s.lastMu.Unlock()
	s.lastAt = time.Time{}
}

// SetRejectsMax sets the largest number of rejects of an import.
func (s *Service) SetRejectsMax(n int) { s.rejectsMax = n }

// SetUploadLimits sets the limits of the files of imports.
func (s *Service) SetUploadLimits(l server.UploadLimits) { s.uploads = l }
