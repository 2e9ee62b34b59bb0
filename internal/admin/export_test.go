package admin

import "time"

// SetLineTime sets the time in which a client must accept the lines of a search.
func (s *Service) SetLineTime(d time.Duration) { s.lineTime = d }
