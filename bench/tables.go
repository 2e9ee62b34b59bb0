package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const notMeasured = "Not measured in this run.\n"

// comparedSections writes, for each set, its plots and one table for each
// number of connections.
func (r *results) comparedSections() string {
	var b strings.Builder
	all := r.loads.where(func(l loadRecord) bool { return l.Phase == "compare" })
	for _, set := range []string{setShared, setPinned} {
		runs := all.where(func(l loadRecord) bool { return l.Set == set })
		if len(runs) == 0 {
			continue
		}
		b.WriteString(map[string]string{
			setShared: "### Generator and servers share the processors\n\n",
			setPinned: "### Generator and servers on processors of their own\n\n",
		}[set])
		connections := runs.distinct(func(l loadRecord) int64 { return l.Connections })
		b.WriteString(r.comparedPlots(set, connections))
		for _, n := range connections {
			fmt.Fprintf(&b, "%d connections:\n\n%s\n", n, r.comparedTable(set, n))
		}
	}
	if b.Len() == 0 {
		return notMeasured
	}
	return b.String()
}

func (r *results) comparedPlots(set string, connections []int64) string {
	var all strings.Builder
	for _, p := range []struct {
		name, title string
		of          func(loadRecord) float64
		format      func(float64) string
	}{
		{"rate", "Requests a second (more is better)", rate, whole},
		{"p99", "p99 in milliseconds (less is better)", p99, millis},
		{"processor", "Processor time a request in microseconds, server and database (less is better)", allCPU, oneDecimal},
	} {
		c := chart{title: p.title, format: p.format}
		for _, n := range connections {
			g := barGroup{title: fmt.Sprint(n, " connections")}
			for _, who := range contenders {
				g.bars = append(g.bars, bar{who.title, r.compared(set, who.name, n).spread(p.of), who.name == productName})
			}
			c.groups = append(c.groups, g)
		}
		all.WriteString(r.plot(p.name+"-"+set+".svg", c))
	}
	return all.String()
}

func (r *results) comparedTable(set string, connections int64) string {
	t := &table{}
	t.row("contender", "requests a second", "of the floor", "p50 ms", "p99 ms", "p99.9 ms", "µs of processor a request: server", "database",
		"MiB resident: server", "its most", "database", "bytes on disk a plant", "rounds that count")
	floor := r.compared(set, floorName, connections)
	for _, who := range contenders {
		runs := r.compared(set, who.name, connections)
		if len(runs) == 0 {
			continue
		}
		database, dbBytes, disk := "–", "–", "–"
		if who.name == plainpgName || who.name == productPGName {
			database, dbBytes = runs.spread(dbCPU).text(oneDecimal), runs.spread(dbMemory).text(mebibytes)
		}
		if who.name != floorName {
			disk = runs.spread(plantBytes).text(whole)
		}
		t.row(who.title, runs.spread(rate).text(whole), spreadOf(runs.ratios(floor, rate)).text(twoDecimals),
			runs.spread(p50).text(millis), runs.spread(p99).text(millis), runs.spread(p999).text(millis),
			runs.spread(serverCPU).text(oneDecimal), database,
			runs.spread(resident).text(mebibytes), runs.spread(peak).text(mebibytes), dbBytes, disk,
			fmt.Sprintf("%d of %d", len(runs.good()), len(runs)))
	}
	return t.String()
}

// burstTable shows what a burst of clients leaves behind for a lone one.
func (r *results) burstTable() string {
	t := &table{}
	t.row("client", "connections", "requests a second", "p50 ms", "p99 ms", "p50, as a multiple of that before", "rounds that count")
	before := r.phase(phaseBefore)
	for _, part := range []struct{ phase, title string }{
		{phaseBefore, "alone, before the burst"}, {phaseBurst, "the burst"}, {phaseAfter, "alone, after the burst"},
	} {
		runs := r.phase(part.phase)
		if len(runs) == 0 {
			return notMeasured
		}
		t.row(part.title, fmt.Sprint(runs[0].Connections), runs.spread(rate).text(whole), runs.spread(p50).text(millis), runs.spread(p99).text(millis),
			spreadOf(runs.ratios(before, p50)).text(twoDecimals), fmt.Sprintf("%d of %d", len(runs.good()), len(runs)))
	}
	return t.String()
}

func (r *results) growthTable() string {
	all := r.loads.where(func(l loadRecord) bool { return l.Phase == "growth" })
	if len(all) == 0 {
		return notMeasured
	}
	t := &table{}
	t.row("ids", "plants before", "connections", "requests a second", "of the empty store", "p50 ms", "p99 ms", "p99.9 ms", "µs of processor a request",
		"MiB resident", "its most", "MiB of write-ahead log, the most", "rounds that count")
	c := chart{title: "Requests a second by what the store holds already (more is better)", format: whole}
	for _, order := range []string{orderRandom, orderAscending} {
		g := barGroup{title: order + " ids"}
		for _, connections := range all.distinct(func(l loadRecord) int64 { return l.Connections }) {
			for _, before := range all.distinct(func(l loadRecord) int64 { return l.Before }) {
				runs, empty := r.grown(order, before, connections), r.grown(order, 0, connections)
				t.row(order, whole(float64(before)), fmt.Sprint(connections), runs.spread(rate).text(whole), spreadOf(runs.ratios(empty, rate)).text(twoDecimals),
					runs.spread(p50).text(millis), runs.spread(p99).text(millis), runs.spread(p999).text(millis), runs.spread(serverCPU).text(oneDecimal),
					runs.spread(resident).text(mebibytes), runs.spread(peak).text(mebibytes), runs.spread(walPeak).text(mebibytes),
					fmt.Sprintf("%d of %d", len(runs.good()), len(runs)))
				g.bars = append(g.bars, bar{whole(float64(before)) + " plants", runs.spread(rate), true})
			}
		}
		c.groups = append(c.groups, g)
	}
	return r.plot("growth.svg", c) + t.String()
}

