//go:build linux

package power

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// The number of cuts in a new store: one for each creationEach cuts in a running store, and at least creationMin.
const (
	creationEach = 10
	creationMin  = 12
)

// TestCreation cuts the power during and soon after the creation of a store. A server must be able to serve the store,
// and must have the token if the command printed it before the cut.
func TestCreation(t *testing.T) {
	t.Parallel()
	if *indexFlag >= 0 || *keptFlag != "" {
		t.Skip("only one image is checked")
	}
	b := newBench(t)
	tokenPrinted := 0
	r := b.record(t, run{
		program: b.program, start: b.bare, ledger: newLedger(), random: b.random(forLoad, 1<<21),
		duration: 300 * time.Millisecond, firstID: 1,
		prepare: func(dir string, d *disk) {
			b.token = rig.Token(t, b.program, filepath.Join(dir, storeName), "power")
			tokenPrinted = d.position()
		},
	})
	sum := &totals{recordings: 1, flushes: r.flushes, acked: r.ledger.acked()}
	for i := range max(creationMin, images()/creationEach) {
		t.Run(fmt.Sprintf("image%d", i), func(t *testing.T) {
			random := b.random(forCreation, i)
			end := len(r.log)
			if i%3 > 0 { // most cuts come before the server is ready
				end = r.ready
			}
			at := 1 + random.IntN(end)
			sum.unflushed += unflushed(r.log, at)
			d, w := r.start.cut(r.log, at, random), r.ledger.wantedAt(at)
			b.checkNew(t, d, w, at >= tokenPrinted, sum)
			if t.Failed() {
				t.Logf("seed %d, cut at %d of %d; the token was printed at %d, the server ready at %d",
					b.seed, at, len(r.log), tokenPrinted, r.ready)
				sum.save(t, d, w)
			}
		})
	}
	t.Logf("new stores: %v", sum)
}

// checkNew serves a store whose creation a cut may have interrupted.
func (b *bench) checkNew(t *testing.T, d *disk, w wanted, tokenPrinted bool, sum *totals) {
	t.Helper()
	dir, unmount := b.disks.mount(t, d.clone(false))
	defer unmount()
	db := filepath.Join(dir, storeName)
	server, err := rig.Start(t, b.program, db, nil)
	if err != nil {
		t.Error(err)
		return
	}
	if tokenPrinted {
		const id = 1 << 40 // unused by the load
		const name = "after the cut"
		w[id] = []string{name}
		client := &rig.Client{Token: b.token}
		outcome, status := client.Create(t.Context(), server.URL, id, name)
		client.Close()
		if outcome != rig.Stored {
			t.Errorf("a plant with the printed token: outcome %d, status %d", outcome, status)
		}
	}
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with code %d:\n%s", code, server.Log())
	}
	f := b.check(t, db, w, true)
	sum.add(f)
	if !f.ok() {
		t.Errorf("of %d acknowledged plants: %v", len(w.kept()), f)
	}
}
