//go:build linux

package power

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

// ledger records what the clients and the operator asked for, and the outcomes.
type ledger struct {
	mu     sync.Mutex
	states map[int64][]state // of each id, one after the other; guarded by mu
	faults []string          // wrong responses; guarded by mu
}

// state is what a request stores under an id: one of the names; the empty name stands for no plant.
type state struct {
	names []string
	acked int // position of the log at the first 200; notAcked
}

const notAcked = math.MaxInt

func newLedger() *ledger { return &ledger{states: map[int64][]state{}} }

// send records a request that stores a name under an id, or erases its plant if the name is empty.
func (l *ledger) send(id int64, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.states[id] = append(l.states[id], state{[]string{name}, notAcked})
}

// ack records that the last request for an id, or a replay of it, was acknowledged.
func (l *ledger) ack(id int64, at int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := &l.states[id][len(l.states[id])-1]
	last.acked = min(last.acked, at)
}

// acked returns the number of acknowledged requests without replays.
func (l *ledger) acked() (count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, states := range l.states {
		for _, s := range states {
			if s.acked != notAcked {
				count++
			}
		}
	}
	return count
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

// wanted is the expected content of a store: for each id that was sent, the names that it may have. The empty name
// stands for no plant.
type wanted map[int64][]string

// wantedAt returns the expected content after a cut at a position of the log: the last state that was acknowledged
// before it, or a later one.
func (l *ledger) wantedAt(at int) wanted {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := wanted{}
	for id, states := range l.states {
		names := []string{""}
		for _, s := range states {
			if s.acked <= at {
				names = nil
			}
			names = append(names, s.names...)
		}
		w[id] = names
	}
	return w
}

// ledgerOf returns a ledger after a cut: what the store then had is acknowledged from the start of the new log.
func ledgerOf(w wanted) *ledger {
	l := newLedger()
	for id, names := range w {
		l.states[id] = []state{{names, 0}}
	}
	return l
}

// kept returns the ids that must have a plant, in order.
func (w wanted) kept() (ids []int64) {
	for id, names := range w {
		if !slices.Contains(names, "") {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// again returns the ids whose create may be repeated, in order: those with one name, of which known must be stored.
func (w wanted) again() (unknown, known []int64) {
	for id, names := range w {
		switch {
		case len(names) == 1 && names[0] != "":
			known = append(known, id)
		case len(names) == 2 && names[0] == "" && names[1] != "":
			unknown = append(unknown, id)
		}
	}
	slices.Sort(unknown)
	slices.Sort(known)
	return unknown, known
}

// findings are the faults of a store after a cut.
type findings struct {
	lost, changed, foreign int
	unreadable, verify     string // output of a failed export and verify; empty without a failure
}

func (f *findings) ok() bool { return *f == findings{} }

func (f *findings) String() string {
	return fmt.Sprintf("%d lost, %d changed or not erased, %d never sent\nexport: %s\nverify: %s",
		f.lost, f.changed, f.foreign, f.unreadable, f.verify)
}

// compare counts the differences between the plants of a store and the expected content.
func (f *findings) compare(plants map[int64]string, w wanted) {
	for id, name := range plants {
		switch names, ok := w[id]; {
		case !ok:
			f.foreign++
		case !slices.Contains(names, name): // or it was erased
			f.changed++
		}
	}
	for _, id := range w.kept() {
		if _, ok := plants[id]; !ok {
			f.lost++
		}
	}
}

// name returns the name that the last request for an id stores.
func (l *ledger) name(id int64) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := l.states[id][len(l.states[id])-1].names
	return names[len(names)-1]
}
