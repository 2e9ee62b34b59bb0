//go:build linux

package power

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"

	"plantstore/faults/rig"
)

// unsyncedCheckpoints restarts the WAL before the copied pages are synced. It disables synchronous for the checkpoint
// only.
var unsyncedCheckpoints = rig.Weakness{
	File: "internal/sqlite/sqlite3/conn.go",
	Old:  "\tcode := lib.Xsqlite3_wal_checkpoint_v2(",
	New: `	if mode == Passive {
		_ = c.Exec("PRAGMA synchronous = OFF")
		defer func() { _ = c.Exec("PRAGMA synchronous = FULL") }()
	}
	code := lib.Xsqlite3_wal_checkpoint_v2(`,
}

// TestControl cuts the power of programs that omit a sync, which must lose plants: otherwise the cuts of the other
// tests prove nothing.
func TestControl(t *testing.T) {
	t.Parallel()
	if *indexFlag >= 0 || *keptFlag != "" {
		t.Skip("only one image is checked")
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

// control makes recordings until a cut loses something. On a busy machine a recording has few syncs, and its cuts may
// lose nothing.
func (b *bench) control(t *testing.T, program string, number int) {
	sum := &totals{}
	for i := 0; i < controlRecordings && sum.lost+sum.unreadable == 0; i++ {
		b.controlOnce(t, program, 1<<20+(number*controlRecordings+i)*controlImages, sum)
	}
	t.Logf("program without a sync: %v", sum)
	if sum.lost+sum.unreadable == 0 {
		t.Errorf("a program that omits a sync lost nothing in %d cuts; the cuts prove nothing", sum.images)
	}
}

// controlOnce makes the recording with a number, which no other test has, and its cuts.
func (b *bench) controlOnce(t *testing.T, program string, number int, sum *totals) {
	r := b.record(t, run{
		program: program, start: b.empty, ledger: newLedger(), random: b.random(forLoad, number),
		duration: loadTime, firstID: 1, weak: true,
	})
	sum.recordings++
	sum.flushes += r.flushes
	sum.acked += r.ledger.acked()
	for i := range controlImages {
		t.Run(fmt.Sprintf("image%d", number+i), func(t *testing.T) {
			random := b.random(forCut, number+i)
			at := 1 + random.IntN(len(r.log))
			sum.unflushed += unflushed(r.log, at)
			dir, unmount := b.disks.mount(t, r.start.cut(r.log, at, random))
			defer unmount()
			db := filepath.Join(dir, storeName)
			// The commit mark would reveal the loss before the plants are counted.
			if out, err := exec.CommandContext(t.Context(), "rm", "-f", db+"-mark").CombinedOutput(); err != nil {
				t.Fatalf("remove the commit mark: %v: %s", err, out)
			}
			sum.add(b.check(t, db, r.ledger.wantedAt(at), true))
		})
	}
}
