package listen

import "github.com/prometheus/client_golang/prometheus"

// metrics are the metrics of the connections of a listener.
type metrics struct {
	open    prometheus.Gauge
	refused prometheus.Counter
}

// newMetrics returns new metrics and registers them, unless the registerer is nil.
func newMetrics(registerer prometheus.Registerer, listener string) metrics {
	labels := prometheus.Labels{"listener": listener}
	m := metrics{
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "plantstore_connections_open", ConstLabels: labels,
			Help: "Open connections of clients.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plantstore_connections_refused_total", ConstLabels: labels,
			Help: "Connections refused because of too many open connections or no free file descriptor.",
		}),
	}
	if registerer != nil {
		registerer.MustRegister(m.open, m.refused)
	}
	return m
}
