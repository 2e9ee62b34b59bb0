package listen

import "github.com/prometheus/client_golang/prometheus"

// metrics are the metrics of the connections of a listener.
type metrics struct {
	open    prometheus.Gauge
	refused map[reason]prometheus.Counter
}

// newMetrics returns new metrics and registers them, unless the registerer is nil.
func newMetrics(registerer prometheus.Registerer, listener string) metrics {
	labels := prometheus.Labels{"listener": listener}
	m := metrics{
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "plantstore_connections_open", ConstLabels: labels,
			Help: "Open connections of clients.",
		}),
		refused: map[reason]prometheus.Counter{},
	}
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "plantstore_connections_refused_total", ConstLabels: labels,
		Help: "Connections that the listener refused.",
	}, []string{"reason"})
	for _, r := range reasons {
		m.refused[r] = refused.WithLabelValues(string(r))
	}
	if registerer != nil {
		registerer.MustRegister(m.open, refused)
	}
	return m
}
