package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestSVGIsWellFormed(t *testing.T) {
	t.Parallel()
	c := chart{title: `p99 <of> "all" & more`, format: whole, groups: []barGroup{
		{"64 connections", []bar{
			{"product", spread{5, 1, 9, 3}, true},
			{"not measured", spread{}, false},
			{"once <b>", spread{4, 4, 4, 1}, false},
		}},
		{"empty group", nil},
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
	if strings.Contains(svg, "empty group") || strings.Contains(svg, "not measured") {
		t.Error("the chart has a bar without a value")
	}
	if got := (chart{groups: []barGroup{{"none", []bar{{}}}}}).svg(); got != "" {
		t.Errorf("svg of a chart without values = %s, want none", got)
	}
}

func TestTargetTable(t *testing.T) {
	t.Parallel()
	run := func(contender string, round int, requests, p99 int64) loadRun {
		return loadRun{
			Phase: "compare", Set: setShared, Round: round, Contender: contender, Connections: 256,
			Generator: wrkResult{Requests: requests, Micros: 1e6, P99: p99},
		}
	}
	r := collect(nil)
	r.loads = loads{
		run(floorName, 0, 1000, 100), run(productName, 0, 540, 200), run(plainName, 0, 100, 1),
		run(floorName, 1, 1000, 100), run(productName, 1, 540, 120), run(plainName, 1, 108, 1),
	}
	for i, requests := range []int64{1000, 500, 400, 190} { // floor, product, each over HTTP and TLS
		l := run([]string{floorName, productName}[i%2], 0, requests, 1)
		l.Phase, l.TLS = phaseTLS, i > 1
		r.loads = append(r.loads, l)
	}
	for round, requests := range []int64{100, 100, 100} { // 90, 95 and 80 beside searches
		without, with := run(productName, round, requests, 1), run(productName, round, []int64{90, 95, 80}[round], 1)
		without.Phase, with.Phase = loadAlone, loadBeside
		r.loads = append(r.loads, without, with)
		r.searches = append(r.searches, &searchRun{Round: round, Rows: largeStore + 1, Millis: 2000 + float64(round)*100})
	}
	r.searches = append(r.searches, &searchRun{Contender: productPGName, Rows: largeStore, Millis: 5000})
	for round, requests := range []int64{100, 200, 300} { // 95, 186 and 300 with a webhook
		without, with := run(productPGName, round, requests, 1), run(productPGName, round, []int64{95, 186, 300}[round], 1)
		without.Phase, with.Phase, with.Webhook = phaseWebhook, phaseWebhook, true
		r.loads = append(r.loads, without, with)
	}
	got := r.targetTable()
	for _, want := range []string{
		"| rate of plantstore ÷ floor, 256 connections | ≥ 0.60 | 0.54 | **missed** by 10% |",
		"| rate of plantstore ÷ plain, 256 connections | ≥ 4.00 | 5.20 (5.00–5.40) | reached |",
		"| p99 of plantstore ÷ floor, 256 connections | ≤ 1.50 | 1.60 (1.20–2.00) | **missed** by 7% |",
		"| rate of plantstore ÷ floor over TLS ÷ the same over HTTP, 256 connections | ≥ 0.90 | 0.95 | reached |",
		"| rate of plantstore ÷ floor over TLS ÷ the same over HTTP, 64 connections | ≥ 0.90 | – | not measured |",
		"| seconds of a search of plantstore, 10 million plants | ≤ 4.00 s | 2.10 (2.00–2.20) | reached |",
		"| rate of plantstore beside searches ÷ without, 10 million plants | ≥ 0.90 | 0.90 (0.80–0.95) | reached |",
		"| seconds of a search of plantstorepg, 10 million plants | ≤ 4.00 s | 5.00 | **missed** by 25% |",
		"| rate of plantstorepg with a webhook ÷ without, 256 connections | ≥ 0.90 | 0.95 (0.93–1.00) | reached |",
		"| rate of plantstore with a webhook ÷ without, 256 connections | ≥ 0.90 | – | not measured |",
		"| rate of plantstore ÷ pocketbase, 256 connections | ≥ 6.00 | – | not measured |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("line\n%s\nis missing in\n%s", want, got)
		}
	}
}

func TestPageWithoutMeasurements(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{reportText: 1, tablesText: 9, capacityText: 2} {
		page, err := collect(nil).page(text)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(page), strings.TrimSpace(notMeasured)); n != want {
			t.Errorf("%d sections are not measured, want %d:\n%s", n, want, page)
		}
	}
}

// The rounds of an appended run have new numbers, because ratios compare runs of the
// same round.
func TestAppendedRoundsHaveNewNumbers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), rawName)
	for want, add := range []bool{false, true, true} {
		b := &bench{config: config{add: add}}
		if err := b.openRaw(path); err != nil {
			t.Fatal(err)
		}
		if b.round != want {
			t.Errorf("first round = %d, want %d", b.round, want)
		}
		if err := b.save(measurement{Load: &loadRun{Round: b.round}}); err != nil {
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

// A client alone waits for its request, its commit and the sync. The processors limit the rate of many clients.
func TestSimulate(t *testing.T) {
	t.Parallel()
	const unit = 100 * time.Microsecond
	m := model{cores: 2, server: unit, parts: 1, batch: unit, plant: unit, committers: 1, sync: 10 * unit, clients: 1}
	alone := simulate(m)
	if want := 13 * unit; alone.p50 < want*9/10 || alone.p50 > want*11/10 || alone.p99 < alone.p50 {
		t.Errorf("one client: got %+v, want a p50 of about %s", alone, want)
	}
	if again := simulate(m); again != alone {
		t.Errorf("got %+v, then %+v", alone, again)
	}
	m.clients, m.committers = 200, 3
	if got := simulate(m); got.perSecond < 8000 || got.perSecond > 10_000 { // two cores, 200 µs a create
		t.Errorf("200 clients: got %+v, want at most 10,000 creates a second", got)
	}
	m.clients, m.rate = 0, 1000
	if got := simulate(m); got.perSecond < 950 || got.perSecond > 1050 {
		t.Errorf("1000 requests a second: got %+v", got)
	}
	if got := simulate(model{}); got != (simulated{}) {
		t.Errorf("nothing: got %+v", got)
	}
}

// The pages and charts of the repository are those that the stored measurements
// give; go run . -phases report writes them.
func TestStoredPagesAreCurrent(t *testing.T) {
	t.Parallel()
	stored, out := filepath.Join("..", "docs", "explanation"), t.TempDir()
	if err := os.Mkdir(filepath.Join(out, "performance"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{rawName, microName} {
		text, err := os.ReadFile(filepath.Join(stored, "performance", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(out, "performance", name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := writeReport(out); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(out, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err1 := filepath.Rel(out, path)
		want, err2 := os.ReadFile(path)
		got, err3 := os.ReadFile(filepath.Join(stored, name))
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s differs from the report of the stored measurements", name)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
