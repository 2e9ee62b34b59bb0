package acme

import "github.com/prometheus/client_golang/prometheus"

// metrics are the metrics of a Source. The values of the labels are a closed set.
type metrics struct {
	issued, failed                          prometheus.Counter // orders
	noCertificate, noChallenge, unknownName prometheus.Counter // refused handshakes
}

// newMetrics returns new metrics and registers them, unless the registerer is nil.
func (s *Source) newMetrics(registerer prometheus.Registerer) *metrics {
	orders := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "plantstore_acme_orders_total",
		Help: "Orders of certificates by result: issued or failed.",
	}, []string{"result"})
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "plantstore_acme_handshakes_refused_total",
		Help: "TLS handshakes refused by reason: no_certificate, no_challenge or unknown_name.",
	}, []string{"reason"})
	if registerer != nil {
		registerer.MustRegister(orders, refused, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "plantstore_tls_certificate_expiry_timestamp_seconds", // package certs has it for files
			Help: "Time at which the TLS certificate in use expires.",
		}, s.expiry))
	}
	return &metrics{
		issued: orders.WithLabelValues("issued"), failed: orders.WithLabelValues("failed"),
		noCertificate: refused.WithLabelValues("no_certificate"),
		noChallenge:   refused.WithLabelValues("no_challenge"),
		unknownName:   refused.WithLabelValues("unknown_name"),
	}
}

// expiry returns the end, in Unix seconds, of the certificate that expires first; 0 if a domain has none.
func (s *Source) expiry() float64 {
	var first int64
	for _, d := range s.domains {
		certificate := d.certificate.Load()
		if certificate == nil {
			return 0
		}
		if end := certificate.Leaf.NotAfter.Unix(); first == 0 || end < first {
			first = end
		}
	}
	return float64(first)
}
