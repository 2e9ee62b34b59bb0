//go:build linux

package power

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// Of so many cuts in a running store, one is made in a store that comes to be.
const (
	creationEach = 10
	creationMin  = 12
)

// TestCreation cuts the power while a store is made, and while it is young:
// what is left can be served, and knows the token if that was handed out.
func TestCreation(t *testing.T) {
	if *indexFlag >= 0 || *keptFlag != "" {
		t.Skip("only one image is looked at")
	}
	b := newBench(t)
	handedOut := 0
	r := b.record(t, run{
		program: b.program, start: b.bare, ledger: newLedger(), chance: b.chance(forLoad, 1<<21), long: 300 * time.Millisecond, firstID: 1,
		prepare: func(dir string, d *disk) {
			b.token = rig.Token(t, b.program, filepath.Join(dir, storeName), "power")
			handedOut = d.position()
		},
	})
	sum := &totals{recordings: 1, flushes: r.flushes, acked: len(r.ledger.acked)}
	for i := range max(creationMin, images()/creationEach) {
		t.Run(fmt.Sprintf("image%d", i), func(t *testing.T) {
			chance := b.chance(forCreation, i)
			end := len(r.log)
			if i%3 > 0 { // most of them before the server was ready
				end = r.ready
			}
			at := 1 + chance.IntN(end)
			sum.unflushed += unflushed(r.log, at)
			d, w := r.start.cut(r.log, at, chance), r.ledger.wantedAt(at)
			b.judgeYoung(t, d, w, at >= handedOut, sum)
			if t.Failed() {
				t.Logf("seed %d, cut at %d of %d; the token was handed out at %d, the server ready at %d", b.seed, at, len(r.log), handedOut, r.ready)
				sum.keep(t, d, w)
			}
		})
	}
	t.Logf("new stores: %v", sum)
}

// judgeYoung serves a store that may not have been made whole.
func (b *bench) judgeYoung(t *testing.T, d *disk, w wanted, handedOut bool, sum *totals) {
	t.Helper()
	dir, unmount := b.shelf.mount(t, d.clone(false))
	defer unmount()
	db := filepath.Join(dir, storeName)
	server, err := rig.Start(t, b.program, db, nil)
	if err != nil {
		t.Error(err)
		return
	}
	if handedOut {
		const id = 1 << 40 // nobody else's
		w.Sent[id], w.Acked[id] = "after the cut", true
		client := rig.Client{Token: b.token, HTTP: http.Client{Transport: &http.Transport{}}}
		outcome, status := client.Create(t.Context(), server.URL, id, w.Sent[id])
		client.HTTP.CloseIdleConnections()
		if outcome != rig.Stored {
			t.Errorf("a plant with the token that was handed out: outcome %d, status %d", outcome, status)
		}
	}
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with code %d:\n%s", code, server.Log())
	}
	f := b.look(t, db, w, true)
	sum.add(f)
	if !f.ok() {
		t.Errorf("of %d acknowledged plants: %v", len(w.Acked), f)
	}
}
