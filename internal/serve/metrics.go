package serve

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"plantstore/internal/admin"
	"plantstore/internal/listen"
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

// numbers returns the numbers in which the server notices failures. All its parts are open.
func (v *instance) numbers() admin.Numbers {
	h := v.servers
	n := admin.Numbers{
		WritePath: v.writePath.Numbers(), Errors: h.public.Numbers().Errors,
		ConnectionsRefused: map[string]int64{}, LogLinesDropped: v.Log.dropped.Load(),
	}
	for name, l := range map[string]*listen.Listener{"public": h.publicListener, "admin": h.adminListener} {
		for reason, connections := range l.Refused() {
			n.ConnectionsRefused[name+" "+reason] = connections
		}
	}
	if v.backups != nil {
		n.Backups = v.backups.Numbers()
	}
	if v.verifier != nil {
		n.KeyFetchesFailed, n.KeysFetched = v.verifier.Fetches()
	}
	switch pair := h.certificates.pair; {
	case v.acme != nil && !v.follow:
		n.OrdersIssued, n.OrdersFailed = v.acme.Orders()
		n.Certificate = validity(v.acme.Validity())
	case pair != nil:
		n.CertificatesLoaded, n.CertificatesRefused = pair.Reloads()
		n.Certificate = validity(pair.Validity())
	}
	return n
}

func validity(begin, end time.Time) *admin.Validity { return &admin.Validity{Begin: begin, End: end} }
