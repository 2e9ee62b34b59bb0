// Package history has clients create plants while the server is killed, again
// and again, and checks what they were told: that for each id there is an order
// in which it all could have happened, and that the store has in the end what
// the answers promised.
//
// A kill takes nothing from the system's cache, so a commit without a sync is not
// noticed here.
//
// The short form takes less than a minute:
//
//	go test ./history
//
// The long form, the one that is about kills, and one that ends in time:
//
//	go test ./history -run TestHistory -v -timeout 0 -seeds 100 -ops 100000
//	go test ./history -run TestHistory -v -timeout 0 -seeds 1 -ops 200000 -kills 2000
//	go test ./history -run TestHistory -v -timeout 0 -seeds 100 -ops 100000 -for 8m
package history

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"plantstore/faults/rig"
)

var (
	seed    = flag.Uint64("seed", 0, "the first seed, which decides the operations but not when they happen; 0: another each time")
	seeds   = flag.Int("seeds", 2, "how many seeds, counted from the first")
	ops     = flag.Int("ops", 5000, "operations of each seed")
	kills   = flag.Int("kills", 10, "how often each seed kills the server")
	limit   = flag.Duration("for", 0, "begin no seed after that `time`; 0: begin all")
	clients = flag.Int("clients", 8, "how many clients work at the same time")
)

// Ready is promised within a second, on a machine that has nothing else to do.
const restartMax = 5 * time.Second

func TestHistory(t *testing.T) {
	program := rig.Build(t)
	from := rig.Seed(t, *seed)
	var slowest time.Duration
	var done, operations, requests, killed int
	begun := time.Now()
	for i := range *seeds {
		if *limit > 0 && time.Since(begun) > *limit {
			break
		}
		s := from + uint64(i)
		t.Run(fmt.Sprint("seed=", s), func(t *testing.T) {
			r, err := execute(t, program, options{seed: s, operations: *ops, kills: *kills, clients: *clients})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(r)
			if err := first(r.faults()); err != nil {
				t.Error(err)
			}
			if r.slowest() > restartMax {
				t.Errorf("a restart took %s, want at most %s", r.slowest(), restartMax)
			}
			done++
			slowest = max(slowest, r.slowest())
			operations, requests, killed = operations+r.operations, requests+len(r.requests), killed+r.kills+r.startKills
		})
	}
	t.Logf("in all: %d seeds, %d operations, %d requests, %d kills, slowest restart %s", done, operations, requests, killed, slowest)
}

// TestEarlyAnswer shows that plants are missed that were answered before they
// were stored.
func TestEarlyAnswer(t *testing.T) {
	program := rig.Build(t, rig.EarlyAnswer)
	from := rig.Seed(t, *seed)
	const rounds = 10
	killed := 0
	for i := range rounds {
		r, err := execute(t, program, options{seed: from + uint64(i), operations: 2000, kills: 20, clients: *clients})
		if err != nil {
			t.Fatal(err)
		}
		killed += r.kills
		if len(r.set.lost) > 0 {
			t.Logf("caught after %d kills: %s\n%v", killed, r, r.set.lost[0])
			return
		}
	}
	t.Errorf("nothing was missed after %d kills", killed)
}

// conflictReplayed answers another plant as if it were the stored one.
var conflictReplayed = rig.Weakness{
	File: "internal/sqlite/write.go",
	Old:  "conflict := plant.Differences(c.Plant.Plant, stored)",
	New:  "conflict := plant.Differences(stored, stored)",
}

// replayUntold answers a plant that was there as if it were new.
var replayUntold = rig.Weakness{
	File: "internal/server/plants.go",
	Old:  "if replayed {",
	New:  "if replayed && false {",
}

// lastWins stores the later of two plants.
var lastWins = rig.Weakness{
	File: "internal/sqlite/write.go",
	Old:  "ON CONFLICT DO NOTHING",
	New:  "ON CONFLICT DO UPDATE SET name = excluded.name, tag = excluded.tag, digest = excluded.digest",
}

// TestWrongAnswers shows that answers that fit no order are noticed, also
// without a kill.
func TestWrongAnswers(t *testing.T) {
	for name, weak := range map[string]rig.Weakness{
		"conflict answered as replayed": conflictReplayed,
		"replayed answered as created":  replayUntold,
		"the last one wins":             lastWins,
	} {
		t.Run(name, func(t *testing.T) {
			r, err := execute(t, rig.Build(t, weak), options{seed: rig.Seed(t, *seed), operations: 1000, clients: *clients})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.illegal) == 0 {
				t.Fatalf("nothing was noticed: %s", r)
			}
			t.Logf("caught: %s\n%v", r, r.illegal[0])
		})
	}
}
