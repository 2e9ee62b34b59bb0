package acme

import "time"

// Hasten makes the goroutine of a Source retry after milliseconds instead of minutes.
func (s *Source) Hasten() {
	s.times.unreachable, s.times.refused, s.times.most = 100*time.Millisecond, 100*time.Millisecond, 400*time.Millisecond
	s.times.storage, s.times.locked, s.times.window = 50*time.Millisecond, 50*time.Millisecond, time.Second
}

// Backoff is backoff.
func Backoff(first time.Duration, failures int, most time.Duration) time.Duration {
	return backoff(first, failures, most)
}
