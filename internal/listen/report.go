package listen

import (
	"net/netip"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// reason is the cause of a refusal or an eviction, or the result of a handshake, in metrics and log lines.
type reason string

// The reasons of refusals.
const (
	noDescriptor     reason = "descriptors" // the system has no free file descriptor or memory
	tooMany          reason = "connections" // the listener has its maximum of connections
	tooManyOfAddress reason = "address"     // the client has its maximum of connections
	noCredential     reason = "credential"  // the client sent too many requests without a valid credential
)

// The reasons of evictions.
const (
	longIdle       reason = "idle"
	longIncomplete reason = "incomplete"
	overShare      reason = "share" // a request of Hold
	heavy          reason = "bytes" // incomplete requests
)

// evictions are the reasons of evictions by the state of the connection.
var evictions = map[State]reason{
	Idle: longIdle, Incomplete: longIncomplete, Waiting: longIncomplete, Held: overShare,
}

// refusal is why a connection is refused.
type refusal struct {
	reason reason
	text   string
}

// metrics are the metrics of the connections of a listener.
type metrics struct {
	limited prometheus.Counter
	refused map[reason]*atomic.Int64
	evicted map[reason]prometheus.Counter
}

// newMetrics returns new metrics and registers them, unless the registerer is nil. open returns the number of open
// connections.
func newMetrics(registerer prometheus.Registerer, listener string, open func() int) metrics {
	to, labels := promauto.With(registerer), prometheus.Labels{"listener": listener}
	to.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "plantstore_connections_open", ConstLabels: labels,
		Help: "Open connections of clients.",
	}, func() float64 { return float64(open()) })
	limited := to.NewCounter(prometheus.CounterOpts{
		Name: "plantstore_connections_limited_total", ConstLabels: labels,
		Help: "Connections that waited, and forwarded requests that were refused, " +
			"because their client sent many requests without a valid credential.",
	})
	refused := map[reason]*atomic.Int64{}
	for _, r := range []reason{noDescriptor, tooMany, tooManyOfAddress, noCredential} {
		n := new(atomic.Int64)
		refused[r] = n
		to.NewCounterFunc(prometheus.CounterOpts{
			Name: "plantstore_connections_refused_total", Help: "Connections that the listener refused.",
			ConstLabels: prometheus.Labels{"listener": listener, "reason": string(r)},
		}, func() float64 { return float64(n.Load()) })
	}
	evicted := to.NewCounterVec(prometheus.CounterOpts{
		Name: "plantstore_connections_evicted_total", ConstLabels: labels,
		Help: "Connections that the listener closed because of their number.",
	}, []string{"reason"})
	return metrics{
		limited: limited, refused: refused,
		evicted: counters(evicted, longIdle, longIncomplete, overShare, heavy),
	}
}

func counters(of *prometheus.CounterVec, reasons ...reason) map[reason]prometheus.Counter {
	all := map[reason]prometheus.Counter{}
	for _, r := range reasons {
		all[r] = of.WithLabelValues(string(r))
	}
	return all
}

// Refused returns the number of refused connections by reason.
func (l *Listener) Refused() map[string]int64 {
	all := map[string]int64{}
	for r, n := range l.metrics.refused {
		all[string(r)] = n.Load()
	}
	return all
}

// refuse counts and logs a refused connection.
func (l *Listener) refuse(r *refusal) {
	l.metrics.refused[r.reason].Add(1)
	if n := l.lines.Add(string(r.reason), 1); n > 0 {
		l.log.Warn("connections refused",
			"listener", l.name, "reason", string(r.reason), "connections", n, "error", r.text)
	}
}

// limited counts and logs a connection that waits, or a forwarded request that is refused.
func (l *Listener) limited(client netip.Addr) {
	l.metrics.limited.Inc()
	if n := l.lines.Add(string(noCredential), 1); n > 0 {
		l.log.Warn("clients without a valid credential limited",
			"listener", l.name, "count", n, "client", client.String())
	}
}

// evict closes, counts and logs connections that the registry removed.
func (l *Listener) evict(evicted []candidate) {
	counts := map[reason]int{}
	for _, e := range evicted {
		_ = e.conn.tcp.Close()
		counts[e.reason]++
	}
	for r, n := range counts {
		l.metrics.evicted[r].Add(float64(n))
		if n := l.lines.Add(string(r), n); n > 0 {
			l.log.Warn("connections evicted", "listener", l.name, "reason", string(r), "connections", n)
		}
	}
}
