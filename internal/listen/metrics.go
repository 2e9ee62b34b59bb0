package listen

import "github.com/prometheus/client_golang/prometheus"

// metrics are the metrics of the connections of a listener.
type metrics struct {
	open             prometheus.Gauge
	limited          prometheus.Counter
	refused, evicted map[reason]prometheus.Counter
}

// newMetrics returns new metrics and registers them, unless the registerer is nil.
func newMetrics(registerer prometheus.Registerer, listener string) metrics {
	labels := prometheus.Labels{"listener": listener}
	open := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "plantstore_connections_open", ConstLabels: labels,
		Help: "Open connections of clients.",
	})
	limited := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "plantstore_connections_limited_total", ConstLabels: labels,
		Help: "Connections that waited, and forwarded requests that were refused, " +
			"because their client sent many requests without a valid credential.",
	})
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "plantstore_connections_refused_total", ConstLabels: labels,
		Help: "Connections that the listener refused.",
	}, []string{"reason"})
	evicted := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "plantstore_connections_evicted_total", ConstLabels: labels,
		Help: "Connections that the listener closed because of their number.",
	}, []string{"reason"})
	if registerer != nil {
		registerer.MustRegister(open, limited, refused, evicted)
	}
	return metrics{
		open: open, limited: limited,
		refused: counters(refused, refusals), evicted: counters(evicted, evictions),
	}
}

// counters returns the counter of each reason.
func counters(of *prometheus.CounterVec, reasons []reason) map[reason]prometheus.Counter {
	all := map[reason]prometheus.Counter{}
	for _, r := range reasons {
		all[r] = of.WithLabelValues(string(r))
	}
	return all
}
