package main

import (
	_ "embed" // for the template
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

//go:embed report.tmpl
var reportText string

// results are the measurements of raw.jsonl by kind.
type results struct {
	machine *machine // nil: not measured
	loads   loads
}

// writeReport writes the page from the measurements in out.
func writeReport(out string) error {
	all, err := readRaw(filepath.Join(out, "performance", rawName))
	if err != nil {
		return err
	}
	page, err := collect(all).page()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "performance.md"), page, 0o644) //nolint:gosec // results are public
}

func collect(all []measurement) *results {
	r := &results{}
	for _, line := range all {
		switch {
		case line.Machine != nil:
			r.machine = line.Machine
		case line.Load != nil:
			r.loads = append(r.loads, *line.Load)
		}
	}
	return r
}

// page executes the template of the page.
func (r *results) page() ([]byte, error) {
	t, err := template.New("page").Funcs(template.FuncMap{
		"summary":  r.summary,
		"targets":  r.targetTable,
		"compared": r.comparedSections,
		"machines": r.machineTable,
		"invalid":  r.invalidRuns,
	}).Parse(reportText)
	if err != nil {
		return nil, err
	}
	var page strings.Builder
	err = t.Execute(&page, nil)
	return []byte(page.String()), err
}

// compared returns the runs of one contender.
func (r *results) compared(set, contender string, connections int64) loads {
	return r.loads.where(func(l loadRun) bool {
		return l.Set == set && l.Contender == contender && l.Connections == connections
	})
}

// ratio returns the ratios of a contender to another one, by round.
func (r *results) ratio(set, of, to string, connections int64, value func(loadRun) float64) spread {
	return spreadOf(r.compared(set, of, connections).ratios(r.compared(set, to, connections), value))
}

const notMeasured = "Not measured.\n"

// summary returns the main results as a list, a line each.
func (r *results) summary() string {
	const connections = 256
	faster := func(of, to string) string {
		return r.ratio(setShared, of, to, connections, rate).medianText(twoDecimals)
	}
	few, many := r.compared(setShared, productName, 64), r.compared(setShared, productName, connections)
	if many.spread(rate).n == 0 || r.machine == nil {
		return notMeasured
	}
	lines := []string{
		fmt.Sprintf("**%s plants a second** on SQLite with 256 clients, on %d cores that the load generator shares. "+
			"Each response follows a sync.", many.spread(rate).medianText(whole), r.machine.Cores),
		fmt.Sprintf("That is %s of the floor, %s times plain SQLite and %s times PocketBase.",
			faster(productName, floorName), faster(productName, plainName), faster(productName, pocketbaseName)),
		fmt.Sprintf("On PostgreSQL: %s plants a second, %s of the floor and %s times plain PostgreSQL.",
			r.compared(setShared, productPGName, connections).spread(rate).medianText(whole), faster(productPGName, floorName),
			faster(productPGName, plainpgName)),
		fmt.Sprintf("Latency on SQLite: p50 %s ms and p99 %s ms with 64 clients, %s ms and %s ms with 256.",
			few.spread(p50).medianText(millis), few.spread(p99).medianText(millis), many.spread(p50).medianText(millis),
			many.spread(p99).medianText(millis)),
	}
	return "- " + strings.Join(lines, "\n- ") + "\n"
}

// target is a limit of the ratio of two contenders.
type target struct {
	of, to      string
	connections []int64
	value       func(loadRun) float64
	name        string // name of value
	least       bool   // the ratio must be at least the limit, not at most
	limit       float64
}

var (
	both    = connectionCounts
	targets = []target{
		{productName, floorName, both[:1], rate, "rate", true, 0.50},
		{productName, floorName, both[1:], rate, "rate", true, 0.60},
		{productName, floorName, both, p99, "p99", false, 1.5},
		{productName, pocketbaseName, both, rate, "rate", true, 6},
		{productName, plainName, both, rate, "rate", true, 4},
		{productName, lastName, both, rate, "rate", true, 0.95},
		{productPGName, floorName, both[1:], rate, "rate", true, 0.40},
		{productPGName, plainpgName, both, rate, "rate", true, 3},
		{hookName, productName, both, rate, "rate", true, 0.9},
		{hookPGName, productPGName, both, rate, "rate", true, 0.9},
	}
)

// targetTable compares measurements with targets. The median counts.
func (r *results) targetTable() string {
	t := &table{}
	t.row("target", "limit", "measured", "result")
	for _, target := range targets {
		for _, connections := range target.connections {
			s := r.ratio(setShared, target.of, target.to, connections, target.value)
			name := fmt.Sprintf("%s of %s ÷ %s, %d connections", target.name, target.of, target.to, connections)
			t.row(name, target.limitText(), s.text(twoDecimals), target.result(s))
		}
	}
	return t.String()
}

