package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

const notMeasured = "Not measured.\n"

// comparedRuns returns the runs of the comparison with one set of processors.
func (r *results) comparedRuns(set string) loads {
	return r.loads.where(func(l loadRun) bool { return l.Phase == "compare" && l.Set == set })
}

// comparedSections returns the tables of the comparison: for each number of connections, and for separate processors.
func (r *results) comparedSections() string {
	shared, pinned := r.comparedRuns(setShared), r.comparedRuns(setPinned)
	if len(shared)+len(pinned) == 0 {
		return notMeasured
	}
	var b strings.Builder
	for _, n := range shared.distinct(func(l loadRun) int64 { return l.Connections }) {
		fmt.Fprintf(&b, "%d connections; generator and servers share the processors:\n\n%s\n%s\n", n, r.rateTable(n),
			r.resourceTable(n))
	}
	if len(pinned) > 0 {
		b.WriteString("Generator and servers on separate processors:\n\n" + r.pinnedTable() + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// roundsLine has the numbers of rounds.
func (r *results) roundsLine() string {
	count := func(runs loads) int { return len(runs.distinct(func(l loadRun) int64 { return int64(l.Round) })) }
	shared, pinned := count(r.comparedRuns(setShared)), count(r.comparedRuns(setPinned))
	if shared == 0 {
		return ""
	}
	others := count(r.loads.where(func(l loadRun) bool { return l.Phase != "compare" }))
	return fmt.Sprintf("\nThe comparison has %d rounds, %d on separate processors, and the other phases have %d.",
		shared, pinned, others)
}

// rateTable has the rates and latencies of the contenders. The targets have the ratio to the earlier version.
func (r *results) rateTable(connections int64) string {
	t := &table{}
	t.row("contender", "requests a second", "÷ floor", "p50 ms", "p99 ms", "p99.9 ms")
	floor := r.compared(setShared, floorName, connections)
	for _, c := range contenders {
		runs := r.compared(setShared, c.name, connections)
		if len(runs) == 0 || c.name == lastName {
			continue
		}
		t.row(c.title, runs.spread(rate).text(whole), spreadOf(runs.ratios(floor, rate)).medianText(twoDecimals),
			runs.spread(p50).medianText(millis), runs.spread(p99).text(millis), runs.spread(p999).medianText(millis))
	}
	return t.String()
}

// pinnedTable has the rates and latencies of the contenders on separate processors.
func (r *results) pinnedTable() string {
	header, t := []string{"contender"}, &table{}
	connections := r.comparedRuns(setPinned).distinct(func(l loadRun) int64 { return l.Connections })
	for _, n := range connections {
		header = append(header, fmt.Sprintf("requests a second, %d connections", n), "÷ floor", "p99 ms")
	}
	t.row(header...)
	for _, c := range contenders {
		cells := []string{c.title}
		for _, n := range connections {
			runs := r.compared(setPinned, c.name, n)
			if len(runs) == 0 || c.name == lastName {
				continue
			}
			ratios := runs.ratios(r.compared(setPinned, floorName, n), rate)
			cells = append(cells, runs.spread(rate).medianText(whole), spreadOf(ratios).medianText(twoDecimals),
				runs.spread(p99).medianText(millis))
		}
		if len(cells) > 1 {
			t.row(cells...)
		}
	}
	return t.String()
}

// resourceTable has the processor time, memory and disk space of the contenders.
func (r *results) resourceTable(connections int64) string {
	t := &table{}
	t.row("contender", "server µs/request", "database µs/request", "server MiB", "database MiB", "disk bytes/plant")
	for _, c := range contenders {
		runs := r.compared(setShared, c.name, connections)
		if len(runs) == 0 || c.name == lastName {
			continue
		}
		databaseTime, databaseMemory, disk := "–", "–", "–"
		if c.name == plainpgName || c.name == productPGName {
			databaseTime = runs.spread(dbCPU).medianText(oneDecimal)
			databaseMemory = runs.spread(dbMemory).medianText(mebibytes)
		}
		if c.name != floorName && c.name != citusName {
			disk = runs.spread(plantBytes).medianText(whole)
		}
		t.row(c.title, runs.spread(serverCPU).medianText(oneDecimal), databaseTime,
			runs.spread(peak).medianText(mebibytes), databaseMemory, disk)
	}
	return t.String()
}

// burstTable compares a single client before and after a burst.
func (r *results) burstTable() string {
	t := &table{}
	t.row("phase", "connections", "requests a second", "p50 ms", "p99 ms", "p50 ÷ before")
	before := r.phase(phaseBefore)
	for _, phase := range []string{phaseBefore, phaseBurst, phaseAfter} {
		runs := r.phase(phase)
		if len(runs) == 0 {
			return notMeasured
		}
		t.row(phase, fmt.Sprint(runs[0].Connections), runs.spread(rate).text(whole), runs.spread(p50).medianText(millis),
			runs.spread(p99).text(millis), spreadOf(runs.ratios(before, p50)).text(twoDecimals))
	}
	return t.String() + r.aloneLine()
}

// growthRun has the runs with one initial number of plants.
type growthRun struct {
	before, connections int64
	loads               loads
}

// growthRuns returns the runs with ids of one order, the smallest store first.
func (r *results) growthRuns(order string) []growthRun {
	all := r.phase("growth")
	var runs []growthRun
	for _, connections := range all.distinct(func(l loadRun) int64 { return l.Connections }) {
		for _, before := range all.distinct(func(l loadRun) int64 { return l.Before }) {
			runs = append(runs, growthRun{before, connections, r.grown(order, before, connections)})
		}
	}
	return runs
}

func (r *results) growthTable() string {
	if len(r.phase("growth")) == 0 {
		return notMeasured
	}
	t := &table{}
	t.row("ids", "plants before", "connections", "requests a second", "÷ empty store", "p50 ms", "p99 ms",
		"server µs/request", "server MiB", "WAL MiB")
	for _, order := range []string{orderRandom, orderAscending} {
		for _, g := range r.growthRuns(order) {
			if len(g.loads) == 0 { // only the largest number of connections measures every store
				continue
			}
			empty := r.grown(order, 0, g.connections)
			t.row(order, whole(float64(g.before)), fmt.Sprint(g.connections), g.loads.spread(rate).text(whole),
				spreadOf(g.loads.ratios(empty, rate)).text(twoDecimals), g.loads.spread(p50).medianText(millis),
				g.loads.spread(p99).text(millis), g.loads.spread(serverCPU).medianText(oneDecimal),
				g.loads.spread(peak).medianText(mebibytes), g.loads.spread(walPeak).medianText(mebibytes))
		}
	}
	return t.String()
}

// importSources are the files that the benchmark imports.
var importSources = []struct{ name, title string }{
	{"real", "real plants"},
	{orderRandom, "generated plants, random ids"},
	{orderAscending, "generated plants, ascending ids"},
}

// importGroup has the imports of one file by one program.
type importGroup struct {
	contender, title string
	rows             int64
	runs             imports
}

// importsOf returns the imports of a source by program, the smallest file first.
func (r *results) importsOf(source string) []importGroup {
	var groups []importGroup
	for _, c := range []struct{ name, title string }{
		{productName, "plantstore import"},
		{sqlite3Name, "sqlite3 .import"},
	} {
		sizes := map[int64]imports{}
		for _, i := range r.imported(c.name, source) {
			sizes[i.Rows] = append(sizes[i.Rows], i)
		}
		for _, rows := range slices.Sorted(maps.Keys(sizes)) {
			groups = append(groups, importGroup{c.name, c.title, rows, sizes[rows]})
		}
	}
	return groups
}

func (r *results) importTable() string {
	if len(r.imports) == 0 {
		return notMeasured
	}
	t := &table{}
	t.row("import", "rows", "rows a second", "seconds", "peak MiB", "disk bytes/plant")
	for _, source := range importSources {
		for _, i := range r.importsOf(source.name) {
			t.row(i.title+", "+source.title, whole(float64(i.rows)), spreadOf(i.runs.values(importRun.perSecond)).text(whole),
				spreadOf(i.runs.values(func(i importRun) float64 { return i.Seconds })).text(twoDecimals),
				spreadOf(i.runs.values(func(i importRun) float64 { return float64(i.Peak) })).text(mebibytes),
				spreadOf(i.runs.values(func(i importRun) float64 { return float64(i.DiskBytes) / float64(i.Rows) })).text(whole))
		}
	}
	return t.String()
}

// machineTable describes the machines, and times, that measurements come from.
func (r *results) machineTable() string {
	if len(r.machines) == 0 {
		return notMeasured
	}
	const sessionsMax = 4 // that fit a screen
	text, first := "", 1
	for machines := range slices.Chunk(r.machines, sessionsMax) {
		text += sessionTable(first, machines).String() + "\n"
		first += len(machines)
	}
	return strings.TrimSuffix(text, "\n") + r.noiseLine()
}

// sessionTable has a column for each of some sessions, whose numbers begin with first.
func sessionTable(first int, machines []*machine) *table {
	rows := [][]string{
		{"property"},
		{"processors"},
		{"memory"},
		{"system"},
		{"kernel"},
		{"file system"},
		{"append of 4 KiB and fsync, median"},
		{"Plant Store"},
		{"measured in each run"},
	}
	names := map[string]bool{}
	for i, m := range machines {
		for row, value := range []string{
			fmt.Sprint("session ", first+i),
			fmt.Sprintf("%d × %s", m.Cores, m.Processor), mebibytes(float64(m.MemoryBytes)) + " MiB",
			m.System, m.Kernel, m.FileSystem,
			whole(m.FsyncMicros) + " µs", m.Commit, fmt.Sprintf("%.0f s", m.Seconds),
		} {
			rows[row] = append(rows[row], value)
		}
		for name := range m.Versions {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		row := []string{name}
		for _, m := range machines {
			version := m.Versions[name]
			if version == "" {
				version = "–"
			}
			row = append(row, version)
		}
		rows = append(rows, row)
	}
	return &table{rows: rows}
}

// noiseLine has the influence of other load on the machine.
func (r *results) noiseLine() string {
	stolen := spreadOf(r.loads.values(func(l loadRun) float64 { return 100 * l.Stolen }))
	busy := spreadOf(r.loads.values(func(l loadRun) float64 { return l.LoadBefore }))
	if stolen.n == 0 {
		return ""
	}
	return fmt.Sprintf("\nThe host used %s %% of the processors' time for others during a run. "+
		"The load average before a run was %s, which includes the previous run.\n",
		stolen.text(oneDecimal), busy.text(twoDecimals))
}

// invalidRuns lists the runs with a fault.
func (r *results) invalidRuns() string {
	var b strings.Builder
	for _, l := range r.loads {
		if l.Fault != "" {
			fmt.Fprintf(&b, "- %s, %s, round %d, %s, %d connections, %s ids, %s plants: %s\n",
				l.Phase, l.Set, l.Round+1, l.Contender, l.Connections, l.Order, whole(float64(l.Before)), oneLine(l.Fault))
		}
	}
	for _, i := range r.imports {
		if i.Fault != "" {
			fmt.Fprintf(&b, "- import, round %d, %s, %s: %s\n", i.Round+1, i.Contender, i.Source, oneLine(i.Fault))
		}
	}
	if b.Len() == 0 {
		return "None: every run is valid.\n"
	}
	return b.String()
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
