package main

import (
	"os"
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

func TestProcessFigures(t *testing.T) {
	t.Parallel()
	if n, err := kibibytes("/proc/self/status", "VmRSS"); err != nil || n < 1<<20 {
		t.Errorf("VmRSS = %d, %v", n, err)
	}
	if _, err := processTreeTime(os.Getpid()); err != nil {
		t.Error(err)
	}
	if h := halves(); h[0] == "" || h[1] == "" {
		t.Errorf("halves = %q", h)
	}
}
