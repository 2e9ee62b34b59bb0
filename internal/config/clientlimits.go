package config

// Rate are the limits of clients.
type Rate struct {
	AuthFailures int
	PerSecond    int
	Burst        int
	Concurrency  int
}

// check refuses a burst without a rate, which would have no effect.
func (r *Rate) check(s *Settings) error {
	if r.Burst > 0 && r.PerSecond == 0 {
		return s.Fault("credential-burst", "a burst needs a rate; set --credential-rate too")
	}
	return nil
}
