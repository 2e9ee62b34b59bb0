//go:build linux

package power

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"plantstore/faults/rig"
)

// unsyncedCheckpoints overwrites the WAL although what was copied from it is
// not synced. The change of synchronous is one for the checkpoint only.
var unsyncedCheckpoints = rig.Weakness{
	File: "internal/sqlite/sqlite3/conn.go",
	Old:  "\tcode := lib.Xsqlite3_wal_checkpoint_v2(",
	New: `	if mode == Passive {
		_ = c.Exec("PRAGMA synchronous = OFF")
		defer func() { _ = c.Exec("PRAGMA synchronous = FULL") }()
	}
	code := lib.Xsqlite3_wal_checkpoint_v2(`,
}

// TestControl cuts the power of programs that leave out a sync: if nothing is
// lost there, the cuts of the other tests say nothing.
func TestControl(t *testing.T) {
	if *indexFlag >= 0 || *keptFlag != "" {
		t.Skip("only one image is looked at")
	}
	b := newBench(t)
	for number, c := range []struct {
		name string
		weak []rig.Weakness
	}{
		{"commits", []rig.Weakness{rig.NormalSync}},
		{"checkpoints", []rig.Weakness{earlyCheckpoints, unsyncedCheckpoints}},
	} {
		t.Run(c.name, func(t *testing.T) { b.control(t, rig.Build(t, c.weak...), number) })
	}
}

func (b *bench) control(t *testing.T, program string, number int) {
	number = 1<<20 + number*controlImages // apart from the recordings and cuts of the other tests
	r := b.record(t, run{
		program: program, start: b.empty, ledger: newLedger(), chance: b.chance(forLoad, number), long: loadTime, firstID: 1,
	})
	sum := &totals{recordings: 1, flushes: r.flushes, acked: len(r.ledger.acked)}
	for i := range controlImages {
		t.Run(fmt.Sprintf("image%d", i), func(t *testing.T) {
			chance := b.chance(forCut, number+i)
			at := 1 + chance.IntN(len(r.log))
			sum.unflushed += unflushed(r.log, at)
			dir, unmount := b.shelf.mount(t, r.start.cut(r.log, at, chance))
			defer unmount()
			db := filepath.Join(dir, storeName)
			// The mark would show the loss before it can be counted.
			if out, err := exec.CommandContext(t.Context(), "rm", "-f", db+"-mark").CombinedOutput(); err != nil {
				t.Fatalf("remove the mark: %v: %s", err, out)
			}
			sum.add(b.look(t, db, r.ledger.wantedAt(at), true))
		})
	}
	t.Logf("without a sync: %v", sum)
	if sum.lost+sum.unreadable == 0 {
		t.Errorf("a program that leaves out a sync lost nothing in %d cuts: the cuts are too soft", sum.images)
	}
}
