package oidc

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// measure registers the metrics, unless the registerer is nil.
func (v *Verifier) measure(to prometheus.Registerer) {
	metrics := promauto.With(to)
	metrics.NewCounterFunc(prometheus.CounterOpts{
		Name: "plantstore_oidc_fetch_errors_total",
		Help: "Failed fetches of the issuer's keys; the previous keys stay in use.",
	}, func() float64 { return float64(v.failures.Load()) })
	metrics.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_oidc_keys_age_seconds",
		Help: "Time since the last fetch of the issuer's keys; NaN before the first.",
	}, func() float64 {
		_, at := v.Fetches()
		if at.IsZero() {
			return math.NaN()
		}
		return time.Since(at).Seconds()
	})
}

// Fetches returns how many fetches of the keys have failed, and when the last one succeeded; the zero time: none has.
func (v *Verifier) Fetches() (failed int64, last time.Time) {
	if at := v.fetchedAt.Load(); at != 0 {
		last = time.Unix(0, at)
	}
	return v.failures.Load(), last
}
