package acme

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the metrics of a Source. The values of the labels are a closed set.
type metrics struct {
	issued, failed                          atomic.Int64       // orders
	noCertificate, noChallenge, unknownName prometheus.Counter // refused handshakes
}

// newMetrics returns new metrics and registers them, unless the registerer is nil.
func (s *Source) newMetrics(registerer prometheus.Registerer) *metrics {
	to := promauto.With(registerer)
	refused := to.NewCounterVec(prometheus.CounterOpts{
		Name: "plantstore_acme_handshakes_refused_total",
		Help: "TLS handshakes refused by reason: no_certificate, no_challenge or unknown_name.",
	}, []string{"reason"})
	// Package certs has these two for files.
	to.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_tls_certificate_not_before_timestamp_seconds",
		Help: "Time from which on the TLS certificate in use is valid.",
	}, func() float64 { begin, _ := s.Validity(); return float64(max(0, begin.Unix())) })
	to.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_tls_certificate_expiry_timestamp_seconds",
		Help: "Time at which the TLS certificate in use expires.",
	}, func() float64 { _, end := s.Validity(); return float64(max(0, end.Unix())) })
	m := &metrics{
		noCertificate: refused.WithLabelValues("no_certificate"),
		noChallenge:   refused.WithLabelValues("no_challenge"),
		unknownName:   refused.WithLabelValues("unknown_name"),
	}
	for result, n := range map[string]*atomic.Int64{"issued": &m.issued, "failed": &m.failed} {
		to.NewCounterFunc(prometheus.CounterOpts{
			Name:        "plantstore_acme_orders_total",
			Help:        "Orders of certificates by result: issued or failed.",
			ConstLabels: prometheus.Labels{"result": result},
		}, func() float64 { return float64(n.Load()) })
	}
	return m
}

// Orders returns the numbers of orders by result.
func (s *Source) Orders() (issued, failed int64) {
	return s.metrics.issued.Load(), s.metrics.failed.Load()
}

// Validity returns the validity of the certificate that expires first; the zero time if a domain has none.
func (s *Source) Validity() (begin, end time.Time) {
	for _, d := range s.domains {
		certificate := d.certificate.Load()
		if certificate == nil {
			return time.Time{}, time.Time{}
		}
		if leaf := certificate.Leaf; end.IsZero() || leaf.NotAfter.Before(end) {
			begin, end = leaf.NotBefore, leaf.NotAfter
		}
	}
	return begin, end
}
