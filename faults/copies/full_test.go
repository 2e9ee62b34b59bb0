package copies

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// TestFull fills the disk of the destination and frees it again. Without --backup-sync, the server acknowledges plants
// all the time; with it, no acknowledged plant is lost.
func TestFull(t *testing.T) {
	program := rig.Build(t, rig.HastyMerges...)
	random := rand.New(rand.NewPCG(rig.Seed(t, *seed), 0))
	rounds := 2
	if *long {
		rounds = 20
	}
	for round := range rounds {
		m := emptyMachine(t, program, random, round%2 == 1)
		m.to = rig.Small(t, 48)
		if err := m.start(t, nil); err != nil {
			t.Fatal(err)
		}
		m.load(t)
		rig.Within(t, 5*time.Minute, pollEvery, "the destination has plants", func() bool {
			return m.acknowledged() > 100 && copiedTo(t, m.server, m.token).After(m.started)
		})
		ballast := rig.Ballast(t, m.to)
		rig.Within(t, 5*time.Minute, pollEvery, "a copy has failed", func() bool {
			return metric(t, m.server, m.token, "plantstore_copy_attempts_failed_total") > 0
		})
		if before := m.acknowledged(); !m.sync {
			rig.Within(t, 5*time.Minute, pollEvery, "the server acknowledges plants without the destination", func() bool {
				return m.acknowledged() > before+100
			})
		}
		freed := time.Now()
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		rig.Within(t, 5*time.Minute, pollEvery, "the destination has all again", func() bool {
			return copiedTo(t, m.server, m.token).After(freed)
		})
		if r := m.lose(t); len(r.violations) > 0 {
			t.Fatalf("sync %v: %d violations, the first: %v", m.sync, len(r.violations), r.violations[0])
		}
	}
}

const pollEvery = 20 * time.Millisecond
