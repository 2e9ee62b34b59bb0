// Package standby replaces the server of one machine by the standby on another one again and again, under load and with
// faults of both machines and of the way to their destination. It compares the stores, and a restore of the
// destination, with what was acknowledged.
//
//	go test -count=1 ./standby                               short form
//	go test -count=1 -timeout 0 -v ./standby -args -long     long form
//	go test -count=1 -v ./standby -args -seed 7              repeat the faults of a seed, but not their exact timing
package standby

import (
	"flag"
	"math/rand/v2"
	"testing"
	"time"

	"plantstore/faults/rig"
)

var (
	long = flag.Bool("long", false, "run the long form: 300 failovers")
	seed = flag.Uint64("seed", 0, "`seed` of the faults; 0: random")
)

// roundsOfCluster is the number of rounds of a cluster, with a comparison after each few.
const (
	roundsOfCluster = 25
	roundsOfCheck   = 5
)

// TestFailover injects faults of all kinds.
func TestFailover(t *testing.T) {
	program := rig.Build(t, rig.HastyMerges...)
	setups := []setup{
		{bucket: true, sync: true, failover: 2 * time.Second},
		{bucket: false, sync: false, failover: 2 * time.Second},
		{bucket: false, sync: true, failover: 2 * time.Second},
		{bucket: true, sync: false, failover: 2 * time.Second},
	}
	rounds, failovers := roundsOfCluster, 75
	if !*long {
		setups, rounds, failovers = setups[:2], 3, 0
	}
	for _, s := range setups {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(rig.Seed(t, *seed), 0))
			var total result
			for total.clusters == 0 || total.failovers < failovers {
				run(t, &total, program, random, s, kinds, rounds)
			}
			total.log(t, s)
		})
	}
}

// TestKill measures the time from a kill of the owner until the standby is ready.
func TestKill(t *testing.T) {
	if !*long {
		t.Skip("only in the long form")
	}
	program := rig.Build(t)
	for _, s := range []setup{
		{bucket: false, sync: true, failover: 2 * time.Second}, {bucket: false, sync: true, failover: 10 * time.Second},
	} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			const clusters = 2
			random := rand.New(rand.NewPCG(rig.Seed(t, *seed), 0))
			var total result
			for range clusters {
				run(t, &total, program, random, s, kinds[:1], roundsOfCluster)
			}
			total.log(t, s)
		})
	}
}

// run adds the rounds of one cluster to a result, and fails the test after a violation.
func run(
	t *testing.T, total *result, program string, random *rand.Rand, s setup, from []kind, rounds int,
) {
	t.Helper()
	c := newCluster(t, program, random, s)
	for n, k := range c.deal(from, rounds) {
		c.round(k)
		if (n+1)%roundsOfCheck == 0 {
			c.check(c.settle())
		}
		if err := c.violated(); err != nil {
			t.Fatalf("%s: %v", k.name, err)
		}
	}
	r := c.finish()
	if err := c.violated(); err != nil {
		t.Fatal(err)
	}
	total.add(r)
}

// round injects faults of a kind, and waits until both machines are well.
func (c *cluster) round(k kind) {
	c.t.Helper()
	owner, standby := c.settle()
	c.pause(500 * time.Millisecond)
	begun := time.Now()
	k.run(c, owner, standby)
	c.settle()
	c.rounds++
	c.t.Logf("round %d: %s: %v", c.rounds, k.name, time.Since(begun).Round(time.Millisecond))
}
