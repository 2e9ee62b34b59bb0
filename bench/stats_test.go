package main

import (
	"slices"
	"testing"
)

func TestSpreadOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		in   []float64
		want spread
		text string
	}{
		{"nothing", nil, spread{}, "–"},
		{"one", []float64{7}, spread{7, 7, 7, 1}, "7"},
		{"odd", []float64{9, 1, 5}, spread{5, 1, 9, 3}, "5 (1–9)"},
		{"even", []float64{4, 1, 2, 3}, spread{2.5, 1, 4, 4}, "3 (1–4)"},
		{"all alike", []float64{2, 2}, spread{2, 2, 2, 2}, "2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := spreadOf(test.in)
			if got != test.want {
				t.Errorf("spreadOf(%v) = %v, want %v", test.in, got, test.want)
			}
			if got := got.text(whole); got != test.text {
				t.Errorf("text = %q, want %q", got, test.text)
			}
		})
	}
}

func TestWhole(t *testing.T) {
	t.Parallel()
	for in, want := range map[float64]string{
		0: "0", 999.6: "1,000", 12: "12", 1234567: "1,234,567", -1234: "-1,234",
		-0.2: "0",
	} {
		if got := whole(in); got != want {
			t.Errorf("whole(%v) = %q, want %q", in, got, want)
		}
	}
}

// A ratio compares runs of one round in any order. A failed run has no ratio.
func TestRatios(t *testing.T) {
	t.Parallel()
	run := func(round int, requests int64, fault string) loadRun {
		return loadRun{Round: round, Fault: fault, Generator: wrkResult{Requests: requests, Micros: 1e6}}
	}
	ours := loads{run(0, 50, ""), run(1, 80, ""), run(2, 90, "refused"), run(3, 10, "")}
	floor := loads{run(2, 100, ""), run(1, 100, ""), run(0, 200, "")}
	if got, want := ours.ratios(floor, rate), []float64{0.25, 0.8}; !slices.Equal(got, want) {
		t.Errorf("ratios = %v, want %v", got, want)
	}
	if got := ours.spread(rate); got.n != 3 || got.max != 80 {
		t.Errorf("spread = %+v, want 3 values without the run with a fault", got)
	}
}
