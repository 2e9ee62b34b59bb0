package console

import (
	"math"
	"slices"
	"sync"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/server"
	"plantstore/internal/writepath"
)

// The samples of a day stay in memory: less than 1 MiB.
const (
	sampleEvery = 10 * time.Second
	samplesMax  = int(24 * time.Hour / sampleEvery)
)

// sample is a sample of the metrics. Rates are since the previous sample. NaN: unknown.
type sample struct {
	at                  time.Time
	creates             float64 // plants created, a second
	p50, p99            float64 // seconds of a create
	serverErrors        float64 // responses of the public listener with a status 5xx, a second
	clientErrors        float64 // with 4xx
	plants, store, wal  float64 // stored plants, and the sizes in bytes
	connections, queued float64 // open connections of the public listener, and plants that wait for the next commit
}

// history keeps the newest samples.
type history struct {
	mu      sync.Mutex
	samples []sample // oldest first, at most samplesMax; guarded by mu
}

func (h *history) add(s sample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.samples) == samplesMax {
		h.samples = slices.Delete(h.samples, 0, 1)
	}
	h.samples = append(h.samples, s)
}

// since returns the samples after a time, oldest first.
func (h *history) since(at time.Time) []sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.samples), func(s sample) bool { return !s.at.After(at) })
}

// sample samples the metrics until Close.
func (c *Console) sample() {
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

// reading is the values of the metrics at a time.
type reading struct {
	admin.Gauges

	store    writepath.Numbers
	requests server.Numbers
	at       time.Time
}

func (c *Console) read() reading {
	return reading{c.Operations.Gauges(), c.WritePath.Numbers(), c.Requests(), c.now()}
}

// since returns the sample between two readings.
func (n reading) since(last reading) sample {
	seconds := n.at.Sub(last.at).Seconds()
	latency := slices.Clone(n.requests.Latency) // creates since then
	for i := range min(len(latency), len(last.requests.Latency)) {
		latency[i].Count -= last.requests.Latency[i].Count
	}
	rate := func(now, before int64) float64 { return float64(now-before) / seconds }
	return sample{
		at:           n.at,
		creates:      rate(n.store.Created, last.store.Created),
		serverErrors: rate(n.requests.ServerErrors, last.requests.ServerErrors),
		clientErrors: rate(n.requests.ClientErrors, last.requests.ClientErrors),
		p50:          quantile(0.5, latency),
		p99:          quantile(0.99, latency),
		plants:       admin.OrNaN(n.Plants),
		store:        admin.OrNaN(n.StoreBytes),
		wal:          admin.OrNaN(n.WALBytes),
		connections:  float64(n.Connections["public"]),
		queued:       float64(n.QueuePlants),
	}
}

// quantile returns a quantile of the values that a histogram counted, with linear interpolation in a bucket, as
// histogram_quantile of Prometheus; NaN without values.
func quantile(q float64, buckets []server.Bucket) float64 {
	if len(buckets) == 0 {
		return math.NaN()
	}
	rank := q * buckets[len(buckets)-1].Count
	if rank <= 0 {
		return math.NaN()
	}
	low, below := 0.0, 0.0
	for _, b := range buckets {
		if b.Count >= rank {
			if math.IsInf(b.Bound, 1) {
				return low
			}
			return low + (b.Bound-low)*(rank-below)/(b.Count-below)
		}
		low, below = b.Bound, b.Count
	}
	return low
}
