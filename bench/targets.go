package main

import "fmt"

// targetTable compares measurements with targets. The median of a rate or a ratio
// counts, and the worst value of a limit.
func (r *results) targetTable() string {
	return r.targets().String()
}

// targets is the table of targets with their numbers.
type targets struct {
	table

	measured, reached int
}

func (r *results) targets() *targets {
	t := &targets{}
	t.row("target", "limit", "measured", "result")
	r.compareTargets(t)
	r.tlsTargets(t)
	r.aloneTargets(t)
	r.lastTargets(t)
	r.growthTargets(t)
	r.limitTargets(t)
	r.importTargets(t)
	r.searchTargets(t)
	r.webhookTargets(t)
	r.clientTargets(t)
	return t
}

// add adds a target: value must be at least the limit, or at most if least is
// false. A missed target is reported as a percentage of the limit.
func (t *targets) add(name string, least bool, limit, value float64, s spread, format func(float64) string,
	unit string,
) {
	sign := "≥ "
	if !least {
		sign = "≤ "
	}
	missed := (value - limit) / limit
	if least {
		missed = -missed
	}
	result := "not measured"
	if s.n > 0 {
		t.measured++
		if missed <= 0 {
			t.reached++
			result = "reached"
		} else {
			result = fmt.Sprintf("**missed** by %.0f%%", max(1, missed*100))
		}
	}
	t.row(name, sign+format(limit)+unit, s.text(format), result)
}

func (t *targets) addRatio(name string, least bool, limit float64, ratios []float64) {
	s := spreadOf(ratios)
	t.add(name, least, limit, s.median, s, twoDecimals, "")
}

func (r *results) compareTargets(t *targets) {
	for _, target := range []struct {
		name, peer  string
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
		ratios := r.compared(setShared, target.name,
			target.connections).ratios(r.compared(setShared, target.peer, target.connections), rate)
		t.addRatio(fmt.Sprintf("rate of %s ÷ %s, %d connections", target.name, target.peer, target.connections), true,
			target.factor, ratios)
	}
	for _, connections := range []int64{64, 256} {
		ratios := r.compared(setShared, productName, connections).ratios(r.compared(setShared, floorName, connections), p99)
		t.addRatio(fmt.Sprintf("p99 of plantstore ÷ floor, %d connections", connections), false, 1.5, ratios)
	}
	single := r.phase(phaseAfter).ratios(r.phase(phaseBefore), p50)
	t.addRatio(fmt.Sprintf("p50 of a single client after ÷ before a burst of %d", burstConnections), false, 1.5, single)
}

// largeStore is the number of plants of the growth targets.
const largeStore = 10_000_000

func (r *results) growthTargets(t *targets) {
	const connections = 256
	random, ascending := r.grown(orderRandom, largeStore, connections), r.grown(orderAscending, largeStore, connections)
	t.addRatio("rate with 10 million plants ÷ empty, random ids", true, 0.5,
		random.ratios(r.grown(orderRandom, 0, connections), rate))
	t.addRatio("rate with 10 million plants ÷ empty, ascending ids", true, 0.9,
		ascending.ratios(r.grown(orderAscending, 0, connections), rate))
	t.addRatio("p99 with 10 million plants ÷ empty, random ids", false, 3,
		random.ratios(r.grown(orderRandom, 0, connections), p99))
}

func (r *results) limitTargets(t *targets) {
	wal := r.largestWAL()
	t.add("size of the WAL under load, 10 million plants", false, walBound, wal.max, wal, mebibytes, " MiB")
	memory := r.largestMemory()
	t.add("memory of the server, 256 connections, 10 million plants", false, 128<<20, memory.max, memory, mebibytes,
		" MiB")
	ready := r.startTime()
	t.add("time until ready, 10 million plants", false, 200, ready.max, ready, whole, " ms")
}

// largestWAL returns the largest sizes of the WAL under load on a large store.
func (r *results) largestWAL() spread {
	return r.phase("wal").where(func(l loadRun) bool { return l.Before == largeStore }).spread(walPeak)
}

// largestMemory returns the largest resident memory of the server on a large store.
func (r *results) largestMemory() spread {
	return append(r.grown(orderRandom, largeStore, 256), r.grown(orderAscending, largeStore, 256)...).spread(peak)
}

// startTime returns the times until the server is ready on a large store, in
// milliseconds.
func (r *results) startTime() spread {
	var times []float64
	for _, s := range r.starts {
		if s.Before == largeStore {
			times = append(times, s.Millis)
		}
	}
	return spreadOf(times)
}

func (r *results) importTargets(t *targets) {
	product, peer := r.imported(productName, "real"), r.imported(sqlite3Name, "real")
	speed := spreadOf(product.values(importRun.perSecond))
	t.add("rows a second, import of real plants", true, 250_000, speed.median, speed, whole, "")
	memory := spreadOf(product.values(func(i importRun) float64 { return float64(i.Peak) }))
	t.add("memory of that import", false, 256<<20, memory.max, memory, mebibytes, " MiB")
	t.addRatio("time of that import ÷ sqlite3 .import", false, 1.5, product.slower(peer))
}
