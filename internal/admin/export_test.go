package admin

import "time"

// SetLineTime sets the time in which a client must accept the lines of a search.
func (s *Service) SetLineTime(d time.Duration) { s.lineTime = d }

// SetPartTime sets the time in which a client must accept a part of a download.
func (s *Service) SetPartTime(d time.Duration) { s.partTime = d }
