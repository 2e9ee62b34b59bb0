package store

import "time"

// SetLookAt makes the store believe that it has looked at its tokens then.
func (s *Store) SetLookAt(at time.Time) { s.credentials.lookAt.Store(at.UnixNano()) }
