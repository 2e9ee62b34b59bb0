// Package disk runs the program on full and on slow disks.
package disk

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"plantstore/faults/rig"
)

const pollEvery = 20 * time.Millisecond

var long = flag.Bool("long", false, "fill the disk more often")

// ledger records the requests of the clients and their outcomes.
type ledger struct {
	mu           sync.Mutex
	next         int64            // guarded by mu, like all that follows
	acknowledged map[int64]string // names by id
	sent         map[int64]string
	statuses     map[int]int // number of responses by status
}

// send sends a new plant and returns the outcome.
func (l *ledger) send(ctx context.Context, c *rig.Client, url string) rig.Outcome {
	l.mu.Lock()
	l.next++
	id := l.next
	name := strings.Repeat(fmt.Sprint("n", id, " "), 1000)
	l.sent[id] = name
	l.mu.Unlock()
	outcome, status := c.Create(ctx, url, id, name)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.statuses[status]++
	if outcome == rig.Stored {
		l.acknowledged[id] = name
	}
	return outcome
}

// check fails the test unless the store has every acknowledged plant and only plants that were sent, and verify finds
// no damage.
func (l *ledger) check(t *testing.T, program, db string) {
	t.Helper()
	for _, fault := range l.faults(t, program, db) {
		t.Error(fault)
	}
}

// faults returns the errors of a store after its server ended.
func (l *ledger) faults(t *testing.T, program, db string) (faults []string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), program, "verify", "--db", db).CombinedOutput(); err != nil {
		faults = append(faults, fmt.Sprintf("verify: %v\n%s", err, out))
	}
	stored, err := rig.Export(t, program, db)
	if err != nil {
		t.Fatal(err)
	}
	for id, name := range l.acknowledged {
		if stored[id] != name {
			faults = append(faults, fmt.Sprintf("plant %d was acknowledged and is missing or changed", id))
		}
	}
	for id, name := range stored {
		if l.sent[id] != name {
			faults = append(faults, fmt.Sprintf("plant %d is stored and was not sent with this name", id))
		}
	}
	t.Logf("%d acknowledged, %d stored, responses by status: %v", len(l.acknowledged), len(stored), l.statuses)
	return faults
}

func newLedger() *ledger {
	return &ledger{acknowledged: map[int64]string{}, sent: map[int64]string{}, statuses: map[int]int{}}
}

// statusOf returns the status of a GET request.
func statusOf(t *testing.T, url string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

// TestControl fills the disk of a server that responds before it commits. The check must detect the lost plants.
func TestControl(t *testing.T) {
	t.Parallel()
	dir := rig.Small(t, 48)
	program := rig.Build(t)
	db := filepath.Join(dir, "plants.db")
	c := &rig.Client{Token: rig.Token(t, program, db, "a")}
	server, err := rig.Start(t, rig.Build(t, rig.EarlyAnswer), db, nil)
	if err != nil {
		t.Fatal(err)
	}
	ballast := rig.Ballast(t, dir)
	l := newLedger()
	for range 1000 { // commits fill the existing WAL first
		l.send(t.Context(), c, server.URL)
	}
	server.Kill()
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if faults := l.faults(t, program, db); len(faults) == 0 {
		t.Error("the check did not detect a server that acknowledges plants before it stores them")
	}
}

// TestFull fills the disk of a server several times and frees it again. The server continues, is not ready while the
// disk is full, and loses nothing.
func TestFull(t *testing.T) {
	t.Parallel()
	dir := rig.Small(t, 48)
	program := rig.Build(t)
	db := filepath.Join(dir, "plants.db")
	c := &rig.Client{Token: rig.Token(t, program, db, "a")}
	server, err := rig.Start(t, program, db, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger()
	rounds := 3
	if *long {
		rounds = 50
	}
	for round := range rounds {
		if o := l.send(t.Context(), c, server.URL); o != rig.Stored {
			t.Fatalf("round %d: outcome %v with free space, want stored", round, o)
		}
		ballast := rig.Ballast(t, dir)
		full := 0
		for range 5000 { // commits fill the existing WAL before the disk is full
			switch o := l.send(t.Context(), c, server.URL); o {
			case rig.Stored:
			case rig.Unknown:
				t.Errorf("round %d: the outcome of a create is unknown", round)
				fallthrough
			default:
				full++
			}
			if full == 20 {
				break
			}
		}
		if full < 20 {
			t.Fatalf("round %d: the disk is not full", round)
		}
		rig.Within(t, time.Minute, pollEvery, "the server is not ready", func() bool {
			return statusOf(t, server.Admin+"/readyz") == http.StatusServiceUnavailable &&
				statusOf(t, server.URL+"/healthz") == http.StatusServiceUnavailable
		})
		if got, err := exec.CommandContext(t.Context(), program, "get", "1", "--db", db).CombinedOutput(); err != nil {
			t.Errorf("round %d: a read on a full disk: %v\n%s", round, err, got)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		if round%2 == 0 {
			rig.Within(t, time.Minute, pollEvery, "the server is ready without a create", func() bool {
				return statusOf(t, server.Admin+"/readyz") == http.StatusOK
			})
		}
		if o := l.send(t.Context(), c, server.URL); o != rig.Stored {
			t.Errorf("round %d: outcome %v of the first create with free space, want stored", round, o)
		}
		if code := statusOf(t, server.Admin+"/readyz"); code != http.StatusOK {
			t.Errorf("round %d: /readyz returned %d with free space, want 200", round, code)
		}
	}
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with code %d:\n%s", code, server.Log())
	}
	for status := range l.statuses {
		switch status {
		case http.StatusOK, http.StatusServiceUnavailable, http.StatusInsufficientStorage:
		default:
			t.Errorf("a response has status %d", status)
		}
	}
	l.check(t, program, db)
}

// TestBackupFull shows that a backup onto a full disk leaves no file, and that the server continues.
func TestBackupFull(t *testing.T) {
	t.Parallel()
	target := rig.Small(t, 1)
	program := rig.Build(t)
	db := filepath.Join(t.TempDir(), "plants.db")
	c := &rig.Client{Token: rig.Token(t, program, db, "a")}
	server, err := rig.Start(t, program, db, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := newLedger()
	for range 500 {
		l.send(t.Context(), c, server.URL)
	}
	backup := exec.CommandContext(t.Context(), program, "backup", filepath.Join(target, "b.db"), "--db", db)
	out, err := backup.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "disk is full") && !strings.Contains(string(out), "no space left") {
		t.Errorf("backup onto a full disk: %v\n%s", err, out)
	}
	if left, err := os.ReadDir(target); err != nil || len(left) > 0 {
		t.Errorf("the backup left %v, %v", left, err)
	}
	if l.send(t.Context(), c, server.URL) != rig.Stored {
		t.Error("the server did not store a plant after the backup")
	}
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with code %d:\n%s", code, server.Log())
	}
	l.check(t, program, db)
}

// slowDown delays every sync of a file in a process until the test ends.
func slowDown(t *testing.T, pid int, path string, delay time.Duration) {
	t.Helper()
	command := exec.Command("strace", "-f", "-o", "/dev/null", "-p", strconv.Itoa(pid), "-P", path,
		"-e", "trace=fdatasync,fsync",
		"-e", fmt.Sprintf("inject=fdatasync,fsync:delay_enter=%d", delay.Microseconds()))
	messages, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	lines := bufio.NewScanner(messages)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "attached") {
			return
		}
	}
	t.Fatal("strace did not attach to the server")
}

