package replicas

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// TestReplicas kills one server of three again and again, and then restarts them
// in order, one after the other, while clients use what is left.
func TestReplicas(t *testing.T) {
	t.Parallel()
	if err := first(newCluster(t, build(t)).endure(t, size(5, 100), size(2, 20))); err != nil {
		t.Error(err)
	}
}

// Servers that keep less than they promise.
var (
	// overwrites has the last plant of an id win.
	overwrites = rig.Weakness{
		File: "internal/postgres/insert.go",
		Old:  "ON CONFLICT (id) DO NOTHING",
		New:  "ON CONFLICT (id) DO UPDATE SET name = excluded.name",
	}
	// early answers well before the commit, so that a kill need not be lucky.
	early = rig.Weakness{
		File: rig.EarlyAnswer.File,
		Old:  rig.EarlyAnswer.Old,
		New: "\tb.outcomes = make([]Outcome, len(b.creates))\n\tclose(b.done)\n\tb.done = make(chan struct{})\n" +
			"\ttime.Sleep(50 * time.Millisecond)\n\toutcomes, err := w.engine.Insert(ctx, b.creates)\n",
	}
)

// TestReplicasControl shows that servers which keep less are noticed, with kills
// and without.
func TestReplicasControl(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		weak  rig.Weakness
		kills int
		short bool // each is a program to build, so the short form has some only
	}{
		{"the last one wins", overwrites, 0, true},
		{"answers before it stores", early, 5, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !test.short && !*long {
				t.Skip("in the long form only")
			}
			faults := newCluster(t, rig.Build(t, test.weak)).endure(t, test.kills, 0)
			if len(faults) == 0 {
				t.Fatal("nothing was noticed")
			}
			t.Logf("caught, %d times: %v", len(faults), faults[0])
		})
	}
}

// endure has clients work while servers are killed, then while they are restarted
// so many rounds, and checks what came of it.
func (c *cluster) endure(t *testing.T, kills, rounds int) (faults []error) {
	t.Helper()
	s := rig.Seed(t, *seed)
	chance := rand.New(rand.NewPCG(s, 0))
	w := newCrowd(t.Context(), s, c)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range kills {
		<-tick.C
		c.kill(chance.IntN(replicasMax))
		tick.Reset(time.Second/2 + time.Duration(chance.Int64N(int64(time.Second)))) // at any moment of what clients do
	}
	killed := w.sofar()
	for range rounds {
		for i := range replicasMax {
			c.restart(i)
		}
	}
	<-tick.C
	w.leave()
	t.Logf("%d kills: %v; then %d restarts in order: %v; the slowest start took %s",
		kills, tally(w.history[:killed]), rounds*replicasMax, tally(w.history[killed:]), c.slowest)
	there := rows(t, c.db)
	faults = slices.Concat(w.faults, check(w.history, there), c.agree(t, there))
	t.Logf("%d requests, %d plants; %d faults", len(w.history), len(there), len(faults))
	return faults
}

// sofar counts the requests that have ended.
func (w *crowd) sofar() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.history)
}

// agree has every replica tell what it thinks of some plants that are there.
func (c *cluster) agree(t *testing.T, there map[int64][]content) (faults []error) {
	t.Helper()
	const most = 50
	ids := slices.Sorted(maps.Keys(there))
	for _, id := range ids[max(0, len(ids)-most):] {
		for i := range replicasMax {
			r := c.replica(i)
			same, other := there[id][0], content{there[id][0].name + " ", there[id][0].tag}
			for _, o := range []operation{r.plants.send(t.Context(), id, same), r.plants.send(t.Context(), id, other)} {
				if o.content == same && o.outcome != replayed || o.content == other && o.outcome != conflict {
					faults = append(faults, fmt.Errorf("replica %d, in the end: %s", i, &o))
				}
			}
		}
	}
	return faults
}
