package server

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// metrics are the metrics of requests. Every label is from a closed
// set: the two listeners, the routes, the statuses and codes of the catalogue.
type metrics struct {
	inFlight *prometheus.GaugeVec
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
	errors   map[plant.Code]prometheus.Counter
}

// routeMetrics are the metrics of one route of a listener. Each is looked up by its
// labels once, not with every request.
type routeMetrics struct {
	requests *prometheus.CounterVec // by status
	took     prometheus.Observer    // nil: not measured
	byStatus sync.Map               // int -> prometheus.Counter
}

// forRoute returns the metrics of a route. An untimed one has no histogram.
func (m *metrics) forRoute(listener, route string, untimed bool) *routeMetrics {
	labels := prometheus.Labels{"listener": listener, "route": route}
	r := &routeMetrics{requests: m.requests.MustCurryWith(labels)}
	if !untimed {
		r.took = m.took.With(labels)
	}
	return r
}

// noRoute is the route of a request that matches none.
const noRoute = "none"

func newMetrics(to prometheus.Registerer) *metrics {
	m := &metrics{
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "plantstore_http_requests_in_flight",
			Help: "Requests that are being answered.",
		}, []string{"listener"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plantstore_http_requests_total",
			Help: "Requests that were answered.",
		}, []string{"listener", "route", "status"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "plantstore_http_request_duration_seconds",
			Help:    "From the end of a request's headers to the end of its answer.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"listener", "route"}),
		errors: map[plant.Code]prometheus.Counter{},
	}
	errors := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "plantstore_http_errors_total",
		Help: "Requests that were refused, by the number and the name in the catalogue of errors.",
	}, []string{"error", "name"})
	for _, e := range plant.Catalogue() {
		m.errors[e.Code] = errors.WithLabelValues(strconv.Itoa(int(e.Code)), e.Name)
	}
	to.MustRegister(m.inFlight, m.requests, m.took, errors)
	return m
}

// connections is what a listener measures.
type connections struct {
	open    prometheus.Gauge
	refused prometheus.Counter
}

func newConnections(to prometheus.Registerer, listener string) connections {
	labels := prometheus.Labels{"listener": listener}
	c := connections{
		open: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "plantstore_connections_open", ConstLabels: labels,
			Help: "Connections of clients that are open.",
		}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "plantstore_connections_refused_total", ConstLabels: labels,
			Help: "Connections that were refused, because no file descriptor was free or too many were open.",
		}),
	}
	to.MustRegister(c.open, c.refused)
	return c
}

// count notes a request that has ended.
func (m *routeMetrics) count(status int, took time.Duration) {
	counter, ok := m.byStatus.Load(status)
	if !ok {
		counter, _ = m.byStatus.LoadOrStore(status, m.requests.WithLabelValues(strconv.Itoa(status)))
	}
	counter.(prometheus.Counter).Inc()
	if m.took != nil {
		m.took.Observe(took.Seconds())
	}
}

// serveMetrics is the route that Prometheus reads.
func serveMetrics(from prometheus.Gatherer) handlerFunc {
	h := promhttp.HandlerFor(from, promhttp.HandlerOpts{})
	return func(w http.ResponseWriter, r *http.Request, _ auth.Principal) error {
		h.ServeHTTP(w, r)
		return nil
	}
}
