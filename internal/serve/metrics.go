package serve

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"plantstore/internal/sqlite"
)

// newMetrics returns the registry of a server, with the metrics of the Go runtime and the process.
func newMetrics(version string) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name:        "plantstore_build_info",
			Help:        "Always 1; the labels have the versions.",
			ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version(), "sqlite": sqlite.Version()},
		}, func() float64 { return 1 }),
	)
	return r
}