func (r *results) boundsTable() string {
	t := &table{}
	t.row("what", "measured", "conditions")
	for _, w := range r.phase("wal").good() {
		t.row("the most that the write-ahead log took", mebibytes(float64(w.WALPeak))+" MiB",
			fmt.Sprintf("%s of continuous load, %d connections, %s ids, on %s plants, bound %s MiB, looked at every 10 ms; %s requests a second",
				fmt.Sprint(w.Generator.Micros/1e6, " s"), w.Connections, w.Order, whole(float64(w.Before)), whole(float64(w.WALBound>>20)), whole(rate(w))))
	}
	byStore := map[int64][]float64{}
	for _, s := range r.starts {
		byStore[s.Before] = append(byStore[s.Before], s.Millis)
	}
	for _, before := range slices.Sorted(maps.Keys(byStore)) {
		s := spreadOf(byStore[before])
		t.row("from the start of the process to the first 200 of /readyz", s.text(oneDecimal)+" ms",
			fmt.Sprintf("%d starts on %s plants after a stop in order, the file in the page cache, asked every millisecond", s.n, whole(float64(before))))
	}
	if len(t.rows) == 1 {
		return notMeasured
	}
	return t.String()
}

func (r *results) importTable() string {
	if len(r.imports) == 0 {
		return notMeasured
	}
	t := &table{}
	t.row("what", "rows", "rows a second", "seconds", "seconds of processor", "MiB resident, the most", "bytes on disk a plant", "imports that count")
	c := chart{title: "Rows a second of an import into an empty store (more is better)", format: whole}
	for _, source := range []struct{ name, title string }{
		{"real", "real plants"},
		{orderRandom, "made plants, random ids"},
		{orderAscending, "made plants, ascending ids"},
	} {
		g := barGroup{title: source.title}
		for _, who := range []struct{ name, title string }{{productName, "plantstore import"}, {sqlite3Name, "sqlite3 .import"}} {
			for rows, runs := range bySize(r.imported(who.name, source.name)) {
				s := spreadOf(runs.values(importRecord.perSecond))
				t.row(who.title+", "+source.title, whole(float64(rows)), s.text(whole),
					spreadOf(runs.values(func(i importRecord) float64 { return i.Seconds })).text(twoDecimals),
					spreadOf(runs.values(func(i importRecord) float64 { return i.Processor })).text(twoDecimals),
					spreadOf(runs.values(func(i importRecord) float64 { return float64(i.Peak) })).text(mebibytes),
					spreadOf(runs.values(func(i importRecord) float64 { return float64(i.DiskBytes) / float64(i.Rows) })).text(whole),
					fmt.Sprint(len(runs)))
				g.bars = append(g.bars, bar{fmt.Sprintf("%s, %s rows", who.title, whole(float64(rows))), s, who.name == productName})
			}
		}
		c.groups = append(c.groups, g)
	}
	return r.plot("import.svg", c) + t.String()
}

// bySize yields the imports of each number of rows, the smallest first.
func bySize(l imports) func(func(int64, imports) bool) {
	sizes := map[int64]imports{}
	for _, r := range l {
		sizes[r.Rows] = append(sizes[r.Rows], r)
	}
	return func(yield func(int64, imports) bool) {
		for _, rows := range slices.Sorted(maps.Keys(sizes)) {
			if !yield(rows, sizes[rows]) {
				return
			}
		}
	}
}

func (r *results) machineTable() string {
	var all strings.Builder
	for i, m := range r.machines {
		if i > 0 {
			all.WriteString("\n")
		}
		t := &table{}
		t.row("what", "value")
		t.row("processors", fmt.Sprintf("%d × %s", m.Cores, m.Processor))
		t.row("memory", mebibytes(float64(m.MemoryBytes))+" MiB")
		t.row("system", m.System+", "+m.Kernel)
		t.row("file system", m.FileSystem)
		t.row("4 KiB appended and fsync, median", whole(m.FsyncMicros)+" µs")
		t.row("Plant Store", m.Commit)
		for _, name := range slices.Sorted(maps.Keys(m.Versions)) {
			t.row(name, m.Versions[name])
		}
		t.row("measured in each run", fmt.Sprintf("%.0f s", m.Seconds))
		all.WriteString(t.String())
	}
	stolen := spreadOf(r.loads.values(func(l loadRecord) float64 { return 100 * l.Stolen }))
	busy := spreadOf(r.loads.values(func(l loadRecord) float64 { return l.LoadBefore }))
	if stolen.n > 0 {
		fmt.Fprintf(&all, "\nThe host took away %s %% of the processors' time during a run; the load average just before one was %s, which includes the run before it.\n",
			stolen.text(oneDecimal), busy.text(twoDecimals))
	}
	return all.String()
}

// faultList names every run that does not count.
func (r *results) faultList() string {
	var b strings.Builder
	for _, l := range r.loads {
		if l.Fault != "" {
			fmt.Fprintf(&b, "- %s, %s, round %d, %s, %d connections, %s ids on %s plants: %s\n",
				l.Phase, l.Set, l.Round+1, l.Contender, l.Connections, l.Order, whole(float64(l.Before)), oneLine(l.Fault))
		}
	}
	for _, i := range r.imports {
		if i.Fault != "" {
			fmt.Fprintf(&b, "- import, round %d, %s, %s: %s\n", i.Round+1, i.Contender, i.Source, oneLine(i.Fault))
		}
	}
	if b.Len() == 0 {
		return "None: every run counts.\n"
	}
	return b.String()
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
