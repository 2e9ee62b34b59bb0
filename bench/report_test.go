package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTargetTable(t *testing.T) {
	t.Parallel()
	run := func(contender string, round int, requests, p99 int64) loadRun {
		return loadRun{
			Set: setShared, Round: round, Contender: contender, Connections: 256,
			Generator: wrkResult{Requests: requests, Micros: 1e6, P99: p99},
		}
	}
	r := collect(nil)
	r.loads = loads{
		run(floorName, 0, 1000, 100), run(productName, 0, 540, 200), run(plainName, 0, 100, 1), run(hookName, 0, 500, 1),
		run(floorName, 1, 1000, 100), run(productName, 1, 540, 120), run(plainName, 1, 108, 1), run(hookName, 1, 513, 1),
	}
	got := r.targetTable()
	for _, want := range []string{
		"| rate of plantstore ÷ floor, 256 connections | ≥ 0.60 | 0.54 | **missed** by 10% |",
		"| rate of plantstore ÷ plain, 256 connections | ≥ 4.00 | 5.20 (5.00–5.40) | reached |",
		"| p99 of plantstore ÷ floor, 256 connections | ≤ 1.50 | 1.60 (1.20–2.00) | **missed** by 7% |",
		"| rate of plantstore-webhook ÷ plantstore, 256 connections | ≥ 0.90 | 0.94 (0.93–0.95) | reached |",
		"| rate of plantstore ÷ pocketbase, 256 connections | ≥ 6.00 | – | not measured |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("line\n%s\nis missing in\n%s", want, got)
		}
	}
}

func TestPageWithoutMeasurements(t *testing.T) {
	t.Parallel()
	page, err := collect(nil).page()
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(page), strings.TrimSpace(notMeasured)); n != 3 {
		t.Errorf("%d sections are not measured, want 3:\n%s", n, page)
	}
}

// TestStoredPageIsCurrent tests that the stored measurements yield the page of the repository; go run . -rounds
// 0 writes it.
func TestStoredPageIsCurrent(t *testing.T) {
	t.Parallel()
	stored, out := filepath.Join("..", "docs", "explanation"), t.TempDir()
	raw, err := os.ReadFile(filepath.Join(stored, "performance", rawName))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(out, "performance"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "performance", rawName), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeReport(out); err != nil {
		t.Fatal(err)
	}
	const page = "performance.md"
	want, err := os.ReadFile(filepath.Join(out, page))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(stored, page))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs from the report of the stored measurements", page)
	}
}
