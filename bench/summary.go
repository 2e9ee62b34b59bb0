package main

import (
	"fmt"
	"strings"
)

// summary returns the main results as a list, a line each.
func (r *results) summary() string {
	var b strings.Builder
	for _, line := range []string{
		r.rateLine(), r.ratioLine(), r.postgresLine(), r.latencyLine(), r.burstLine(),
		r.growthLine(), r.memoryLine(), r.startLine(), r.importLine(), r.targetLine(),
	} {
		if line != "" {
			b.WriteString("- " + line + "\n")
		}
	}
	if b.Len() == 0 {
		return notMeasured
	}
	return b.String()
}

// medianText formats the median of a spread, or a dash if nothing was measured.
func (s spread) medianText(format func(float64) string) string {
	if s.n == 0 {
		return "–"
	}
	return format(s.median)
}

// faster returns how many times the rate of one contender is that of another with
// 256 connections.
func (r *results) faster(name, peer string) string {
	const connections = 256
	return spreadOf(r.compared(setShared, name, connections).ratios(r.compared(setShared, peer, connections),
		rate)).medianText(twoDecimals)
}

func (r *results) rateLine() string {
	s := r.compared(setShared, productName, 256).spread(rate)
	if s.n == 0 || len(r.machines) == 0 {
		return ""
	}
	return fmt.Sprintf("**%s plants a second** on SQLite with 256 clients, on %d cores that the load generator shares. "+
		"Each response follows a sync.",
		whole(s.median), r.machines[0].Cores)
}

func (r *results) ratioLine() string {
	if r.compared(setShared, productName, 256).spread(rate).n == 0 {
		return ""
	}
	return fmt.Sprintf("That is %s of the floor, %s times plain SQLite and %s times PocketBase.",
		r.faster(productName, floorName), r.faster(productName, plainName), r.faster(productName, pocketbaseName))
}

func (r *results) postgresLine() string {
	s := r.compared(setShared, productPGName, 256).spread(rate)
	if s.n == 0 {
		return ""
	}
	return fmt.Sprintf("On PostgreSQL: %s plants a second, %s of the floor and %s times plain PostgreSQL.",
		whole(s.median), r.faster(productPGName, floorName), r.faster(productPGName, plainpgName))
}

func (r *results) latencyLine() string {
	few, many := r.compared(setShared, productName, 64), r.compared(setShared, productName, 256)
	if few.spread(p50).n == 0 || many.spread(p50).n == 0 {
		return ""
	}
	return fmt.Sprintf("Latency on SQLite: p50 %s ms and p99 %s ms with 64 clients, %s ms and %s ms with 256.",
		millis(few.spread(p50).median), millis(few.spread(p99).median),
		millis(many.spread(p50).median), millis(many.spread(p99).median))
}

func (r *results) burstLine() string {
	before, after := r.phase(phaseBefore).spread(p50), r.phase(phaseAfter).spread(p50)
	if before.n == 0 || after.n == 0 {
		return ""
	}
	return fmt.Sprintf("A single client: p50 %s ms, and %s ms after a burst of %d clients.", millis(before.median),
		millis(after.median), burstConnections)
}

func (r *results) growthLine() string {
	ratio := func(order string) spread {
		return spreadOf(r.grown(order, largeStore, 256).ratios(r.grown(order, 0, 256), rate))
	}
	random, ascending := ratio(orderRandom), ratio(orderAscending)
	if random.n == 0 || ascending.n == 0 {
		return ""
	}
	return fmt.Sprintf("With 10 million plants in the store the rate is %s of an empty store's for random ids, "+
		"and %s for ascending ids.",
		twoDecimals(random.median), twoDecimals(ascending.median))
}

func (r *results) memoryLine() string {
	memory, wal := r.largestMemory(), r.largestWAL()
	if memory.n == 0 || wal.n == 0 {
		return ""
	}
	return fmt.Sprintf("The server uses at most %s MiB of memory, and its WAL at most %s MiB, with 10 million plants.",
		mebibytes(memory.max), mebibytes(wal.max))
}

func (r *results) startLine() string {
	s := r.startTime()
	if s.n == 0 {
		return ""
	}
	return fmt.Sprintf("The server is ready %s ms after its start with 10 million plants.", whole(s.median))
}

func (r *results) importLine() string {
	product, peer := r.imported(productName, "real"), r.imported(sqlite3Name, "real")
	if len(product) == 0 || len(peer) == 0 {
		return ""
	}
	return fmt.Sprintf("An import stores %s real plants a second, in %s times the time of `sqlite3 .import`.",
		whole(spreadOf(product.values(importRun.perSecond)).median), spreadOf(product.slower(peer)).medianText(twoDecimals))
}

func (r *results) targetLine() string {
	t := r.targets()
	if t.measured == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d [targets](performance-tables.md#targets) are reached.", t.reached, t.measured)
}
