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
{"requests":31135,"micros":1009427,"p50":1641,"p99":7380,"p999":9750,"max":12371,"status":1,"connect":2,"read":3,"write":4,"timeout":5}
`
	got, err := parseWrk([]byte(out))
	want := wrkResult{Requests: 31135, Micros: 1009427, P50: 1641, P99: 7380, P999: 9750, Max: 12371, Status: 1, Connect: 2, Read: 3, Write: 4, Timeout: 5}
	if err != nil || got != want {
		t.Errorf("parseWrk = %+v, %v, want %+v", got, err, want)
	}
	if got := got.failures(); got != 15 {
		t.Errorf("failures = %d, want 15", got)
	}
	if got := int(got.perSecond()); got != 30844 {
		t.Errorf("perSecond = %d, want 30844 as wrk says", got)
	}
	for _, bad := range []string{"", "unable to connect\n", "{\"requests\":\n"} {
		if _, err := parseWrk([]byte(bad)); err == nil {
			t.Errorf("parseWrk(%q) gives no error", bad)
		}
	}
}

func TestMadeIDs(t *testing.T) {
	t.Parallel()
	for _, order := range []string{orderRandom, orderAscending} {
		seen := map[int64]bool{}
		next := madeIDs(order)
		last := int64(0)
		for range 100_000 {
			id := next()
			if seen[id] || id < firstID || id >= 1<<53 || order == orderAscending && id != max(last, firstID)+1 {
				t.Fatalf("%s: bad id %d after %d", order, id, last)
			}
			seen[id], last = true, id
		}
	}
}

func TestWriteMade(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "made.csv")
	if err := writeMade(path, orderAscending, 2); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	const want = "id,name,tag\n1000000000000001,made 1,made\n1000000000000002,made 2,made\n"
	if err != nil || string(got) != want {
		t.Errorf("writeMade wrote %q, %v, want %q", got, err, want)
	}
}

func TestCreatedRows(t *testing.T) {
	t.Parallel()
	if got, err := createdRows([]byte("created 474514, already there 0, conflicting 0, invalid 0\n")); got != 474514 || err != nil {
		t.Errorf("createdRows = %d, %v", got, err)
	}
	if _, err := createdRows([]byte("created 1, already there 0, conflicting 0, invalid 1\n")); err == nil {
		t.Error("createdRows accepts an import that refused a row")
	}
}

func TestProcessOfOurOwn(t *testing.T) {
	t.Parallel()
	if n, err := kibibytes("/proc/self/status", "VmRSS"); err != nil || n < 1<<20 {
		t.Errorf("VmRSS = %d, %v", n, err)
	}
	if _, err := familyTime(os.Getpid()); err != nil {
		t.Error(err)
	}
	halves, err := processorHalves()
	if err != nil || strings.Contains(halves[1], "-") || halves[1] == "" {
		t.Errorf("processorHalves = %q, %v", halves, err)
	}
}
