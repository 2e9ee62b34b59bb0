package console

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// The samples of a day stay in memory: less than 1 MiB.
const (
	sampleEvery = 10 * time.Second
	samplesMax  = int(24 * time.Hour / sampleEvery)
)

// sample is a sample of the metrics. A rate is that since the sample before. NaN: unknown.
type sample struct {
	at                  time.Time
	creates             float64 // plants created, a second
	p50, p99            float64 // seconds of a create
	failures, refusals  float64 // responses with the status 5xx and 4xx of the public listener, a second
	plants, store, wal  float64 // stored plants, and the sizes in bytes
	connections, queued float64 // open connections of the public listener, and plants that wait for the next commit

	commitFailed bool     // since the sample before
	errors       []string // 5xx since then, by number and name, sorted
}

// ring keeps the newest samples.
type ring struct {
	mu      sync.Mutex
	samples [samplesMax]sample // guarded by mu
	added   int                // samples ever added; guarded by mu
}

func (r *ring) add(s sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.samples[r.added%samplesMax] = s
	r.added++
}

// since returns the samples after a time, oldest first.
func (r *ring) since(at time.Time) []sample {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []sample
	for i := max(0, r.added-samplesMax); i < r.added; i++ {
		if s := r.samples[i%samplesMax]; s.at.After(at) {
			list = append(list, s)
		}
	}
	return list
}

// sample prepares the pages, and samples the metrics until Close.
func (c *Console) sample() {
	c.prepare()
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	last := c.read()
	for {
		select {
		case <-c.stop:
			return
		case <-tick.C:
		}
		next := c.read()
		c.samples.add(next.since(last))
		last = next
	}
}

// reading has the values of the metrics at a time.
type reading struct {
	at                 time.Time
	created            float64
	failures, refusals float64
	commitsFailed      float64
	errors             map[string]float64 // responses with 5xx by the number and the name of the error
	buckets            []bucket           // of the duration of a create, ascending
	gauges             map[string]float64
}

// bucket is a bucket of a histogram: the number of values up to a bound in seconds.
type bucket struct {
	bound float64
	count float64
}

// read reads the metrics.
func (c *Console) read() reading {
	n := reading{at: c.now(), gauges: map[string]float64{}, errors: map[string]float64{}}
	families, err := c.Metrics.Gather()
	if err != nil {
		c.Log.Debug("console: could not read all metrics", "error", err) // it returns the other ones
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			public := labels["listener"] == "public"
			switch name := f.GetName(); {
			case name == "plantstore_plants_created_total":
				n.created = m.GetCounter().GetValue()
			case name == "plantstore_commits_failed_total":
				n.commitsFailed = m.GetCounter().GetValue()
			case name == "plantstore_http_errors_total" && strings.HasPrefix(labels["error"], "5"):
				n.errors[labels["error"]+" "+labels["name"]] = m.GetCounter().GetValue()
			case name == "plantstore_http_requests_total" && public && strings.HasPrefix(labels["status"], "5"):
				n.failures += m.GetCounter().GetValue()
			case name == "plantstore_http_requests_total" && public && strings.HasPrefix(labels["status"], "4"):
				n.refusals += m.GetCounter().GetValue()
			case name == "plantstore_http_request_duration_seconds" && public && strings.HasSuffix(labels["route"], "/plants"):
				for _, b := range m.GetHistogram().GetBucket() {
					n.buckets = append(n.buckets, bucket{b.GetUpperBound(), float64(b.GetCumulativeCount())})
				}
				n.buckets = append(n.buckets, bucket{math.Inf(1), float64(m.GetHistogram().GetSampleCount())})
			case m.GetGauge() != nil && (public || len(labels) == 0):
				n.gauges[name] = m.GetGauge().GetValue()
			}
		}
	}
	return n
}

// gauge returns the value of a gauge; NaN without it.
func (n reading) gauge(name string) float64 {
	if value, ok := n.gauges[name]; ok {
		return value
	}
	return math.NaN()
}

// since returns the sample between two readings.
func (n reading) since(last reading) sample {
	seconds := n.at.Sub(last.at).Seconds()
	var more []string
	for _, name := range slices.Sorted(maps.Keys(n.errors)) {
		if n.errors[name] > last.errors[name] {
			more = append(more, name)
		}
	}
	return sample{
		at:          n.at,
		creates:     (n.created - last.created) / seconds,
		failures:    (n.failures - last.failures) / seconds,
		refusals:    (n.refusals - last.refusals) / seconds,
		p50:         quantile(0.5, last.buckets, n.buckets),
		p99:         quantile(0.99, last.buckets, n.buckets),
		plants:      n.gauge("plantstore_plants"),
		store:       n.gauge("plantstore_store_bytes"),
		wal:         n.gauge("plantstore_wal_bytes"),
		connections: n.gauge("plantstore_connections_open"),
		queued:      n.gauge("plantstore_queue_plants"),

		commitFailed: n.commitsFailed > last.commitsFailed, errors: more,
	}
}

// quantile returns a quantile of the values that a histogram counted between two readings,
// by linear interpolation in a bucket as histogram_quantile of Prometheus; NaN without
// values.
func quantile(q float64, from, to []bucket) float64 {
	before := func(i int) float64 {
		if i < len(from) {
			return from[i].count
		}
		return 0
	}
	if len(to) == 0 {
		return math.NaN()
	}
	last := len(to) - 1
	rank := q * (to[last].count - before(last))
	if rank <= 0 {
		return math.NaN()
	}
	low, below := 0.0, 0.0
	for i, b := range to {
		count := b.count - before(i)
		if count >= rank {
			if math.IsInf(b.bound, 1) {
				return low
			}
			return low + (b.bound-low)*(rank-below)/(count-below)
		}
		low, below = b.bound, count
	}
	return low
}
