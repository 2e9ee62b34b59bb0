package syscalls

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// attempt is one request with its outcome.
type attempt struct {
	id      int64
	name    string
	outcome rig.Outcome
	status  int
	sent    time.Time
}

// ledger records the requests of one run and their outcomes.
type ledger struct {
	mu       sync.Mutex
	attempts []attempt // guarded by mu; the attempts of one id are in order
}

// send sends one plant and records the outcome.
func (l *ledger) send(ctx context.Context, c *rig.Client, url string, id int64, name string) attempt {
	a := attempt{id: id, name: name, sent: time.Now()}
	a.outcome, a.status = c.Create(ctx, url, id, name)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts = append(l.attempts, a)
	return a
}

// load describes the requests of the clients.
type load struct {
	name            string
	clients, plants int // plants of each client
	first           int64
	replays         bool // send only stored plants
}

var (
	usual      = load{name: "usual", clients: 4, plants: 30, first: 1000}
	replayLoad = load{name: "replays", clients: 4, plants: 5, first: 1, replays: true}
	largeLoad  = load{name: "large", clients: 4, plants: 150, first: largeIDs}
	manyLoad   = load{name: "many", clients: 4, plants: 1500, first: 1000}
)

// play sends the load. A client repeats a request with an unknown outcome once, and stops after a request without a
// response: the server has ended or hangs.
func (l *ledger) play(ctx context.Context, w load, s *rig.Server) {
	var clients sync.WaitGroup
	for n := range w.clients {
		clients.Go(func() {
			c := newClient()
			defer c.Close()
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

// extra sends some invalid plants, conflicts and replays.
func (l *ledger) extra(ctx context.Context, c *rig.Client, url string, n, i int, id int64) {
	switch i {
	case 3:
		l.send(ctx, c, url, invalidIDs+int64(n), "\x00") // invalid JSON
	case 5:
		l.send(ctx, c, url, int64(1+n), nameOf(int64(1+n)))
	case 7:
		l.send(ctx, c, url, int64(1+n), "another name")
	case 9:
		l.send(ctx, c, url, id, nameOf(id))
	}
}

// invalidIDs is the first id of the invalid plants.
const invalidIDs = 500_000

// checkResponses fails the test on responses that no fault excuses. ended reports that the server ended by itself, so
// that some requests have no response.
func (l *ledger) checkResponses(t *testing.T, ended bool) {
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
			t.Errorf("plant %d with the name %.20q: status %d", a.id, a.name, a.status)
		}
	}
}

// check compares the plants of a store with the responses and returns the errors. prepared is the number of plants
// before the run.
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
		if name, stored := got[id]; !stored || name != nameOf(id) {
			wrong = append(wrong, fmt.Sprintf("plant %d was acknowledged; stored: %v, with the name %.20q", id, stored, name))
		}
	}
	for id, name := range got {
		if !must[id] && (!may[id] || name != nameOf(id)) {
			wrong = append(wrong, fmt.Sprintf("plant %d is stored with the name %.20q, which was never sent or was refused",
				id, name))
		}
	}
	return wrong
}

// acknowledged returns the acknowledged attempts that were sent after a time.
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
