package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseWrk(t *testing.T) {
	t.Parallel()
	const out = `Running 1s test @ http://127.0.0.1:9901
  2 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.97ms    1.46ms  12.37ms   75.10%
  31135 requests in 1.01s, 4.48MB read
Requests/sec:  30844.23
` + `{"requests":31135,"micros":1009427,"p50":1641,"p99":7380,"p999":9750,"max":12371,` +
		`"status":1,"connect":2,"read":3,"write":4,"timeout":5}` + "\n"
	got, err := parseWrk([]byte(out))
	want := wrkResult{
		Requests: 31135, Micros: 1009427, P50: 1641, P99: 7380, P999: 9750, Max: 12371, Status: 1,
		Connect: 2, Read: 3, Write: 4, Timeout: 5,
	}
	if err != nil || got != want {
		t.Errorf("parseWrk = %+v, %v, want %+v", got, err, want)
	}
	if got := got.failures(); got != 15 {
		t.Errorf("failures = %d, want 15", got)
	}
	if got := int(got.perSecond()); got != 30844 {
		t.Errorf("perSecond = %d, want 30844, as wrk prints", got)
	}
	for _, out := range []string{"", "unable to connect\n", "{\"requests\":\n"} {
		if _, err := parseWrk([]byte(out)); err == nil {
			t.Errorf("parseWrk(%q) returned no error", out)
		}
	}
}

func TestGeneratedIDs(t *testing.T) {
	t.Parallel()
	for _, order := range []string{orderRandom, orderAscending} {
		seen := map[int64]bool{}
		next := generatedIDs(order)
		last := int64(0)
		for range 100_000 {
			id := next()
			if seen[id] || id < firstID || id >= 1<<53 || order == orderAscending && id != max(last, firstID)+1 {
				t.Fatalf("%s: id %d after %d", order, id, last)
			}
			seen[id], last = true, id
		}
	}
}

func TestWriteGenerated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "generated.csv")
	if err := writeGenerated(path, orderAscending, 2); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	const want = "id,name,tag\n1000000000000001,made 1,made\n1000000000000002,made 2,made\n"
	if err != nil || string(got) != want {
		t.Errorf("writeGenerated wrote %q, %v, want %q", got, err, want)
	}
}

func TestCreatedRows(t *testing.T) {
	t.Parallel()
	if got, err := createdRows([]byte(`{"created":474514,"existing":0,"conflicting":0,"invalid":0}` +
		"\n")); got != 474514 || err != nil {
		t.Errorf("createdRows = %d, %v, want 474514", got, err)
	}
	for _, out := range []string{
		`{"created":1,"existing":1,"conflicting":0,"invalid":0}`,
		`{"created":1,"existing":0,"conflicting":1,"invalid":0}`,
		`{"created":1,"existing":0,"conflicting":0,"invalid":1}`,
		"created 1\n", "",
	} {
		if got, err := createdRows([]byte(out)); err == nil {
			t.Errorf("createdRows(%q) = %d, want an error", out, got)
		}
	}
}

func TestProcessFigures(t *testing.T) {
	t.Parallel()
	if n, err := kibibytes("/proc/self/status", "VmRSS"); err != nil || n < 1<<20 {
		t.Errorf("VmRSS = %d, %v", n, err)
	}
	if _, err := processTreeTime(os.Getpid()); err != nil {
		t.Error(err)
	}
	halves, err := splitProcessors()
	if err != nil || strings.Contains(halves[1], "-") || halves[1] == "" {
		t.Errorf("splitProcessors = %q, %v", halves, err)
	}
}
