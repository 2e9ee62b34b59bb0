package standby

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"plantstore/client"
)

// ledger is what the clients know.
type ledger struct {
	mu         sync.Mutex          // guards all fields
	sent       map[int64]bool      // plants
	acks       map[int64]time.Time // first acknowledgements
	all        []acknowledgement   // in the order of their responses
	recent     [512]int64          // plants that clients send again; 0: none
	doubled    int                 // plants that were created again after their acknowledgement
	violations []error
}

// acknowledgement is a response with 200.
type acknowledgement struct {
	machine        int
	sent, received time.Time
}

func nameOf(id int64) string { return fmt.Sprintf("Plant %d", id) }

// violate records that the servers have broken a promise.
func (l *ledger) violate(form string, values ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violations = append(l.violations, fmt.Errorf(form, values...))
}

// violated returns the first violations.
func (l *ledger) violated() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.violations) == 0 {
		return nil
	}
	return fmt.Errorf("%d violations, the first: %w",
		len(l.violations), errors.Join(l.violations[:min(5, len(l.violations))]...))
}

// acknowledged returns the plants that were acknowledged, with the times of the first responses.
func (l *ledger) acknowledged() map[int64]time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[int64]time.Time, len(l.acks))
	for id, at := range l.acks {
		all[id] = at
	}
	return all
}

// acknowledgements returns the number of responses with 200 of a machine.
func (l *ledger) acknowledgements(machine int) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.all {
		if a.machine == machine {
			n++
		}
	}
	return n
}

// firstAfter returns when a machine first acknowledged a plant after a time, or the zero time if it has not.
func (l *ledger) firstAfter(machine int, at time.Time) (first time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range slices.Backward(l.all) {
		switch {
		case a.received.Before(at):
			return first
		case a.machine == machine:
			first = a.received
		}
	}
	return first
}

// next returns the id of a plant to send: mostly a new one.
func (l *ledger) next(random *rand.Rand) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := random.IntN(len(l.recent))
	if id := l.recent[at]; id != 0 && random.IntN(5) == 0 {
		return id
	}
	id := random.Int64()
	l.sent[id], l.recent[at] = true, id
	return id
}

// stored records an acknowledgement.
func (l *ledger) stored(machine int, id int64, sent time.Time, replayed, sync bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	before, isKnown := l.acks[id]
	if !isKnown {
		l.acks[id] = now
	}
	l.all = append(l.all, acknowledgement{machine, sent, now})
	if replayed || !isKnown || !before.Before(sent) {
		return
	}
	l.doubled++
	if sync {
		l.violations = append(l.violations,
			fmt.Errorf("plant %d was created again at %v, acknowledged at %v", id, sent, before))
	}
}

// create creates plants until ctx ends. It sends a plant to both servers in turn until one acknowledges it.
func (l *ledger) create(ctx context.Context, clients [2]*client.Client, random *rand.Rand, sync bool) {
	const pauseMax = 20 * time.Millisecond
	at := random.IntN(len(clients))
	for ctx.Err() == nil {
		for id := l.next(random); ctx.Err() == nil; {
			sent := time.Now()
			p, err := clients[at].Create(ctx, client.NewPlant{ID: id, Name: nameOf(id)})
			e, isRefusal := errors.AsType[*client.Error](err)
			switch {
			case err == nil && p.Name != nameOf(id), isRefusal && e.Status >= 400 && e.Status < 500:
				l.violate("plant %d: got %+v, %v", id, p, err)
			case err == nil:
				l.stored(at, id, sent, p.Replayed, sync)
			}
			select {
			case <-time.After(rand.N(pauseMax)):
			case <-ctx.Done():
			}
			if err == nil {
				break
			}
			at = 1 - at
		}
	}
}
