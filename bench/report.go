package main

import (
	_ "embed" // for the templates
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
)

var (
	//go:embed report.tmpl
	reportText string

	//go:embed tables.tmpl
	tablesText string

	//go:embed capacity.tmpl
	capacityText string
)

// results are the measurements of raw.jsonl by kind.
type results struct {
	machines  []*machine
	loads     loads
	imports   imports
	starts    []*startRun
	searches  []*searchRun
	syncs     []*syncRun
	microRuns string           // output of the micro benchmarks
	charts    map[string]chart // by file name, filled while the pages are written
}

// imports are the runs of importOnce.
type imports []importRun

func (l imports) values(of func(importRun) float64) []float64 {
	var values []float64
	for _, r := range l {
		values = append(values, of(r))
	}
	return values
}

// slower divides the time of each import by that of the other one of its round.
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

// writeReport writes the pages and the charts from the measurements in out.
func writeReport(out string) error {
	dir := filepath.Join(out, "performance")
	all, err := readRaw(filepath.Join(dir, rawName))
	if err != nil {
		return err
	}
	r := collect(all)
	if micro := filepath.Join(dir, microName); fileExists(micro) {
		runs, err := os.ReadFile(micro)
		if err != nil {
			return err
		}
		r.microRuns = string(runs)
	}
	for name, text := range map[string]string{
		"performance.md": reportText, "performance-tables.md": tablesText, "capacity.md": capacityText,
	} {
		page, err := r.page(text)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, name), page, 0o644); err != nil { //nolint:gosec // results are public
			return err
		}
	}
	for name, c := range r.charts {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.svg()), 0o644); err != nil { //nolint:gosec // results are public
			return err
		}
	}
	return nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func collect(all []measurement) *results {
	r := &results{charts: map[string]chart{}}
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
		case line.Search != nil:
			r.searches = append(r.searches, line.Search)
		case line.Sync != nil:
			r.syncs = append(r.syncs, line.Sync)
		}
	}
	return r
}

// page executes the template of a page.
func (r *results) page(text string) ([]byte, error) {
	t, err := template.New("page").Funcs(template.FuncMap{
		"charts":      r.mainCharts,
		"summary":     r.summary,
		"targets":     r.targetTable,
		"compared":    r.comparedSections,
		"burst":       r.burstTable,
		"growth":      r.growthTable,
		"imports":     r.importTable,
		"constrained": r.constrainedTable,
		"search":      r.searchTable,
		"webhook":     r.webhookTable,
		"client":      r.clientTable,
		"rounds":      r.roundsLine,
		"machines":    r.machineTable,
		"check":       r.modelCheck,
		"plan":        r.planTable,
		"invalid":     r.invalidRuns,
	}).Parse(text)
	if err != nil {
		return nil, err
	}
	var page strings.Builder
	err = t.Execute(&page, nil)
	return []byte(page.String()), err
}

// compared returns the runs of one contender in the comparison.
func (r *results) compared(set, contender string, connections int64) loads {
	return r.loads.where(func(l loadRun) bool {
		return l.Phase == "compare" && l.Set == set && l.Contender == contender && l.Connections == connections
	})
}

func (r *results) grown(order string, before, connections int64) loads {
	return r.loads.where(func(l loadRun) bool {
		return l.Phase == "growth" && l.Order == order && l.Before == before && l.Connections == connections
	})
}

// phase returns the runs of a phase.
func (r *results) phase(name string) loads {
	return r.loads.where(func(l loadRun) bool { return l.Phase == name })
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

// distinct returns the distinct values of the runs in ascending order.
func (l loads) distinct(of func(loadRun) int64) []int64 {
	seen := map[int64]bool{}
	for _, r := range l {
		seen[of(r)] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// addChart keeps a chart for writeReport and returns the Markdown of its image, or
// "" if the chart is empty.
func (r *results) addChart(name string, c chart) string {
	if c.svg() == "" {
		return ""
	}
	r.charts[name] = c
	return fmt.Sprintf("![%s](performance/%s)\n\n", c.title, name)
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
