package main

// rateSettings are the limits of clients.
type rateSettings struct {
	authFailures count
	rate         count
	burst        count
	concurrency  count
}

// rows returns the rows of the table of settings.
func (r *rateSettings) rows() []setting {
	const numbersMax = 1 << 20
	return []setting{
		{
			"auth-failures", r.authFailures.between(0, numbersMax), "30", "1.0.0",
			"`number` of failed credentials per minute and address",
			"The response to more is 429 with the error 42902. A valid credential works in any case. 0: no limit. " +
				"See [failed credentials](limits.md#failed-credentials).",
		},
		{
			"credential-rate", r.rate.between(0, numbersMax), "0", "1.0.0", "`requests` per second and credential",
			"The response to more is 429 with the error 42901. 0: no limit. See [quotas](limits.md#quotas-of-a-credential).",
		},
		{
			"credential-burst", r.burst.between(0, numbersMax), "0", "1.0.0",
			"`requests` of a credential that may come at once",
			"The quota is whole again after `credential-burst` divided by `credential-rate` seconds without a request. " +
				"0: as many as `credential-rate`.",
		},
		{
			"credential-concurrency", r.concurrency.between(0, numbersMax), "0", "1.0.0",
			"`requests` of a credential at the same time",
			"The response to more is 429 with the error 42903. 0: no limit. See [quotas](limits.md#quotas-of-a-credential).",
		},
	}
}

// check refuses a burst without a rate, which would have no effect.
func (r *rateSettings) check(s *settings) error {
	if r.burst.n > 0 && r.rate.n == 0 {
		return s.fault("credential-burst", "a burst needs a rate; set --credential-rate too")
	}
	return nil
}