func (t target) limitText() string {
	if t.least {
		return "≥ " + twoDecimals(t.limit)
	}
	return "≤ " + twoDecimals(t.limit)
}

// result reports a missed target as a percentage of the limit.
func (t target) result(s spread) string {
	missed := (s.median - t.limit) / t.limit
	if t.least {
		missed = -missed
	}
	switch {
	case s.n == 0:
		return "not measured"
	case missed <= 0:
		return "reached"
	}
	return fmt.Sprintf("**missed** by %.0f%%", max(1, missed*100))
}

// comparedSections returns the tables of the comparison: rates for each number of connections, and for the largest
// number also resources, and rates on separate processors.
func (r *results) comparedSections() string {
	if len(r.loads) == 0 {
		return notMeasured
	}
	var b strings.Builder
	for _, n := range connectionCounts {
		fmt.Fprintf(&b, "%d connections; generator and servers share the processors:\n\n%s\n", n, r.rateTable(setShared, n))
	}
	many := connectionCounts[len(connectionCounts)-1]
	fmt.Fprintf(&b, "%s\n%d connections; generator and servers on separate processors:\n\n%s\n",
		r.resourceTable(many), many, r.rateTable(setPinned, many))
	return strings.TrimSuffix(b.String(), "\n")
}

// rateTable has the rates and latencies of the contenders.
func (r *results) rateTable(set string, connections int64) string {
	t := &table{}
	t.row("contender", "requests a second", "÷ floor", "p50 ms", "p99 ms", "p99.9 ms")
	for _, c := range contenders {
		runs := r.compared(set, c.name, connections)
		if len(runs) == 0 || c.name == lastName { // the targets have its ratio
			continue
		}
		t.row(c.title, runs.spread(rate).text(whole),
			r.ratio(set, c.name, floorName, connections, rate).medianText(twoDecimals),
			runs.spread(p50).medianText(millis), runs.spread(p99).text(millis), runs.spread(p999).medianText(millis))
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
		t.row(c.title, runs.spread(serverCPU).medianText(oneDecimal), dashed(runs, dbCPU, oneDecimal),
			runs.spread(peak).medianText(mebibytes), dashed(runs, dbMemory, mebibytes), dashed(runs, plantBytes, whole))
	}
	return t.String()
}

// dashed formats the median of a value, or a dash if it is 0 in all runs: the contender has no such part.
func dashed(runs loads, value func(loadRun) float64, format func(float64) string) string {
	s := runs.spread(value)
	if s.max == 0 {
		return "–"
	}
	return s.medianText(format)
}

// machineTable describes the machine that the measurements come from.
func (r *results) machineTable() string {
	m := r.machine
	if m == nil {
		return notMeasured
	}
	t := &table{}
	t.row("property", "value")
	t.row("processors", fmt.Sprintf("%d × %s", m.Cores, m.Processor))
	t.row("memory", mebibytes(float64(m.MemoryBytes))+" MiB")
	t.row("system", m.System)
	t.row("kernel", m.Kernel)
	t.row("file system", m.FileSystem)
	t.row("append of 4 KiB and fsync, median", whole(m.FsyncMicros)+" µs")
	t.row("Plant Store", m.Commit)
	t.row("measured in each run", fmt.Sprintf("%.0f s", m.Seconds))
	for _, name := range slices.Sorted(maps.Keys(m.Versions)) {
		t.row(name, m.Versions[name])
	}
	stolen := spreadOf(r.loads.values(func(l loadRun) float64 { return 100 * l.Stolen }))
	busy := spreadOf(r.loads.values(func(l loadRun) float64 { return l.LoadBefore }))
	return t.String() + fmt.Sprintf("\nThe host used %s %% of the processors' time for others during a run. "+
		"The load average before a run was\n%s, which includes the previous run.\n",
		stolen.text(oneDecimal), busy.text(twoDecimals))
}

// invalidRuns lists the runs with a fault.
func (r *results) invalidRuns() string {
	var b strings.Builder
	for _, l := range r.loads {
		if l.Fault != "" {
			fmt.Fprintf(&b, "- %s, round %d, %s, %d connections: %s\n", l.Set, l.Round+1, l.Contender, l.Connections,
				strings.Join(strings.Fields(l.Fault), " "))
		}
	}
	if b.Len() == 0 {
		return "None: every run is valid.\n"
	}
	return b.String()
}

// table is a Markdown table. Its first row is the header.
type table struct{ rows [][]string }

func (t *table) row(cells ...string) { t.rows = append(t.rows, cells) }

func (t *table) String() string {
	var b strings.Builder
	for i, cells := range t.rows {
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(cells)) + "|\n")
		}
	}
	return b.String()
}
