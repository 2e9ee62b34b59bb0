package main

import (
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
)

func TestSVGIsWellFormed(t *testing.T) {
	t.Parallel()
	c := chart{title: `p99 <of> "all" & more`, format: whole, groups: []barGroup{
		{"64 connections", []bar{{"ours", spread{5, 1, 9, 3}, true}, {"not measured", spread{}, false}, {"once <b>", spread{4, 4, 4, 1}, false}}},
		{"nobody", nil},
	}}
	svg := c.svg()
	in := xml.NewDecoder(strings.NewReader(svg))
	elements := map[string]int{}
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		if start, ok := token.(xml.StartElement); ok {
			elements[start.Name.Local]++
		}
	}
	if elements["svg"] != 1 || elements["rect"] != 2 || elements["path"] != 1 || elements["script"] != 0 {
		t.Errorf("elements: %v, want one svg, two bars, one whisker", elements)
	}
	if strings.Contains(svg, "nobody") || strings.Contains(svg, "not measured") {
		t.Error("a bar without a value is drawn")
	}
	if got := (chart{groups: []barGroup{{"none", []bar{{}}}}}).svg(); got != "" {
		t.Errorf("a chart without values is drawn: %s", got)
	}
}

func TestReachTable(t *testing.T) {
	t.Parallel()
	run := func(contender string, round int, requests, p99 int64) loadRecord {
		return loadRecord{
			Phase: "compare", Set: setShared, Round: round, Contender: contender, Connections: 256,
			Generator: wrkResult{Requests: requests, Micros: 1e6, P99: p99},
		}
	}
	r := collect(nil)
	r.loads = loads{
		run(floorName, 0, 1000, 100), run(productName, 0, 540, 200), run(plainName, 0, 100, 1),
		run(floorName, 1, 1000, 100), run(productName, 1, 540, 120), run(plainName, 1, 108, 1),
	}
	got := r.reachTable()
	for _, want := range []string{
		"| plantstore: requests a second, as a multiple of floor, 256 connections | ≥ 0.60 | 0.54 | **missed** by 10% |",
		"| plantstore: requests a second, as a multiple of plain, 256 connections | ≥ 4.00 | 5.20 (5.00–5.40) | reached |",
		"| p99, as a multiple of the floor's, 256 connections | ≤ 1.50 | 1.60 (1.20–2.00) | **missed** by 7% |",
		"| plantstore: requests a second, as a multiple of pocketbase, 256 connections | ≥ 6.00 | – | not measured |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no line\n%s\nin\n%s", want, got)
		}
	}
}

func TestPageOfNothing(t *testing.T) {
	t.Parallel()
	page, err := collect(nil).page()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(page), strings.TrimSpace(notMeasured)); n != 6 {
		t.Errorf("%d sections are not measured, want 6:\n%s", n, page)
	}
}

// Rounds that are added are rounds of their own.
func TestRawRoundsGoOn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), rawName)
	for want, add := range []bool{false, true, true} {
		b := &bench{config: config{add: add}}
		if err := b.openRaw(path); err != nil {
			t.Fatal(err)
		}
		if b.round != want {
			t.Errorf("run %d begins with round %d", want, b.round)
		}
		if err := b.note(record{Load: &loadRecord{Round: b.round}}); err != nil {
			t.Fatal(err)
		}
		if err := b.close(); err != nil {
			t.Fatal(err)
		}
	}
	all, err := readRaw(path)
	if err != nil || len(all) != 3 || all[2].Load.Round != 2 {
		t.Errorf("readRaw = %+v, %v, want three rounds", all, err)
	}
}
