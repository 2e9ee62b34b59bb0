package admin

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// metricWatch has what the server noticed in its metrics, which only show the values of now.
type metricWatch struct {
	mu     sync.Mutex // guards the fields below
	values map[string]map[string]float64
	risen  map[string]map[string]rises // by the counter and the values of its labels
	since  map[string]time.Time        // when the conditions that hold were noticed, by id

	standby bool   // an acknowledged plant was on a standby before
	free    []free // of the last 6 hours, one a minute, the oldest first
}

// free is the free space of the store's disk at a time.
type free struct {
	at    time.Time
	bytes float64
}

// rises are the rises of a counter, without pauses of recently.
type rises struct {
	first, last time.Time
	n           float64  // sum
	labels      []string // of the counters that rose
}

const watchEvery = 10 * time.Second

// watch looks at the metrics until Close.
func (s *Service) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		s.look(time.Now())
		s.Warnings(s.ctx) // so that a condition is noticed now
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look notes the metrics and their rises.
func (s *Service) look(now time.Time) {
	families, err := s.config.Metrics.Gather()
	if err != nil { // the families without a fault are there
		s.log.Warn("could not read a metric", "error", err)
	}
	w := &s.metrics
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.values
	w.values = map[string]map[string]float64{}
	for _, family := range families {
		name := family.GetName()
		if !strings.HasPrefix(name, "plantstore_") {
			continue
		}
		values := map[string]float64{}
		w.values[name] = values
		for _, m := range family.GetMetric() {
			labels, value := labelsOf(m), m.GetGauge().GetValue()+m.GetCounter().GetValue()
			values[labels] = value
			if more := value - before[name][labels]; m.Counter != nil && more > 0 {
				w.rise(name, labels, more, now)
			}
		}
	}
	w.standby = w.standby || w.values["plantstore_durability_standby"][""] == 1
	w.keepFree(now)
}

// keepFree keeps the free space of the store's disk. The caller has locked mu.
func (w *metricWatch) keepFree(now time.Time) {
	const kept = 6*60 + 2
	bytes, ok := w.values["plantstore_store_disk_free_bytes"][""]
	if !ok || len(w.free) > 0 && now.Sub(w.free[len(w.free)-1].at) < time.Minute {
		return
	}
	w.free = append(w.free, free{now, bytes})
	w.free = w.free[max(0, len(w.free)-kept):]
}

// freeAt returns the free bytes of the store's disk at a time; NaN if they are unknown. The caller has locked mu.
func (w *metricWatch) freeAt(t time.Time) float64 {
	for _, f := range slices.Backward(w.free) {
		if !f.at.After(t) {
			return f.bytes
		}
	}
	return math.NaN()
}

func labelsOf(m *dto.Metric) string {
	var values []string
	for _, label := range m.GetLabel() {
		values = append(values, label.GetValue())
	}
	return strings.Join(values, " ")
}

// rise notes that a counter has risen by n. The caller has locked mu.
func (w *metricWatch) rise(name, labels string, n float64, now time.Time) {
	if w.risen[name] == nil {
		w.risen[name] = map[string]rises{}
	}
	r := w.risen[name][labels]
	if now.Sub(r.last) > recently {
		r = rises{first: now}
	}
	r.last, r.n = now, r.n+n
	w.risen[name][labels] = r
}

// rises returns the rises of a counter that continued after a time, for all labels that begin with a text. The caller
// has locked mu.
func (w *metricWatch) rises(name string, after time.Time, prefix string) (all rises) {
	for _, labels := range slices.Sorted(maps.Keys(w.risen[name])) {
		r := w.risen[name][labels]
		if !strings.HasPrefix(labels, prefix) || !r.last.After(after) {
			continue
		}
		if all.n == 0 || r.first.Before(all.first) {
			all.first = r.first
		}
		if r.last.After(all.last) {
			all.last = r.last
		}
		all.n += r.n
		all.labels = append(all.labels, labels)
	}
	return all
}
