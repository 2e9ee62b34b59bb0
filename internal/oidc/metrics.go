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
	v.failures = metrics.NewCounter(prometheus.CounterOpts{
		Name: "plantstore_oidc_fetch_errors_total",
		Help: "Failed fetches of the issuer's keys; the previous keys stay in use.",
	})
	metrics.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_oidc_keys_age_seconds",
		Help: "Time since the last fetch of the issuer's keys; NaN before the first.",
	}, func() float64 {
		at := v.fetchedAt.Load()
		if at == 0 {
			return math.NaN()
		}
		return time.Since(time.Unix(0, at)).Seconds()
	})
}
