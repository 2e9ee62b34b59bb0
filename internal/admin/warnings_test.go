package admin_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"plantstore/internal/admin"
	"plantstore/internal/store"
)

// still is an engine for warnings, whose methods return at once.
type still struct{ admin.Engine }

func (still) Durability() store.Durability { return store.Durability{} }

func (still) Sizes() *store.Sizes { return nil }

// watched is a server with these metrics, in a bubble of synctest.
type watched struct {
	*admin.Service

	t       *testing.T
	metrics *prometheus.Registry
}

func watch(t *testing.T) *watched {
	t.Helper()
	w := &watched{t: t, metrics: prometheus.NewRegistry()}
	var err error
	if w.Service, err = admin.New(admin.Config{Engine: still{}, Metrics: w.metrics}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// counter registers a counter.
func (w *watched) counter(name string, labels prometheus.Labels) prometheus.Counter {
	return promauto.With(w.metrics).NewCounter(prometheus.CounterOpts{Name: name, ConstLabels: labels})
}

// after compares the texts of the warnings after a time.
func (w *watched) after(d time.Duration, want ...string) {
	w.t.Helper()
	<-time.After(d)
	synctest.Wait()
	var got []string
	for _, one := range w.Warnings(w.t.Context()) {
		got = append(got, one.ID+": "+one.Text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("warnings, -want +got:\n%s", diff)
	}
}

// TestFailuresAreNoticed shows that a warning tells how often and when a counter has risen, until 15 minutes after.
func TestFailuresAreNoticed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		commits := w.counter("plantstore_commits_failed_total", nil)
		full := w.counter("plantstore_http_errors_total", prometheus.Labels{"error": "50301", "name": "queue-full"})
		failed := w.counter("plantstore_http_errors_total", prometheus.Labels{"error": "50001", "name": "internal"})
		refused := w.counter("plantstore_http_errors_total", prometheus.Labels{"error": "40101", "name": "unauthorized"})
		w.after(time.Minute)
		refused.Inc()
		full.Inc()
		w.after(10*time.Second, "creates-fail: Requests have failed once, at 00:01 UTC: 50301 queue-full.")
		failed.Add(2)
		w.after(10*time.Minute,
			"creates-fail: Requests have failed 3 times since 00:01 UTC, the last time at 00:01 UTC: "+
				"50001 internal, 50301 queue-full.")
		commits.Inc()
		w.after(10*time.Second, "commits-fail: Commits have failed once, at 00:11 UTC.")
		began := w.Warnings(t.Context())[0].Since
		w.after(14*time.Minute, "commits-fail: Commits have failed once, at 00:11 UTC.")
		if now := w.Warnings(t.Context())[0].Since; !now.Equal(began) {
			t.Errorf("noticed at %s, then at %s", began, now)
		}
		w.after(time.Minute + 10*time.Second)
	})
}

// TestFaultyMetric shows that a metric without a value hides no other one.
func TestFaultyMetric(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := watch(t)
		desc := prometheus.NewDesc("plantstore_faulty", "", nil, nil)
		w.metrics.MustRegister(collector(func(to chan<- prometheus.Metric) {
			to <- prometheus.NewInvalidMetric(desc, errors.New("no value"))
		}))
		w.counter("plantstore_commits_failed_total", nil).Inc()
		w.after(10*time.Second, "commits-fail: Commits have failed once, at 00:00 UTC.")
	})
}

// collector collects one metric.
type collector func(chan<- prometheus.Metric)

func (collector) Describe(chan<- *prometheus.Desc) {}

func (c collector) Collect(to chan<- prometheus.Metric) { c(to) }
