package syscalls

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// attempt is one request and its answer.
type attempt struct {
	id      int64
	name    string
	outcome rig.Outcome
	status  int
	sent    time.Time
}

// ledger is what the clients of one run sent, and what they were answered.
type ledger struct {
	mu       sync.Mutex
	attempts []attempt // guarded by mu; those of one id are in order
}

// send sends one plant and notes the answer.
func (l *ledger) send(ctx context.Context, c *rig.Client, url string, id int64, name string) attempt {
	a := attempt{id: id, name: name, sent: time.Now()}
	a.outcome, a.status = c.Create(ctx, url, id, name)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts = append(l.attempts, a)
	return a
}

// load is what the clients send.
type load struct {
	name            string
	clients, plants int // plants of each client
	first           int64
	replays         bool // only plants that the store has
}

var (
	usual      = load{name: "usual", clients: 4, plants: 30, first: 1000}
	replayLoad = load{name: "replays", clients: 4, plants: 5, first: 1, replays: true}
	largeLoad  = load{name: "large", clients: 4, plants: 150, first: largeIDs}
	manyLoad   = load{name: "many", clients: 4, plants: 1500, first: 1000}
)

// play sends the load. An unknown plant is sent once more. A client stops when
// nobody answers, because the server has ended or hangs.
func (l *ledger) play(ctx context.Context, w load, s *rig.Server) {
	var clients sync.WaitGroup
	for n := range w.clients {
		clients.Go(func() {
			c := newClient()
			defer c.HTTP.CloseIdleConnections()
			for i := range w.plants {
				id := w.first + int64(n*w.plants+i)
				a := l.send(ctx, c, s.URL, id, nameOf(id))
				if a.outcome == rig.Unknown {
					a = l.send(ctx, c, s.URL, id, nameOf(id))
				}
				if a.status == 0 {
					return
				}
				if !w.replays {
					l.extra(ctx, c, s.URL, n, i, id)
				}
			}
		})
	}
	clients.Wait()
}

// extra sends, now and then, what must be refused, and what is there already.
func (l *ledger) extra(ctx context.Context, c *rig.Client, url string, n, i int, id int64) {
	switch i {
	case 3:
		l.send(ctx, c, url, invalidIDs+int64(n), "\x00") // no JSON
	case 5:
		l.send(ctx, c, url, int64(1+n), nameOf(int64(1+n)))
	case 7:
		l.send(ctx, c, url, int64(1+n), "another name")
	case 9:
		l.send(ctx, c, url, id, nameOf(id))
	}
}

// invalidIDs are those of plants that are sent in a form that is no plant.
const invalidIDs = 500_000

// checkAnswers looks for answers that no fault excuses. Ended says that the
// server ended by itself, so that some requests found nobody.
func (l *ledger) checkAnswers(t *testing.T, ended bool) {
	t.Helper()
	for _, a := range l.attempts {
		bad := a.status != 200 && a.status != 503 && a.status != 507
		switch {
		case a.status == 0:
			bad = !ended
		case a.id >= invalidIDs && a.id < largeIDs:
			bad = a.outcome != rig.Refused && a.status != 503
		case a.name != nameOf(a.id): // the name of another plant
			bad = a.outcome != rig.Conflict && a.status != 503
		}
		if bad {
			t.Errorf("plant %d with the name %.20q was answered %d", a.id, a.name, a.status)
		}
	}
}

// check holds what a store has against what was answered, and returns what is
// wrong. Prepared is how many plants it had before.
func (l *ledger) check(prepared int64, got map[int64]string) (wrong []string) {
	must, may := map[int64]bool{}, map[int64]bool{}
	for id := range prepared {
		must[id+1] = true
	}
	for _, a := range l.attempts {
		switch a.outcome {
		case rig.Stored:
			must[a.id] = true
		case rig.Unknown:
			may[a.id] = may[a.id] || a.name == nameOf(a.id)
		}
	}
	for id := range must {
		if name, there := got[id]; !there || name != nameOf(id) {
			wrong = append(wrong, fmt.Sprintf("plant %d was answered 200, and is there: %v, with the name %.20q", id, there, name))
		}
	}
	for id, name := range got {
		if !must[id] && (!may[id] || name != nameOf(id)) {
			wrong = append(wrong, fmt.Sprintf("plant %d is there with the name %.20q, and was never sent or was refused", id, name))
		}
	}
	return wrong
}

// acknowledged returns the attempts that were sent after a time and answered 200.
func (l *ledger) acknowledged(after time.Time) (found []attempt) {
	for _, a := range l.attempts {
		if a.outcome == rig.Stored && !a.sent.Before(after) {
			found = append(found, a)
		}
	}
	return found
}

func (l *ledger) count() (stored, unknown, busy int) {
	for _, a := range l.attempts {
		switch a.outcome {
		case rig.Stored:
			stored++
		case rig.Unknown:
			unknown++
		case rig.Busy:
			busy++
		}
	}
	return stored, unknown, busy
}
