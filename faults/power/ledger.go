//go:build linux

package power

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// ledger is what clients know of the plants that they sent.
type ledger struct {
	mu     sync.Mutex
	sent   map[int64]string // the content under which an id can be stored; guarded by mu
	acked  map[int64]int    // where the log was when a 200 had come; guarded by mu
	faults []string         // answers that are wrong; guarded by mu
}

func newLedger() *ledger {
	return &ledger{sent: map[int64]string{}, acked: map[int64]int{}}
}

func (l *ledger) send(id int64, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent[id] = name
}

func (l *ledger) ack(id int64, at int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, again := l.acked[id]; !again {
		l.acked[id] = at
	}
}

func (l *ledger) fault(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.faults = append(l.faults, fmt.Sprintf(format, args...))
}

// takeFaults returns the wrong answers since the last call.
func (l *ledger) takeFaults() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	faults := l.faults
	l.faults = nil
	return faults
}

// wanted is what must be in a store, and what may be.
type wanted struct {
	Acked map[int64]bool
	Sent  map[int64]string
}

// wantedAt is what a cut at a point of the log must leave.
func (l *ledger) wantedAt(at int) wanted {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := wanted{Acked: map[int64]bool{}, Sent: maps.Clone(l.sent)}
	for id, answered := range l.acked {
		if answered <= at {
			w.Acked[id] = true
		}
	}
	return w
}

// ledgerOf begins a ledger after a cut: what was acknowledged before it is
// acknowledged from the start of the new log on.
func ledgerOf(w wanted) *ledger {
	l := newLedger()
	l.sent = maps.Clone(w.Sent)
	for id := range w.Acked {
		l.acked[id] = 0
	}
	return l
}

// findings is what is wrong with a store after a cut.
type findings struct {
	lost, changed, foreign int
	unreadable, verify     string // what the program said; empty is good
}

func (f *findings) ok() bool { return *f == findings{} }

func (f *findings) String() string {
	return fmt.Sprintf("%d lost, %d changed, %d never sent\nexport: %s\nverify: %s",
		f.lost, f.changed, f.foreign, f.unreadable, f.verify)
}

// compare holds the plants of a store against what must be there.
func (f *findings) compare(plants map[int64]string, w wanted) {
	for id, name := range plants {
		switch sent, ok := w.Sent[id]; {
		case !ok:
			f.foreign++
		case sent != name:
			f.changed++
		}
	}
	for id := range w.Acked {
		if _, ok := plants[id]; !ok {
			f.lost++
		}
	}
}

// unacked are the plants that were sent, but not acknowledged before a cut,
// in order.
func (w wanted) unacked() []int64 {
	var ids []int64
	for id := range w.Sent {
		if !w.Acked[id] {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// content is what an id was first sent with.
func (l *ledger) content(id int64) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent[id]
}
