package acme

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the metrics of a Source. The values of the labels are a closed set.
type metrics struct {
	issued, failed                          prometheus.Counter // orders
	noCertificate, noChallenge, unknownName prometheus.Counter // refused handshakes
}

// newMetrics returns new metrics and registers them, unless the registerer is nil.
func (s *Source) newMetrics(registerer prometheus.Registerer) metrics {
	to := promauto.With(registerer)
	orders := to.NewCounterVec(prometheus.CounterOpts{
		Name: "plantstore_acme_orders_total",
		Help: "Orders of certificates by result: issued or failed.",
	}, []string{"result"})
	refused := to.NewCounterVec(prometheus.CounterOpts{
		Name: "plantstore_acme_handshakes_refused_total",
		Help: "TLS handshakes refused by reason: no_certificate, no_challenge or unknown_name.",
	}, []string{"reason"})
	// Package certs has these two for files.
	to.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_tls_certificate_not_before_timestamp_seconds",
		Help: "Time from which on the TLS certificate in use is valid.",
	}, func() float64 { begin, _ := s.validity(); return begin })
	to.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_tls_certificate_expiry_timestamp_seconds",
		Help: "Time at which the TLS certificate in use expires.",
	}, func() float64 { _, end := s.validity(); return end })
	return metrics{
		issued: orders.WithLabelValues("issued"), failed: orders.WithLabelValues("failed"),
		noCertificate: refused.WithLabelValues("no_certificate"),
		noChallenge:   refused.WithLabelValues("no_challenge"),
		unknownName:   refused.WithLabelValues("unknown_name"),
	}
}

// validity returns the validity, in Unix seconds, of the certificate that expires first; zeros if a domain has none.
func (s *Source) validity() (begin, end float64) {
	for _, d := range s.domains {
		certificate := d.certificate.Load()
		if certificate == nil {
			return 0, 0
		}
		leaf := certificate.Leaf
		if last := float64(leaf.NotAfter.Unix()); end == 0 || last < end {
			begin, end = float64(leaf.NotBefore.Unix()), last
		}
	}
	return begin, end
}
