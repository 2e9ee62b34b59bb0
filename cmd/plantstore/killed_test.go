package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	cycles = flag.Int("cycles", 10, "number of times that TestKilled kills the server")
	seed   = flag.Uint64("seed", 0, "seed of TestKilled; 0: a random one")
)

// journal records the plants that clients sent. It is safe for concurrent use.
type journal struct {
	mu           sync.Mutex
	sent         map[int64]row // guarded by mu
	acknowledged map[int64]row // a part of sent; guarded by mu

	first     chan struct{} // closed with the first acknowledged plant
	firstOnce sync.Once
}

func newJournal() *journal {
	return &journal{sent: map[int64]row{}, acknowledged: map[int64]row{}, first: make(chan struct{})}
}

func (j *journal) send(r row) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sent[r.id] = r
}

func (j *journal) acknowledge(r row) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.acknowledged[r.id] = r
	j.firstOnce.Do(func() { close(j.first) })
}

// check returns an error unless the store has every acknowledged plant once, with its content, and only plants that
// clients sent.
func (j *journal) check(stored []row) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	var faults []error
	missing := maps.Clone(j.acknowledged)
	seen := map[int64]bool{}
	for _, r := range stored {
		sent, ok := j.sent[r.id]
		switch {
		case !ok:
			faults = append(faults, fmt.Errorf("plant %+v was never sent", r))
		case sent != r:
			faults = append(faults, fmt.Errorf("plant %+v was sent as %+v", r, sent))
		case seen[r.id]:
			faults = append(faults, fmt.Errorf("plant %+v is stored twice", r))
		}
		seen[r.id] = true
		delete(missing, r.id)
	}
	for _, r := range missing {
		faults = append(faults, fmt.Errorf("plant %+v was acknowledged and is missing", r))
	}
	if len(faults) > 10 {
		faults = append(faults[:10], fmt.Errorf("and %d more", len(faults)-10))
	}
	return errors.Join(faults...)
}

// killedClient sends plants until the server is killed. After a restart it first retries the plant without a response.
type killedClient struct {
	rand    *rand.Rand
	id      int64 // of the last plant; ids of one client differ by killedClients
	last    row
	pending bool // last has no response yet
}

const killedClients = 16

func (k *killedClient) next() row {
	if !k.pending {
		k.id += killedClients
		k.last = row{id: k.id, name: strings.Repeat("Festuca ", 1+k.rand.IntN(40)), tagged: k.rand.IntN(2) == 0}
		if k.last.tagged {
			k.last.tag = fmt.Sprint("tag ", k.rand.IntN(100))
		}
		k.pending = true
	}
	return k.last
}

// run returns nil when the server is killed, and an error after a response other than 200.
func (k *killedClient) run(ctx context.Context, c *http.Client, url, token string, j *journal) error {
	for {
		r := k.next()
		j.send(r)
		status, response, err := post(ctx, c, url, token, r.json())
		switch {
		case err != nil:
			return nil //nolint:nilerr // the test killed the server; the outcome is unknown
		case status != http.StatusOK:
			return fmt.Errorf("%+v: got %d %s, want 200", r, status, response)
		}
		j.acknowledge(r)
		k.pending = false
	}
}

func TestKilled(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("repeat this run with -seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 0))
	db := filepath.Join(t.TempDir(), "a.db")
	token := strings.TrimSpace(plantstore(t, "token", "create", "test", "--no-expiry", "--create", "--db", db))
	j := newJournal()
	clients := make([]*killedClient, killedClients)
	for i := range clients {
		clients[i] = &killedClient{rand: rand.New(rand.NewPCG(*seed, uint64(i+1))), id: int64(i)}
	}

	for cycle := range *cycles {
		if random.IntN(2) == 0 {
			killAtStart(t, db, time.Duration(random.Int64N(int64(30*time.Millisecond))))
		}
		s := startServer(t, db)
		// Half of the servers run for a few batches only.
		after := time.Duration(random.Int64N(int64(300 * time.Millisecond)))
		if random.IntN(2) == 0 {
			after /= 10
		}
		kill := time.NewTimer(after)
		var done sync.WaitGroup
		c := httpClient(killedClients)
		for _, k := range clients {
			done.Go(func() {
				if err := k.run(t.Context(), c, s.url, token, j); err != nil {
					t.Error(err)
				}
			})
		}
		<-kill.C
		if cycle == *cycles-1 { // a slow machine may have killed every server before its first response
			select {
			case <-j.first:
			case <-time.After(waitMax):
			}
		}
		s.kill()
		done.Wait()
		c.CloseIdleConnections()
		if err := j.check(exported(t, db)); err != nil {
			t.Fatalf("after kill %d: %v", cycle+1, err)
		}
	}
	t.Logf("%d plants sent and %d acknowledged in %d runs of the server", len(j.sent), len(j.acknowledged), *cycles)
	if len(j.acknowledged) == 0 {
		t.Fatal("no plant was acknowledged")
	}
	testCheck(t, db, j)
}

// killAtStart kills a server while it opens the store.
func killAtStart(t *testing.T, db string, after time.Duration) {
	t.Helper()
	kill := time.NewTimer(after)
	p, err := startProcess(t.TempDir(), cleanEnviron(),
		"serve", "--db", db, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	<-kill.C
	p.kill()
}

// testCheck tests that check detects a missing, a changed and an additional plant.
func testCheck(t *testing.T, db string, j *journal) {
	t.Helper()
	for id := range j.acknowledged {
		for _, damage := range []string{
			"DELETE FROM plants WHERE id = %d",
			"UPDATE plants SET name = 'x' WHERE id = %d",
			"INSERT INTO plants VALUES (-%d - 1, 'x', NULL, 0, 0, 0)",
		} {
			damaged := filepath.Join(t.TempDir(), "damaged.db")
			text, err := os.ReadFile(db)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(damaged, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := execSQL(damaged, fmt.Sprintf(damage, id)); err != nil {
				t.Fatal(err)
			}
			if err := j.check(exported(t, damaged)); err == nil {
				t.Errorf("check did not detect: "+damage, id)
			}
		}
		return // one plant is enough
	}
}

// exported returns the plants of an export of a store.
func exported(t *testing.T, db string) []row {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out.jsonl")
	plantstore(t, "export", "--db", db, "-o", out)
	rows, err := readPlants(out)
	if err != nil {
		t.Fatal(err)
	}
	return rows
}
