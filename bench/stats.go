package main

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// spread summarizes the values of several rounds.
type spread struct {
	median, min, max float64
	n                int // number of values; 0: not measured
}

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	s := spread{median: sorted[middle], min: sorted[0], max: sorted[len(sorted)-1], n: len(sorted)}
	if len(sorted)%2 == 0 {
		s.median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return s
}

// text formats a spread as median (min–max).
func (s spread) text(format func(float64) string) string {
	switch {
	case s.n == 0:
		return "–"
	case s.n == 1 || format(s.min) == format(s.max):
		return format(s.median)
	}
	return format(s.median) + " (" + format(s.min) + "–" + format(s.max) + ")"
}

// medianText formats the median of a spread, or a dash if nothing was measured.
func (s spread) medianText(format func(float64) string) string {
	if s.n == 0 {
		return "–"
	}
	return format(s.median)
}

// whole formats a number without decimals and with commas between thousands.
func whole(v float64) string {
	digits := strconv.FormatInt(int64(math.Round(math.Abs(v))), 10)
	var groups []string
	for len(digits) > 3 {
		groups = append(groups, digits[len(digits)-3:])
		digits = digits[:len(digits)-3]
	}
	groups = append(groups, digits)
	slices.Reverse(groups)
	if v <= -0.5 {
		return "-" + strings.Join(groups, ",")
	}
	return strings.Join(groups, ",")
}

func oneDecimal(v float64) string  { return strconv.FormatFloat(v, 'f', 1, 64) }
func twoDecimals(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

// millis formats microseconds as milliseconds.
func millis(v float64) string { return twoDecimals(v / 1e3) }

// mebibytes formats bytes as MiB.
func mebibytes(v float64) string { return oneDecimal(v / (1 << 20)) }

// loads are runs of the generator.
type loads []loadRun

func (l loads) where(keep func(loadRun) bool) loads {
	var kept loads
	for _, r := range l {
		if keep(r) {
			kept = append(kept, r)
		}
	}
	return kept
}

// valid returns the runs without a fault.
func (l loads) valid() loads { return l.where(func(r loadRun) bool { return r.Fault == "" }) }

func (l loads) values(of func(loadRun) float64) []float64 {
	var values []float64
	for _, r := range l {
		values = append(values, of(r))
	}
	return values
}

func (l loads) spread(of func(loadRun) float64) spread { return spreadOf(l.valid().values(of)) }

// ratios divides each valid run of l by the valid run of other in the same round. Both have at most one run a round.
func (l loads) ratios(other loads, of func(loadRun) float64) []float64 {
	var ratios []float64
	for _, r := range l.valid() {
		for _, o := range other.valid() {
			if o.Round == r.Round && of(o) > 0 {
				ratios = append(ratios, of(r)/of(o))
			}
		}
	}
	return ratios
}

// Values of a run, for spread and ratios.
func rate(r loadRun) float64       { return r.Generator.perSecond() }
func p50(r loadRun) float64        { return float64(r.Generator.P50) }
func p99(r loadRun) float64        { return float64(r.Generator.P99) }
func p999(r loadRun) float64       { return float64(r.Generator.P999) }
func serverCPU(r loadRun) float64  { return r.ServerMicros }
func dbCPU(r loadRun) float64      { return r.DatabaseMicros }
func peak(r loadRun) float64       { return float64(r.ServerPeak) }
func dbMemory(r loadRun) float64   { return float64(r.DatabaseBytes) }
func plantBytes(r loadRun) float64 { return float64(r.DiskBytes) / float64(max(r.Rows, 1)) }
