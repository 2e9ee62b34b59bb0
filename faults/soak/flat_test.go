package soak

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"
)

// measure is something that must not grow.
type measure struct {
	name, unit string
	share      float64 // of what it was, by which it may grow
	more       float64 // and besides
}

var measures = [...]measure{
	{"resident memory", ", in MiB", 0.1, 24},
	{"Go heap", ", in MiB", 0.1, 24},
	{"goroutines", "", 0, 16},
	{"descriptors", "", 0, 16},
}

const (
	warmUp    = 10 // one part of so many does not count
	cacheMiB  = 32 // of SQLite's page cache, at most
	lookMost  = time.Second
	lookLeast = 200 * time.Millisecond
)

// sample is what was seen of each measure at a moment.
type sample [len(measures)]float64

// grown returns the medians of the first and the last quarter after the
// warm-up, and whether the last is above what it may be.
func (m measure) grown(seen []float64) (first, last float64, tooMuch bool) {
	rest := seen[len(seen)/warmUp:]
	quarter := len(rest) / 4
	first, last = median(rest[:quarter]), median(rest[len(rest)-quarter:])
	return first, last, last > first*(1+m.share)+m.more
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

// flat notes what has grown.
func (r *run) flat() {
	const least = 20
	if len(r.samples) < least {
		r.faults.add(rate, "there are %d samples, and %d are needed", len(r.samples), least)
		return
	}
	for i, m := range measures {
		seen := make([]float64, len(r.samples))
		for j, s := range r.samples {
			seen[j] = s[i]
		}
		first, last, tooMuch := m.grown(seen)
		text := fmt.Sprintf("%.1f in the first quarter, %.1f in the last, %.1f–%.1f in all%s", first, last, slices.Min(seen), slices.Max(seen), m.unit)
		r.t.Logf("%s: %s", m.name, text)
		if tooMuch {
			r.faults.add(m.name, "%s", text)
		}
	}
}

// watch takes samples until ctx ends.
func (r *run) watch(ctx context.Context) {
	tick := time.NewTicker(min(lookMost, max(lookLeast, r.length/200)))
	defer tick.Stop()
	told := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s, err := r.look()
		if err != nil {
			r.faults.add(wrongAnswer, "look at the server: %v", err)
			continue
		}
		r.samples = append(r.samples, s)
		if time.Since(told) > time.Minute { // a long run shows that it is alive
			told = time.Now()
			r.t.Logf("after %s: %.1f MiB resident without the page cache, %.1f MiB of Go heap, %.0f goroutines, %.0f descriptors; %d faults",
				time.Since(r.begun).Round(time.Second), s[0], s[1], s[2], s[3], r.faults.all())
		}
	}
}

// look takes a sample.
func (r *run) look() (s sample, err error) {
	metrics, err := r.metrics("plantstore_store_bytes", "go_memstats_heap_alloc_bytes", "go_goroutines")
	if err != nil {
		return s, err
	}
	proc := fmt.Sprint("/proc/", r.server.Command.Process.Pid)
	text, err := os.ReadFile(proc + "/statm")
	if err != nil {
		return s, err
	}
	var size, resident float64 // in pages
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return s, err
	}
	descriptors, err := os.ReadDir(proc + "/fd")
	if err != nil {
		return s, err
	}
	const mebibyte = 1 << 20
	cache := min(metrics[0]/mebibyte, cacheMiB)
	return sample{
		resident*float64(os.Getpagesize())/mebibyte - cache,
		metrics[1] / mebibyte,
		metrics[2],
		float64(len(descriptors)),
	}, nil
}

// metrics returns values of metrics without labels.
func (r *run) metrics(names ...string) (values []float64, err error) {
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, r.server.Admin+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := r.kept.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		_, rest, _ := bytes.Cut(text, []byte("\n"+name+" "))
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		value, err := strconv.ParseFloat(string(line), 64)
		if err != nil {
			return nil, fmt.Errorf("/metrics, with status %d: %s: %w", answer.StatusCode, name, err)
		}
		values = append(values, value)
	}
	return values, nil
}
