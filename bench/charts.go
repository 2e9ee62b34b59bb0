package main

import (
	"fmt"
	"strings"
)

// mainCharts returns the Markdown of the four charts of the first page.
func (r *results) mainCharts() string {
	return r.comparedChart("rate", "Requests a second (more is better)", rate, whole) +
		r.comparedChart("p99", "99th percentile of the latency in milliseconds (less is better)", p99, millis) +
		r.growthChart() + r.importChart()
}

// comparedChart has a bar for each contender and number of connections.
func (r *results) comparedChart(name, title string, of func(loadRun) float64, format func(float64) string) string {
	connections := r.comparedRuns(setShared).distinct(func(l loadRun) int64 { return l.Connections })
	c := chart{title: title, format: format}
	for _, n := range connections {
		g := barGroup{title: fmt.Sprint(n, " connections")}
		for _, contender := range contenders {
			runs := r.compared(setShared, contender.name, n)
			if contender.name == citusName && len(runs) == 0 { // it needs a cluster
				continue
			}
			accent := strings.HasPrefix(contender.name, productName)
			g.bars = append(g.bars, bar{contender.title, runs.spread(of), accent})
		}
		c.groups = append(c.groups, g)
	}
	return r.addChart(name+"-"+setShared+".svg", c)
}

// growthChart has a bar for each initial number of plants.
func (r *results) growthChart() string {
	c := chart{title: "Requests a second by plants in the store (more is better)", format: whole}
	for _, order := range []string{orderRandom, orderAscending} {
		g := barGroup{title: order + " ids"}
		for _, run := range r.growthRuns(order) {
			g.bars = append(g.bars, bar{whole(float64(run.before)) + " plants", run.loads.spread(rate), true})
		}
		c.groups = append(c.groups, g)
	}
	return r.addChart("growth.svg", c)
}

// importChart has a bar for each import of the same file.
func (r *results) importChart() string {
	c := chart{title: "Rows a second of an import into an empty store (more is better)", format: whole}
	for _, source := range importSources {
		g := barGroup{title: source.title}
		for _, i := range r.importsOf(source.name) {
			label := fmt.Sprintf("%s, %s rows", i.title, whole(float64(i.rows)))
			g.bars = append(g.bars, bar{label, spreadOf(i.runs.values(importRun.perSecond)), i.contender == productName})
		}
		c.groups = append(c.groups, g)
	}
	return r.addChart("import.svg", c)
}
