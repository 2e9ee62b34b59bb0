package main

import "fmt"

// reachTable holds what was asked of the product against what it reached.
// Rates and ratios count by their median, bounds by the worst that was seen.
func (r *results) reachTable() string {
	t := &table{}
	t.row("asked", "at least or at most", "reached", "verdict")
	r.reachCompared(t)
	r.reachGrowth(t)
	r.reachBounds(t)
	r.reachImport(t)
	return t.String()
}

// line adds what was asked. A factor below 1 and one above are told alike: by
// which part of what was asked it is missed.
func (t *table) line(what string, least bool, asked, reached float64, s spread, format func(float64) string, unit string) {
	sign := "≥ "
	if !least {
		sign = "≤ "
	}
	verdict := "not measured"
	switch {
	case s.n == 0:
	case least && reached >= asked, !least && reached <= asked:
		verdict = "reached"
	case least:
		verdict = fmt.Sprintf("**missed** by %.0f%%", max(1, (asked-reached)/asked*100))
	default:
		verdict = fmt.Sprintf("**missed** by %.0f%%", max(1, (reached-asked)/asked*100))
	}
	t.row(what, sign+format(asked)+unit, s.text(format), verdict)
}

func (t *table) ratio(what string, least bool, asked float64, ratios []float64) {
	s := spreadOf(ratios)
	t.line(what, least, asked, s.median, s, twoDecimals, "")
}

func (r *results) reachCompared(t *table) {
	for _, asked := range []struct {
		who, peer   string
		connections int64
		factor      float64
	}{
		{productName, floorName, 64, 0.50},
		{productName, floorName, 256, 0.60},
		{productName, pocketbaseName, 64, 6},
		{productName, pocketbaseName, 256, 6},
		{productName, plainName, 64, 4},
		{productName, plainName, 256, 4},
		{productPGName, floorName, 256, 0.40},
		{productPGName, plainpgName, 64, 3},
		{productPGName, plainpgName, 256, 3},
	} {
		ratios := r.compared(setShared, asked.who, asked.connections).ratios(r.compared(setShared, asked.peer, asked.connections), rate)
		t.ratio(fmt.Sprintf("%s: requests a second, as a multiple of %s, %d connections", asked.who, asked.peer, asked.connections), true, asked.factor, ratios)
	}
	for _, connections := range []int64{64, 256} {
		ratios := r.compared(setShared, productName, connections).ratios(r.compared(setShared, floorName, connections), p99)
		t.ratio(fmt.Sprintf("p99, as a multiple of the floor's, %d connections", connections), false, 1.5, ratios)
	}
	alone := r.phase(phaseAfter).ratios(r.phase(phaseBefore), p50)
	t.ratio(fmt.Sprintf("p50 of a lone client after a burst of %d, as a multiple of that before", burstConnections), false, 1.5, alone)
}

func (r *results) reachGrowth(t *table) {
	const connections, large = 256, 10_000_000
	random, ascending := r.grown(orderRandom, large, connections), r.grown(orderAscending, large, connections)
	t.ratio("requests a second on 10 million plants, as a part of those on none, random ids", true, 0.5, random.ratios(r.grown(orderRandom, 0, connections), rate))
	t.ratio("the same, ascending ids", true, 0.9, ascending.ratios(r.grown(orderAscending, 0, connections), rate))
	t.ratio("p99 on 10 million plants, as a multiple of that on none, random ids", false, 3, random.ratios(r.grown(orderRandom, 0, connections), p99))
}

func (r *results) reachBounds(t *table) {
	walMost := r.phase("wal").where(func(l loadRecord) bool { return l.Before == 10_000_000 }).spread(walPeak)
	t.line("write-ahead log, the most under continuous load on 10 million plants", false, walBound, walMost.max, walMost, mebibytes, " MiB")

	memory := append(r.grown(orderRandom, 10_000_000, 256), r.grown(orderAscending, 10_000_000, 256)...).spread(peak)
	t.line("resident memory of the server, the most at 256 connections on 10 million plants", false, 128<<20, memory.max, memory, mebibytes, " MiB")

	var starts []float64
	for _, s := range r.starts {
		if s.Before == 10_000_000 {
			starts = append(starts, s.Millis)
		}
	}
	ready := spreadOf(starts)
	t.line("ready after its start on 10 million plants", false, 200, ready.max, ready, whole, " ms")
}

func (r *results) reachImport(t *table) {
	ours, theirs := r.imported(productName, "real"), r.imported(sqlite3Name, "real")
	speed := spreadOf(ours.values(importRecord.perSecond))
	t.line("rows a second, import of real plants into an empty store", true, 250_000, speed.median, speed, whole, "")
	memory := spreadOf(ours.values(func(i importRecord) float64 { return float64(i.Peak) }))
	t.line("resident memory of that import, the most", false, 256<<20, memory.max, memory, mebibytes, " MiB")
	t.ratio("time of that import, as a multiple of that of sqlite3 .import", false, 1.5, ours.slower(theirs))
}
