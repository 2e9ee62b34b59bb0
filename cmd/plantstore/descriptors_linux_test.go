package main

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// wantReplay sends a stored plant again.
func (c *keptConn) wantReplay(t *testing.T, token string) {
	t.Helper()
	got := c.want(t, http.StatusOK, "POST", "/plants", token, `{"id":1,"name":"Rosa canina"}`)
	if got.header.Get("Idempotent-Replayed") != "true" || got.body != "{\"name\":\"Rosa canina\"}\n" {
		t.Errorf("replay: got %+v", got)
	}
}

var (
	adminAddress = regexp.MustCompile(`admin=http://(\S+)`)
	refusedLine  = regexp.MustCompile(`(?m)^time=\S+ level=WARN msg="connections refused" listener=public (.*)$`)
	evictedCount = regexp.MustCompile(
		`(?m)^plantstore_connections_evicted_total{listener="public",reason="idle"} (\d+)$`)
	openCount       = regexp.MustCompile(`(?m)^plantstore_connections_open{listener="public"} (\d+)$`)
	checkpointCount = regexp.MustCompile(`(?m)^plantstore_checkpoint_duration_seconds_count (\d+)$`)
)

// limitedServer starts a server in a shell that first lowers limits. It also returns the addresses of both listeners,
// and a token for each.
func limitedServer(t *testing.T, limits string) (s *testServer, public, admin, token, reader string) {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	db := filepath.Join(t.TempDir(), "a.db")
	p, err := newProcess(t.TempDir(), cleanEnviron(), "-c", limits+`; exec plantstore "$@"`, "plantstore",
		"serve", "--db", db, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Path = sh
	if err := p.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	match, err := p.await(p.stderr, readyLine)
	if err != nil {
		t.Fatal(err)
	}
	s = &testServer{process: p, url: match[2], db: db}
	return s, match[1], adminAddress.FindStringSubmatch(match[0])[1], s.creator(t), s.operator(t)
}

// TestNoFreeDescriptor leaves a running server without a free descriptor. Requests on open connections, the first
// replay and a checkpoint need none. The server goes on to log refused connections.
func TestNoFreeDescriptor(t *testing.T) {
	t.Parallel()
	s, public, admin, token, reader := limitedServer(t, "true")
	client, operator := mustDial(t, public, "/healthz"), mustDial(t, admin, "/livez")
	client.want(t, http.StatusOK, "POST", "/plants", token, `{"id":1,"name":"Rosa canina"}`)

	const stdio = 3 // every new descriptor is at least 3
	if err := unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: stdio, Max: stdio}, nil); err != nil {
		t.Fatal(err)
	}
	client.wantReplay(t, token)
	large := strings.Repeat("x", 60_000)
	for id := 2; ; id++ { // until a checkpoint
		client.want(t, http.StatusOK, "POST", "/plants", token, fmt.Sprintf(`{"id":%d,"name":%q}`, id, large))
		if id%20 != 0 {
			continue // reading the metrics costs more than a plant
		}
		metrics := operator.want(t, http.StatusOK, "GET", "/metrics", reader, "")
		if match := checkpointCount.FindStringSubmatch(metrics.body); match != nil && match[1] != "0" {
			break
		}
		if id > 2_000 {
			t.Fatal("no checkpoint")
		}
	}
	refused, err := dialKept(public)
	if err != nil {
		t.Fatal(err)
	}
	defer refused.Close()
	const lines = 3
	if err := poll("refused connections in the log", func() bool {
		return len(refusedLine.FindAllString(s.stderr.String(), -1)) >= lines
	}); err != nil {
		t.Fatal(err)
	}
	for _, match := range refusedLine.FindAllStringSubmatch(s.stderr.String(), -1) {
		if !strings.Contains(match[1], "too many open files") {
			t.Errorf("%s: want too many open files", match[0])
		}
	}
	client.wantReplay(t, token)
	s.stop(t)
}

// TestConnectionLimit opens more connections than the server may have. A new one replaces the one that is idle for
// longest, and the admin listener has reserved descriptors.
func TestConnectionLimit(t *testing.T) {
	t.Parallel()
	s, public, admin, token, reader := limitedServer(t, "ulimit -n 64")
	longestIdle := mustDial(t, public, "/healthz")
	const most = 32 // half of the limit
	for range 2 * most {
		c := mustDial(t, public, "/healthz")
		defer c.Close()
		c.want(t, http.StatusOK, "POST", "/plants", token, `{"id":1,"name":"Rosa canina"}`)
	}
	if _, err := longestIdle.send("GET", "/healthz", "", ""); err == nil {
		t.Error("the connection that was idle for longest is open")
	}
	operator := mustDial(t, admin, "/livez")
	// At the limit, the server also evicts a connection without a new one, in less than a second.
	if err := poll("the metrics of the evictions", func() bool {
		metrics := operator.want(t, http.StatusOK, "GET", "/metrics", reader, "").body
		evicted, open := metricOf(t, evictedCount, metrics), metricOf(t, openCount, metrics)
		return evicted > most && open < most && evicted+open == 2*most+1
	}); err != nil {
		t.Error(err)
	}
	const line = `level=WARN msg="connections evicted" listener=public reason=idle connections=[1-9]\d*$`
	if _, err := s.await(s.stderr, line); err != nil {
		t.Error(err)
	}
	s.stop(t)
}

// metricOf returns the whole number that a pattern finds in the metrics.
func metricOf(t *testing.T, pattern *regexp.Regexp, metrics string) int {
	t.Helper()
	match := pattern.FindStringSubmatch(metrics)
	if match == nil {
		t.Fatalf("no line of the metrics matches %s", pattern)
	}
	n, err := strconv.Atoi(match[1])
	if err != nil {
		t.Fatal(err)
	}
	return n
}
