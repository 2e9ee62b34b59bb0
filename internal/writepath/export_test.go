package writepath

import "time"

// SetPolledAt sets the time of the last successful poll.
func (s *Service) SetPolledAt(at time.Time) { s.credentials.polledAt.Store(at.UnixNano()) }
