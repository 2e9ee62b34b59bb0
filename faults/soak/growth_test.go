package soak

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

// measure is a resource that must not grow.
type measure struct {
	name, unit string
	share      float64 // allowed growth, as a share of the first value
	more       float64 // allowed growth besides
}

var measures = [...]measure{
	{"resident memory", ", in MiB", 0.1, 24},
	{"Go heap", ", in MiB", 0.1, 24},
	{"goroutines", "", 0, 16},
	{"descriptors", "", 0, 16},
}

const (
	warmUpParts      = 10 // the first of so many parts of the samples is ignored
	cacheMiB         = 32 // the most that SQLite's page cache holds
	longestInterval  = time.Second
	shortestInterval = 200 * time.Millisecond
)

// sample has the values of all measures at one time.
type sample [len(measures)]float64

// grown returns the medians of the first and the last quarter after the warm-up, and whether the growth exceeds the
// limit.
func (m measure) grown(values []float64) (first, last float64, exceeded bool) {
	rest := values[len(values)/warmUpParts:]
	quarter := len(rest) / 4
	first, last = median(rest[:quarter]), median(rest[len(rest)-quarter:])
	return first, last, last > first*(1+m.share)+m.more
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// checkGrowth records a fault for each measure that has grown.
func (r *run) checkGrowth() {
	const samplesMin = 20
	if len(r.samples) < samplesMin {
		r.faults.add(rate, "%d samples, want at least %d", len(r.samples), samplesMin)
		return
	}
	for i, m := range measures {
		values := make([]float64, len(r.samples))
		for j, s := range r.samples {
			values[j] = s[i]
		}
		first, last, exceeded := m.grown(values)
		text := fmt.Sprintf("%.1f in the first quarter, %.1f in the last, range %.1f–%.1f%s",
			first, last, slices.Min(values), slices.Max(values), m.unit)
		r.t.Logf("%s: %s", m.name, text)
		if exceeded {
			r.faults.add(m.name, "%s", text)
		}
	}
}

// watch takes samples until ctx ends.
func (r *run) watch(ctx context.Context) {
	tick := time.NewTicker(min(longestInterval, max(shortestInterval, r.length/200)))
	defer tick.Stop()
	loggedAt := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s, err := r.sample()
		if err != nil {
			r.faults.add(wrongResponse, "sample the server: %v", err)
			continue
		}
		r.samples = append(r.samples, s)
		if time.Since(loggedAt) > time.Minute { // progress of a long run
			loggedAt = time.Now()
			r.t.Logf("after %s: %.1f MiB resident without the page cache, %.1f MiB Go heap, %.0f goroutines, "+
				"%.0f descriptors; %d faults",
				time.Since(r.started).Round(time.Second), s[0], s[1], s[2], s[3], r.faults.all())
		}
	}
}

// sample measures the server.
func (r *run) sample() (s sample, err error) {
	metrics, err := r.metrics(
		"plantstore_store_bytes", "go_memstats_heap_alloc_bytes", "go_goroutines", "process_open_fds",
	)
	if err != nil {
		return s, err
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", r.server.Command.Process.Pid))
	if err != nil {
		return s, err
	}
	var size, resident float64 // in pages
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return s, err
	}
	const mebibyte = 1 << 20
	cache := min(metrics[0]/mebibyte, cacheMiB)
	return sample{
		resident*float64(os.Getpagesize())/mebibyte - cache,
		metrics[1] / mebibyte,
		metrics[2],
		metrics[3],
	}, nil
}

// metrics returns the values of metrics without labels.
func (r *run) metrics(names ...string) (values []float64, err error) {
	text, err := r.server.Metrics(r.t.Context(), r.token)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		_, rest, _ := bytes.Cut(text, []byte("\n"+name+" "))
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		value, err := strconv.ParseFloat(string(line), 64)
		if err != nil {
			return nil, fmt.Errorf("metric %s: %w", name, err)
		}
		values = append(values, value)
	}
	return values, nil
}
