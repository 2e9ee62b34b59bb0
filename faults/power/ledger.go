//go:build linux

package power

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// ledger records the plants that the clients sent and their outcomes.
type ledger struct {
	mu     sync.Mutex
	sent   map[int64]string // the first name of each id; guarded by mu
	acked  map[int64]int    // position of the log at the first 200 of each id; guarded by mu
	faults []string         // wrong responses; guarded by mu
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

// drainFaults returns the wrong responses since the last call.
func (l *ledger) drainFaults() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	faults := l.faults
	l.faults = nil
	return faults
}

// wanted is the expected content of a store: it must have the acknowledged plants, and may have the sent ones.
type wanted struct {
	Acked map[int64]bool
	Sent  map[int64]string
}

// wantedAt returns the expected content after a cut at a position of the log.
func (l *ledger) wantedAt(at int) wanted {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := wanted{Acked: map[int64]bool{}, Sent: maps.Clone(l.sent)}
	for id, acked := range l.acked {
		if acked <= at {
			w.Acked[id] = true
		}
	}
	return w
}

// ledgerOf returns a ledger after a cut: plants acknowledged before it are acknowledged from the start of the new log.
func ledgerOf(w wanted) *ledger {
	l := newLedger()
	l.sent = maps.Clone(w.Sent)
	for id := range w.Acked {
		l.acked[id] = 0
	}
	return l
}

// findings are the faults of a store after a cut.
type findings struct {
	lost, changed, foreign int
	unreadable, verify     string // output of a failed export and verify; empty without a failure
}

func (f *findings) ok() bool { return *f == findings{} }

func (f *findings) String() string {
	return fmt.Sprintf("%d lost, %d changed, %d never sent\nexport: %s\nverify: %s",
		f.lost, f.changed, f.foreign, f.unreadable, f.verify)
}

// compare counts the differences between the plants of a store and the expected content.
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

// unacked returns the ids of plants that were sent but not acknowledged before a cut, in order.
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

// name returns the first name of an id.
func (l *ledger) name(id int64) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent[id]
}
