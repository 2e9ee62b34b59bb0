package server

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	dto "github.com/prometheus/client_model/go"

	"plantstore/internal/plant"
	"plantstore/internal/trace"
)

// metrics are the metrics of requests. The values of every label are a closed set: the listeners, the routes, the
// statuses and the codes of the catalogue.
type metrics struct {
	inFlight *prometheus.GaugeVec
	requests *prometheus.CounterVec
	took     *prometheus.HistogramVec
	errors   map[plant.Code]*atomic.Int64

	// Only on the public listener, for Numbers.
	failed  [2]atomic.Int64      // responses with 4xx and 5xx
	creates prometheus.Histogram // latency of creates
}

// routeMetrics are the metrics of one route of a listener, so that a request needs no lookup by labels.
type routeMetrics struct {
	requests *prometheus.CounterVec // by status
	took     prometheus.Observer    // nil: not measured
	byStatus sync.Map               // int -> prometheus.Counter
	failed   *[2]atomic.Int64       // see metrics; nil on another listener
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
	if listener == publicListener {
		r.failed = &m.failed
		if strings.HasSuffix(route, plantsPath) && m.creates == nil { // only New writes it
			m.creates = r.took.(prometheus.Histogram)
		}
	}
	return r
}

// noRoute is the label of requests that match no route.
const noRoute = "none"

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
		errors: map[plant.Code]*atomic.Int64{},
	}
	for _, e := range plant.Catalogue() {
		n := new(atomic.Int64)
		m.errors[e.Code] = n
		in.NewCounterFunc(prometheus.CounterOpts{
			Name:        "plantstore_http_errors_total",
			Help:        "Error responses by the number and the name of the error.",
			ConstLabels: prometheus.Labels{"error": strconv.Itoa(int(e.Code)), "name": e.Name},
		}, func() float64 { return float64(n.Load()) })
	}
	return m
}

// Numbers are values of the metrics of the requests since the start of the process.
type Numbers struct {
	ClientErrors, ServerErrors int64                // responses of the public listener with a status 4xx and 5xx
	Latency                    []Bucket             // creates, ascending
	Errors                     map[plant.Code]int64 // responses of both listeners
}

// Bucket is a bucket of a histogram: the number of values up to and including a bound in seconds.
type Bucket struct{ Bound, Count float64 }

// Numbers returns the values of both servers of New.
func (s *Server) Numbers() Numbers {
	m := s.handler.Load().metrics
	n := Numbers{ClientErrors: m.failed[0].Load(), ServerErrors: m.failed[1].Load(), Errors: map[plant.Code]int64{}}
	for code, responses := range m.errors {
		n.Errors[code] = responses.Load()
	}
	var creates dto.Metric
	_ = m.creates.Write(&creates) // it returns no error
	for _, b := range creates.GetHistogram().GetBucket() {
		n.Latency = append(n.Latency, Bucket{b.GetUpperBound(), float64(b.GetCumulativeCount())})
	}
	n.Latency = append(n.Latency, Bucket{math.Inf(1), float64(creates.GetHistogram().GetSampleCount())})
	return n
}

// count records a request after its end; span may be nil.
func (m *routeMetrics) count(status int, took time.Duration, span *trace.Span) {
	counter, ok := m.byStatus.Load(status)
	if !ok {
		counter, _ = m.byStatus.LoadOrStore(status, m.requests.WithLabelValues(strconv.Itoa(status)))
	}
	counter.(prometheus.Counter).Inc()
	if m.failed != nil && status >= http.StatusBadRequest {
		m.failed[min(status/100, 5)-4].Add(1)
	}
	if m.took != nil {
		span.Observe(m.took, took.Seconds())
	}
}
