package backup

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
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

// TestListDuringMerge reads lists one part of which is older than a merge, and the rest newer: a list is no snapshot.
func TestListDuringMerge(t *testing.T) {
	t.Parallel()
	r := newCopyRig(t)
	r.backup()
	for range 6 {
		r.create(1)
		r.ship()
	}
	inner := r.Service.to
	for first := range r.segments() {
		torn := &tornList{destination: inner, from: first, merge: func() {
			r.must(r.mergeOld(t.Context(), time.Now().Add(3*time.Hour)))
		}}
		a := newArchive(torn, r.names, "")
		got, err := a.Restore(t.Context(), filepath.Join(t.TempDir(), "p.db"), Point{}, false, nil)
		if err != nil || int(got.Plants) != len(r.ids) {
			t.Errorf("restored %d of %d plants, %v", got.Plants, len(r.ids), err)
		}
		for range 3 {
			r.create(1)
			r.ship()
		}
	}
}

// tornList is a destination whose first list of segments has the files before a segment as they are before a merge, and
// the files after it as they are after the merge, without what the merge has stored.
type tornList struct {
	destination

	from  int
	merge func()
}

func (d *tornList) list(ctx context.Context, prefix string) ([]file, error) {
	files, err := d.destination.list(ctx, prefix)
	if err != nil || d.merge == nil || !strings.HasSuffix(prefix, ".") {
		return files, err
	}
	d.merge()
	d.merge = nil
	later, err := d.destination.list(ctx, prefix)
	segments := 0
	return slices.DeleteFunc(files, func(f file) bool {
		if !strings.HasSuffix(f.name, ".commits.zst") {
			return false
		}
		segments++
		isThere := slices.ContainsFunc(later, func(l file) bool { return l.name == f.name })
		return segments > d.from && !isThere
	}), err
}