// TestSlow delays every sync of the WAL. The responses take as long; the server is not ready while a commit has run for
// over 20 s.
func TestSlow(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("strace")
	rig.Need(t, err == nil, "strace")
	program := rig.Build(t)
	for _, test := range []struct {
		delay time.Duration
		ready bool
	}{{50 * time.Millisecond, true}, {5 * time.Second, true}, {23 * time.Second, false}} {
		t.Run(test.delay.String(), func(t *testing.T) {
			t.Parallel()
			db := filepath.Join(t.TempDir(), "plants.db")
			c := &rig.Client{Token: rig.Token(t, program, db, "a")}
			server, err := rig.Start(t, program, db, nil)
			if err != nil {
				t.Fatal(err)
			}
			l := newLedger()
			// The first commit of a WAL also syncs its header; later commits sync once.
			if outcome := l.send(t.Context(), c, server.URL); outcome != rig.Stored {
				t.Fatalf("outcome %v before the delay, want stored", outcome)
			}
			slowDown(t, server.Command.Process.Pid, db+"-wal", test.delay)
			l.sendSlowly(t, c, server, test.delay, test.ready)
			rig.Within(t, 3*test.delay+time.Minute, pollEvery, "the server is ready", func() bool {
				return statusOf(t, server.Admin+"/readyz") == http.StatusOK
			})
			server.Kill()
			l.check(t, program, db)
		})
	}
}

// sendSlowly sends a plant to a server with delayed syncs. A server that stays ready stores the plant after the delay;
// another responds that the outcome is unknown.
func (l *ledger) sendSlowly(t *testing.T, c *rig.Client, server *rig.Server, delay time.Duration, ready bool) {
	t.Helper()
	var sending sync.WaitGroup
	started := time.Now()
	var took time.Duration
	var outcome rig.Outcome
	sending.Go(func() {
		outcome = l.send(t.Context(), c, server.URL)
		took = time.Since(started)
	})
	if !ready {
		rig.Within(t, time.Minute, pollEvery, "the server is not ready", func() bool {
			return statusOf(t, server.Admin+"/readyz") == http.StatusServiceUnavailable
		})
	}
	sending.Wait()
	switch {
	case ready && (outcome != rig.Stored || took < delay):
		t.Errorf("outcome %v after %s, want stored after %s or more", outcome, took, delay)
	case !ready && (outcome != rig.Unknown || l.statuses[http.StatusServiceUnavailable] != 1):
		t.Errorf("outcome %v after %s, statuses %v; want unknown with one 503", outcome, took, l.statuses)
	}
}
