package backup

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// gauge returns the value of a metric of the service.
func (r *copyRig) gauge(name string) float64 {
	r.t.Helper()
	families, err := r.config.Metrics.(*prometheus.Registry).Gather()
	r.must(err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	r.t.Fatalf("there is no metric %s", name)
	return 0
}

// noDelete is a destination that removes nothing.
type noDelete struct{ destination }

func (noDelete) delete(context.Context, ...string) error { return errors.New("not now") }

// TestMergeIsLate shows in the metrics and the schedule how many segments there are, and that no merge has succeeded.
func TestMergeIsLate(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	log := r.logged()
	r.backup()
	for range 5 {
		r.create(1)
		r.ship()
	}
	want := func(segments int, late bool, faults ...string) {
		t.Helper()
		got := r.Schedule()
		if n := r.gauge("plantstore_copy_segments"); int(n) != segments || int(got.Segments) != segments {
			t.Errorf("metric of %v segments, schedule of %d, want %d", n, got.Segments, segments)
		}
		if lag := r.gauge("plantstore_copy_merge_lag_seconds"); lag > 0 != late {
			t.Errorf("lag %v, late %v", lag, late)
		}
		if !slices.Equal(got.Faults, faults) || got.Timeline != r.ownTimeline() || time.Since(got.Since) > time.Hour {
			t.Errorf("schedule %+v, want the faults %q", got, faults)
		}
	}
	want(0, false)
	to, later := r.Service.to, time.Now().Add(3*time.Hour)
	r.Service.to = noDelete{to}
	for range 2 {
		r.mergeRound(t.Context(), later)
	}
	want(6, true, "could not merge segments: not now") // the first round has stored one more
	r.Service.to = to
	for range 2 {
		r.mergeRound(t.Context(), later)
	}
	want(len(r.segments()), false)
	if lines := log.newLines(t); len(lines) != 2 { // with that of the backup
		t.Errorf("log %v", lines)
	}
}
