package config

// Rate are the limits of clients.
type Rate struct {
	AuthFailures Count
	PerSecond    Count
	Burst        Count
	Concurrency  Count
}

// rows returns the rows of the table of settings.
func (r *Rate) rows() []Setting {
	const numbersMax = 1 << 20
	return []Setting{
		{
			"auth-failures", r.AuthFailures.between(0, numbersMax), "30",
			"`number` of failed credentials per minute and address",
			"The response to more is 429 with the error 42902. A valid credential works in any case. 0: no limit. " +
				"See [failed credentials](limits.md#failed-credentials).",
		},
		{
			"credential-rate", r.PerSecond.between(0, numbersMax), "0", "`requests` per second and credential",
			"The response to more is 429 with the error 42901. 0: no limit. See [quotas](limits.md#quotas-of-a-credential).",
		},
		{
			"credential-burst", r.Burst.between(0, numbersMax), "0",
			"`requests` of a credential that may come at once",
			"The quota is whole again after `credential-burst` divided by `credential-rate` seconds without a request. " +
				"0: as many as `credential-rate`.",
		},
		{
			"credential-concurrency", r.Concurrency.between(0, numbersMax), "0",
			"`requests` of a credential at the same time",
			"The response to more is 429 with the error 42903. 0: no limit. See [quotas](limits.md#quotas-of-a-credential).",
		},
	}
}

// check refuses a burst without a rate, which would have no effect.
func (r *Rate) check(s *Settings) error {
	if r.Burst.N > 0 && r.PerSecond.N == 0 {
		return s.Fault("credential-burst", "a burst needs a rate; set --credential-rate too")
	}
	return nil
}
