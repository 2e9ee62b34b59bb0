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
	cycles = flag.Int("cycles", 10, "how often TestKilled kills the server")
	seed   = flag.Uint64("seed", 0, "the seed of TestKilled; 0: another each time")
)

// journal is what clients know of the plants that they sent. It is safe for concurrent use.
type journal struct {
	mu           sync.Mutex
	sent         map[int64]row // guarded by mu, as is what follows
	acknowledged map[int64]row // of sent
}

func newJournal() *journal { return &journal{sent: map[int64]row{}, acknowledged: map[int64]row{}} }

func (j *journal) send(r row) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sent[r.id] = r
}

func (j *journal) acknowledge(r row) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.acknowledged[r.id] = r
}

// check compares what a store has with what clients know: every plant that was acknowledged is there once, with its
// content, and nothing is there that was never sent.
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
			faults = append(faults, fmt.Errorf("plant %+v is there twice", r))
		}
		seen[r.id] = true
		delete(missing, r.id)
	}
	for _, r := range missing {
		faults = append(faults, fmt.Errorf("plant %+v was acknowledged and is not there", r))
	}
	if len(faults) > 10 {
		faults = append(faults[:10], fmt.Errorf("and %d more", len(faults)-10))
	}
	return errors.Join(faults...)
}

// killedClient sends plants until ctx ends. A plant that got no answer is what the client begins with next time, as a
// client does that retries.
type killedClient struct {
	chance *rand.Rand
	ids    int64 // of this client: its number, and then every clients-th
	last   row
	open   bool // last got no answer yet
}

const killedClients = 16

func (k *killedClient) next() row {
	if !k.open {
		k.ids += killedClients
		k.last = row{id: k.ids, name: strings.Repeat("Festuca ", 1+k.chance.IntN(40)), tagged: k.chance.IntN(2) == 0}
		if k.last.tagged {
			k.last.tag = fmt.Sprint("tag ", k.chance.IntN(100))
		}
		k.open = true
	}
	return k.last
}

// run returns nil when the server is gone, and an error for any answer but 200.
func (k *killedClient) run(ctx context.Context, c *http.Client, url, token string, j *journal) error {
	for {
		r := k.next()
		j.send(r)
		status, answer, err := post(ctx, c, url, token, r.json())
		switch {
		case err != nil:
			return nil //nolint:nilerr // the server was killed; whether the plant is stored, nobody knows
		case status != http.StatusOK:
			return fmt.Errorf("%+v: got %d %s, want 200", r, status, answer)
		}
		j.acknowledge(r)
		k.open = false
	}
}

func TestKilled(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("the seed is %d: run it again with -seed %[1]d", *seed)
	chance := rand.New(rand.NewPCG(*seed, 0))
	db := filepath.Join(t.TempDir(), "a.db")
	token := strings.TrimSpace(plantstore(t, "token", "create", "test", "--no-expiry", "--create", "--db", db))
	j := newJournal()
	clients := make([]*killedClient, killedClients)
	for i := range clients {
		clients[i] = &killedClient{chance: rand.New(rand.NewPCG(*seed, uint64(i+1))), ids: int64(i)}
	}

	for cycle := range *cycles {
		if chance.IntN(2) == 0 {
			killAtStart(t, db, time.Duration(chance.Int64N(int64(30*time.Millisecond))))
		}
		s := startServer(t, db)
		// Half of the time it lives for a few batches only.
		after := time.Duration(chance.Int64N(int64(300 * time.Millisecond)))
		if chance.IntN(2) == 0 {
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
		s.kill()
		done.Wait()
		c.CloseIdleConnections()
		if err := j.check(exported(t, db)); err != nil {
			t.Fatalf("after kill %d: %v", cycle+1, err)
		}
	}
	t.Logf("%d plants were sent and %d acknowledged in %d lives of the server", len(j.sent), len(j.acknowledged), *cycles)
	if len(j.acknowledged) == 0 {
		t.Fatal("nothing was acknowledged, so nothing was tested")
	}
	checkTheCheck(t, db, j)
}

// killAtStart kills a server while it opens the store.
func killAtStart(t *testing.T, db string, after time.Duration) {
	t.Helper()
	kill := time.NewTimer(after)
	p, err := startProcess(t.TempDir(), cleanEnviron(), "serve", "--db", db, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	<-kill.C
	p.kill()
}

// checkTheCheck shows that the check would have noticed a loss, a change and an addition.
func checkTheCheck(t *testing.T, db string, j *journal) {
	t.Helper()
	for id := range j.acknowledged {
		for _, damage := range []string{"DELETE FROM plants WHERE id = %d", "UPDATE plants SET name = 'x' WHERE id = %d", "INSERT INTO plants VALUES (-%d - 1, 'x', NULL, 0, 0, 0)"} {
			spoilt := filepath.Join(t.TempDir(), "spoilt.db")
			text, err := os.ReadFile(db)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(spoilt, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := execSQL(spoilt, fmt.Sprintf(damage, id)); err != nil {
				t.Fatal(err)
			}
			if err := j.check(exported(t, spoilt)); err == nil {
				t.Errorf("the check did not notice: "+damage, id)
			}
		}
		return // one plant is enough
	}
}

// exported returns what the program says is in a store.
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
