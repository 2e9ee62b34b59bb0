package server

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"plantstore/internal/plant"
	"plantstore/internal/trace"
)

// metrics are the metrics of requests. The values of every label are a closed set: the listeners, the routes, the
// statuses and the codes of the catalogue.
type metrics struct {
	inFlight *prometheus.GaugeVec
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
	errors   map[plant.Code]prometheus.Counter
}

// routeMetrics are the metrics of one route of a listener, so that a request needs no lookup by labels.
type routeMetrics struct {
	requests *prometheus.CounterVec // by status
	took     prometheus.Observer    // nil: not measured
	byStatus sync.Map               // int -> prometheus.Counter
}

// forRoute returns the metrics of a route. An untimed route has no histogram.
func (m *metrics) forRoute(listener, route string, untimed bool) *routeMetrics {
	labels := prometheus.Labels{"listener": listener, "route": route}
	r := &routeMetrics{requests: m.requests.MustCurryWith(labels)}
	for _, status := range []string{"500", "503"} {
		// rate() of Prometheus ignores the first value of a series: a burst of errors would have no rate.
		r.requests.WithLabelValues(status)
	}
	if !untimed {
		r.took = m.took.With(labels)
	}
	return r
}

// noRoute is the label of requests that match no route.
const noRoute = "none"

// newMetrics returns new metrics in a registry.
func newMetrics(registry *prometheus.Registry) *metrics {
	in := promauto.With(registry)
	m := &metrics{
		inFlight: in.NewGaugeVec(prometheus.GaugeOpts{
			Name: "plantstore_http_requests_in_flight",
			Help: "Requests in flight.",
		}, []string{"listener"}),
		requests: in.NewCounterVec(prometheus.CounterOpts{
			Name: "plantstore_http_requests_total",
			Help: "Requests by listener, route and status.",
		}, []string{"listener", "route", "status"}),
		took: in.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "plantstore_http_request_duration_seconds",
			Help:    "Time from the end of the request headers to the end of the response.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"listener", "route"}),
		errors: map[plant.Code]prometheus.Counter{},
	}
	byError := in.NewCounterVec(prometheus.CounterOpts{
		Name: "plantstore_http_errors_total",
		Help: "Error responses by the number and the name of the error.",
	}, []string{"error", "name"})
	for _, e := range plant.Catalogue() {
		m.errors[e.Code] = byError.WithLabelValues(strconv.Itoa(int(e.Code)), e.Name)
	}
	return m
}

// count records a request after its end; span may be nil.
func (m *routeMetrics) count(status int, took time.Duration, span *trace.Span) {
	counter, ok := m.byStatus.Load(status)
	if !ok {
		counter, _ = m.byStatus.LoadOrStore(status, m.requests.WithLabelValues(strconv.Itoa(status)))
	}
	counter.(prometheus.Counter).Inc()
	if m.took != nil {
		span.Observe(m.took, took.Seconds())
	}
}
