// Package disk runs the program on disks that are full or slow.
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

// ledger is what clients know.
type ledger struct {
	mu           sync.Mutex
	next         int64
	acknowledged map[int64]string
	sent         map[int64]string
	statuses     map[int]int
}

// send sends one plant more and returns what became of it.
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

// check wants everything acknowledged, and nothing that was not sent, in a
// store without faults.
func (l *ledger) check(t *testing.T, program, db string) {
	t.Helper()
	for _, fault := range l.faults(t, program, db) {
		t.Error(fault)
	}
}

// faults says what is wrong with a store after it was stopped.
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
			faults = append(faults, fmt.Sprintf("plant %d was acknowledged and is not stored as it was", id))
		}
	}
	for id, name := range stored {
		if l.sent[id] != name {
			faults = append(faults, fmt.Sprintf("plant %d is stored and was not sent so", id))
		}
	}
	t.Logf("%d acknowledged, %d stored, answers by status: %v", len(l.acknowledged), len(stored), l.statuses)
	return faults
}

func newLedger() *ledger {
	return &ledger{acknowledged: map[int64]string{}, sent: map[int64]string{}, statuses: map[int]int{}}
}

// statusOf asks a path of a door.
func statusOf(t *testing.T, url string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// TestControl fills the disk under a server that answers before it has stored
// anything: the check of the others must notice.
func TestControl(t *testing.T) {
	t.Parallel()
	dir := rig.Small(t, 48)
	program := rig.Build(t)
	db := filepath.Join(dir, "plants.db")
	c := &rig.Client{Token: rig.Token(t, program, db, "a")}
	server, err := rig.Start(t, rig.Build(t, rig.EarlyAnswer), db, nil, "--wal-max", "33554432")
	if err != nil {
		t.Fatal(err)
	}
	ballast := rig.Ballast(t, dir)
	l := newLedger()
	for range 1000 { // what the WAL has of room is used first
		l.send(t.Context(), c, server.URL)
	}
	server.Kill()
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	if faults := l.faults(t, program, db); len(faults) == 0 {
		t.Error("a server that acknowledges what it cannot store is not noticed")
	}
}

// TestFull fills the disk under a server several times, and gives it room again.
func TestFull(t *testing.T) {
	t.Parallel()
	dir := rig.Small(t, 48)
	program := rig.Build(t)
	db := filepath.Join(dir, "plants.db")
	c := &rig.Client{Token: rig.Token(t, program, db, "a")}
	server, err := rig.Start(t, program, db, nil, "--wal-max", "33554432")
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
			t.Fatalf("round %d: with room: outcome %v", round, o)
		}
		ballast := rig.Ballast(t, dir)
		full := 0
		for range 5000 { // until it is full: what the WAL has of room is used first
			if o := l.send(t.Context(), c, server.URL); o != rig.Stored {
				full++
			}
			if full == 20 {
				break
			}
		}
		if full < 20 {
			t.Fatalf("round %d: the disk is not full", round)
		}
		if got, err := exec.CommandContext(t.Context(), program, "get", "1", "--db", db).CombinedOutput(); err != nil {
			t.Errorf("round %d: a read on a full disk: %v\n%s", round, err, got)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		rig.Within(t, 5*time.Second, pollEvery, "it takes plants again", func() bool { return l.send(t.Context(), c, server.URL) == rig.Stored })
		if code := statusOf(t, server.Admin+"/readyz"); code != http.StatusOK {
			t.Errorf("round %d: /readyz is %d when there is room again", round, code)
		}
	}
	if code := server.Stop(); code != 0 {
		t.Errorf("it ends with %d:\n%s", code, server.Log())
	}
	for status := range l.statuses {
		if status != http.StatusOK && status != http.StatusServiceUnavailable && status != http.StatusInsufficientStorage {
			t.Errorf("an answer has status %d", status)
		}
	}
	l.check(t, program, db)
}

// TestBackupFull shows that a backup that finds no room leaves nothing, and
// that the store does not suffer.
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
	out, err := exec.CommandContext(t.Context(), program, "backup", filepath.Join(target, "b.db"), "--db", db).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "disk is full") && !strings.Contains(string(out), "no space left") {
		t.Errorf("a backup without room: %v\n%s", err, out)
	}
	if left, err := os.ReadDir(target); err != nil || len(left) > 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
	if l.send(t.Context(), c, server.URL) != rig.Stored {
		t.Error("the server does not go on")
	}
	if code := server.Stop(); code != 0 {
		t.Errorf("it ends with %d:\n%s", code, server.Log())
	}
	l.check(t, program, db)
}

// slowDown delays every sync of a file by a process, until the test ends.
func slowDown(t *testing.T, pid int, path string, delay time.Duration) {
	t.Helper()
	command := exec.Command("strace", "-f", "-o", "/dev/null", "-p", strconv.Itoa(pid), "-P", path,
		"-e", "trace=fdatasync,fsync", "-e", fmt.Sprintf("inject=fdatasync,fsync:delay_enter=%d", delay.Microseconds()))
	said, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "attached") {
			return
		}
	}
	t.Fatal("strace cannot attach to the server")
}

// TestSlow delays every sync of the data. The answers take as long, and nothing
// else happens; from 20 s on the server is not ready.
func TestSlow(t *testing.T) {
	t.Parallel()
	_, err := exec.LookPath("strace")
	rig.Need(t, err == nil, "strace")
	program := rig.Build(t)
	for _, test := range []struct {
		delay time.Duration
		ready bool
	}{{50 * time.Millisecond, true}, {5 * time.Second, true}, {30 * time.Second, false}} {
		t.Run(test.delay.String(), func(t *testing.T) {
			t.Parallel()
			db := filepath.Join(t.TempDir(), "plants.db")
			c := &rig.Client{Token: rig.Token(t, program, db, "a")}
			server, err := rig.Start(t, program, db, nil)
			if err != nil {
				t.Fatal(err)
			}
			slowDown(t, server.Command.Process.Pid, db+"-wal", test.delay)
			l := newLedger()
			var sending sync.WaitGroup
			begun := time.Now()
			var took time.Duration
			var outcome rig.Outcome
			sending.Go(func() {
				outcome = l.send(t.Context(), c, server.URL)
				took = time.Since(begun)
			})
			if !test.ready {
				rig.Within(t, 25*time.Second, pollEvery, "it is not ready", func() bool { return statusOf(t, server.Admin+"/readyz") == http.StatusServiceUnavailable })
			}
			sending.Wait()
			switch {
			case test.ready && (outcome != rig.Stored || took < test.delay):
				t.Errorf("outcome %v after %s", outcome, took)
			case !test.ready && (outcome != rig.Unknown || l.statuses[http.StatusServiceUnavailable] != 1):
				t.Errorf("outcome %v after %s, statuses %v: want a 503 that says it is unknown", outcome, took, l.statuses)
			}
			// The first commit of a WAL syncs twice: its header, and its frames.
			rig.Within(t, 3*test.delay+5*time.Second, pollEvery, "it is ready", func() bool { return statusOf(t, server.Admin+"/readyz") == http.StatusOK })
			server.Kill()
			l.check(t, program, db)
		})
	}
}
