package main

import (
	_ "embed" // for report.tmpl
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

//go:embed report.tmpl
var reportText string

// results are the raw rounds, read back.
type results struct {
	machines []*machine
	loads    loads
	imports  imports
	starts   []*startRecord
	micro    string // what benchstat makes of the micro benchmarks
	plots    map[string]chart
}

// imports are imports of files.
type imports []importRecord

func (l imports) values(of func(importRecord) float64) []float64 {
	var values []float64
	for _, r := range l {
		values = append(values, of(r))
	}
	return values
}

// slower divides the time of each import by that of the other in its round.
func (l imports) slower(other imports) []float64 {
	var ratios []float64
	for _, r := range l {
		for _, o := range other {
			if o.Round == r.Round {
				ratios = append(ratios, r.Seconds/o.Seconds)
			}
		}
	}
	return ratios
}

// writeReport writes the page and the plots from the raw rounds.
func writeReport(out string) error {
	dir := filepath.Join(out, "performance")
	all, err := readRaw(filepath.Join(dir, rawName))
	if err != nil {
		return err
	}
	r := collect(all)
	if micro := filepath.Join(dir, microName); fileExists(micro) {
		summary, err := exec.Command("go", "tool", "benchstat", micro).Output() //nolint:noctx // it takes a moment
		if err != nil {
			return fmt.Errorf("benchstat: %w", err)
		}
		r.micro = withoutPaths(string(summary), micro)
	}
	page, err := r.page()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(r.plots)) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(r.plots[name].svg()), 0o644); err != nil { //nolint:gosec // results for everybody
			return err
		}
	}
	return os.WriteFile(filepath.Join(out, "performance.md"), page, 0o644) //nolint:gosec // results for everybody
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// withoutPaths leaves of a path in benchstat's heading only the file's name.
func withoutPaths(summary, path string) string {
	return strings.ReplaceAll(summary, path, filepath.Base(path))
}

func collect(all []record) *results {
	r := &results{plots: map[string]chart{}}
	for _, line := range all {
		switch {
		case line.Machine != nil:
			r.machines = append(r.machines, line.Machine)
		case line.Load != nil:
			r.loads = append(r.loads, *line.Load)
		case line.Import != nil:
			r.imports = append(r.imports, *line.Import)
		case line.Start != nil:
			r.starts = append(r.starts, line.Start)
		}
	}
	return r
}

func (r *results) page() ([]byte, error) {
	t, err := template.New("report").Funcs(template.FuncMap{
		"reach":    r.reachTable,
		"compared": r.comparedSections,
		"burst":    r.burstTable,
		"growth":   r.growthTable,
		"bounds":   r.boundsTable,
		"imports":  r.importTable,
		"micro":    func() string { return r.micro },
		"machines": r.machineTable,
		"faults":   r.faultList,
	}).Parse(reportText)
	if err != nil {
		return nil, err
	}
	var page strings.Builder
	err = t.Execute(&page, nil)
	return []byte(page.String()), err
}

// compared are the runs of one contender in the comparison.
func (r *results) compared(set, contender string, connections int64) loads {
	return r.loads.where(func(l loadRecord) bool {
		return l.Phase == "compare" && l.Set == set && l.Contender == contender && l.Connections == connections
	})
}

func (r *results) grown(order string, before, connections int64) loads {
	return r.loads.where(func(l loadRecord) bool {
		return l.Phase == "growth" && l.Order == order && l.Before == before && l.Connections == connections
	})
}

// phase are the runs of a phase that measures one thing.
func (r *results) phase(name string) loads {
	return r.loads.where(func(l loadRecord) bool { return l.Phase == name })
}

func (r *results) imported(contender, source string) imports {
	var found imports
	for _, i := range r.imports {
		if i.Contender == contender && i.Source == source && i.Fault == "" {
			found = append(found, i)
		}
	}
	return found
}

// distinct returns the different values of the runs, in order.
func (l loads) distinct(of func(loadRecord) int64) []int64 {
	seen := map[int64]bool{}
	for _, r := range l {
		seen[of(r)] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// plot keeps a chart to be written, and returns the Markdown that shows it.
func (r *results) plot(name string, c chart) string {
	if c.svg() == "" {
		return ""
	}
	r.plots[name] = c
	return fmt.Sprintf("![%s](performance/%s)\n\n", c.title, name)
}

// table is a Markdown table; its first row is the head.
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
