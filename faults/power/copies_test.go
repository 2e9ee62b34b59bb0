//go:build linux

package power

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// TestCopies cuts the power of a server whose destination of backups is a directory on the same disk. A restore of that
// directory must have every acknowledged plant, and only plants that were sent.
func TestCopies(t *testing.T) {
	t.Parallel()
	if *indexFlag >= 0 || *keptFlag != "" {
		t.Skip("only one image is checked")
	}
	b := newBench(t)
	sum := &totals{}
	b.cutCopies(t, rig.Build(t, append(rig.HastyMerges, earlyCheckpoints)...), 1<<22, images()/copiesEach, sum)
	t.Logf("restored copies: %v", sum)
	if sum.lost+sum.changed+sum.foreign+sum.unreadable+sum.verify > 0 {
		t.Errorf("seed %d: the destination lost plants", b.seed)
	}
}

// One of so many cuts is one of a copy, too.
const copiesEach = 5

// TestCopiesControl shows that TestCopies detects segments that are not synced.
func TestCopiesControl(t *testing.T) {
	t.Parallel()
	if *indexFlag >= 0 || *keptFlag != "" {
		t.Skip("only one image is checked")
	}
	b := newBench(t)
	program := rig.Build(t, append(rig.HastyMerges, rig.Weakness{
		File: "internal/backup/directory.go",
		Old:  "\treturn safefile.Write(d.location(name), content, true)\n",
		New: "\tif strings.HasSuffix(name, \".zst\") {\n\t\treturn os.WriteFile(d.location(name), content, 0o600)\n\t}\n" +
			"\treturn safefile.Write(d.location(name), content, true)\n",
	})...)
	sum := &totals{}
	for i := 0; i < controlRecordings && sum.lost+sum.unreadable == 0; i++ {
		b.cutCopies(t, program, 1<<23+i*controlImages, controlImages, sum)
	}
	t.Logf("program without a sync of copies: %v", sum)
	if sum.lost+sum.unreadable == 0 {
		t.Errorf("a program that does not sync its copies lost nothing in %d cuts; the cuts prove nothing", sum.images)
	}
}

// cutCopies makes recordings, and cuts with numbers from a first one, and adds the findings to sum.
func (b *bench) cutCopies(t *testing.T, program string, first, images int, sum *totals) {
	var r *recording
	for i := range images {
		if i%perRecording == 0 {
			r = b.record(t, run{
				program: program, start: b.empty, ledger: newLedger(), random: b.random(forCopies, first+i),
				duration: loadTime + time.Second, firstID: 1, copied: true,
			})
			sum.recordings++
			sum.flushes += r.flushes
			sum.acked += r.ledger.acked()
		}
		t.Run(fmt.Sprintf("image%d", first+i), func(t *testing.T) {
			random := b.random(forCut, first+i)
			at := 1 + random.IntN(len(r.log))
			sum.unflushed += unflushed(r.log, at)
			d, w := r.start.cut(r.log, at, random), r.ledger.wantedAt(at)
			dir, unmount := b.disks.mount(t, d)
			defer unmount()
			f := b.checkCopies(t, filepath.Join(dir, copiesName), w)
			sum.add(f)
			if !f.ok() {
				t.Logf("seed %d, image %d: of %d acknowledged plants: %v", b.seed, first+i, len(w.kept()), f)
			}
		})
	}
}

// checkCopies restores a destination. Before the first acknowledgement it may have no backup.
func (b *bench) checkCopies(t *testing.T, copies string, w wanted) *findings {
	t.Helper()
	f, db := &findings{}, filepath.Join(t.TempDir(), storeName)
	command := exec.CommandContext(t.Context(), b.program, "restore", copies, "--db", db)
	if out, err := command.CombinedOutput(); err != nil {
		if len(w.kept()) > 0 {
			f.unreadable = fmt.Sprintf("restore: %v: %s", err, out)
		}
		return f
	}
	return b.check(t, db, w, true)
}
