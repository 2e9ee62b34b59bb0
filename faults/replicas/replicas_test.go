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

// TestReplicas first kills random servers of three, then restarts them gracefully one after the other, while clients
// use the running servers.
func TestReplicas(t *testing.T) {
	t.Parallel()
	if err := joinFirst(newCluster(t, build(t)).runRestarts(t, size(5, 100), size(2, 20))); err != nil {
		t.Error(err)
	}
}

// Weaknesses that TestReplicasControl must detect.
var (
	// overwrites replaces the name of an existing plant.
	overwrites = rig.Weakness{
		File: "internal/postgres/insert.go",
		Old:  "ON CONFLICT (id) DO NOTHING",
		New:  "ON CONFLICT (id) DO UPDATE SET name = excluded.name",
	}
	// earlyAnswer sends responses 50 ms before the commit, so that a random kill is likely to lose plants.
	earlyAnswer = rig.Weakness{
		File: rig.EarlyAnswer.File,
		Old:  rig.EarlyAnswer.Old,
		New: "\tb.outcomes = make([]store.Outcome, len(b.creates))\n\tclose(b.done)\n\tb.done = make(chan struct{})\n" +
			"\ttime.Sleep(50 * time.Millisecond)\n\toutcomes, err := w.engine.Insert(ctx, b.creates)\n",
	}
)

// TestReplicasControl shows that the harness detects weak servers, with kills and without.
func TestReplicasControl(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		weak  rig.Weakness
		kills int
		short bool // part of the short form; each test builds a program
	}{
		{"overwrites plants", overwrites, 0, true},
		{"responds before the commit", earlyAnswer, 5, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			program := rig.Build(t, test.weak) // in the short form too: the weakness must match its source
			if !test.short && !*long {
				t.Skip("only in the long form")
			}
			requireDetection(t, newCluster(t, program).runRestarts(t, test.kills, 0))
		})
	}
}

// runRestarts kills servers under load, then restarts all of them gracefully in several rounds, and returns the
// violations.
func (c *cluster) runRestarts(t *testing.T, kills, rounds int) (violations []error) {
	t.Helper()
	s := rig.Seed(t, *seed)
	random := rand.New(rand.NewPCG(s, 0))
	l := startLoad(t.Context(), s, c)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range kills {
		<-tick.C
		c.kill(random.IntN(replicasMax))
		// a random interval, so that kills hit every phase of a request
		tick.Reset(time.Second/2 + time.Duration(random.Int64N(int64(time.Second))))
	}
	killed := l.requests()
	for range rounds {
		for i := range replicasMax {
			c.restart(i)
		}
	}
	<-tick.C
	l.stop()
	t.Logf("%d kills, outcomes %v; %d graceful restarts, outcomes %v; slowest start: %s",
		kills, countOutcomes(l.history[:killed]), rounds*replicasMax, countOutcomes(l.history[killed:]), c.slowestStart)
	stored := storedPlants(t, c.db)
	violations = slices.Concat(l.violations, check(l.history, stored), c.checkAgreement(t, stored))
	t.Logf("%d requests, %d plants, %d violations", len(l.history), len(stored), len(violations))
	return violations
}

// checkAgreement sends the last stored plants again, unchanged and changed, to each replica. The outcomes must be
// replayed and conflict.
func (c *cluster) checkAgreement(t *testing.T, stored map[int64][]content) (violations []error) {
	t.Helper()
	const plantsMax = 50
	ids := slices.Sorted(maps.Keys(stored))
	for _, id := range ids[max(0, len(ids)-plantsMax):] {
		for i := range replicasMax {
			r := c.replica(i)
			same, other := stored[id][0], content{stored[id][0].name + " ", stored[id][0].tag}
			for _, o := range []operation{r.plants.send(t.Context(), id, same), r.plants.send(t.Context(), id, other)} {
				if o.content == same && o.outcome != replayed || o.content == other && o.outcome != conflict {
					violations = append(violations, fmt.Errorf("replica %d after the load: %s", i, &o))
				}
			}
		}
	}
	return violations
}
