package failover

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"plantstore/faults/rig"
)

const (
	clients    = 4
	plantEvery = 20 * time.Millisecond
	againAfter = 200 * time.Millisecond
	answerMax  = 5 * time.Second // for one attempt of a client
)

// load is clients that create plants, and what they know of them. A client
// sends a plant until it is acknowledged, to one server after the other; now and
// then it sends one again that is.
type load struct {
	servers []*rig.Server
	token   string
	stop    context.CancelFunc
	clients sync.WaitGroup

	mu      sync.Mutex
	sent    map[int64]string // guarded by mu
	acked   map[int64]bool   // guarded by mu
	faults  []string         // answers that are wrong; guarded by mu
	answers []answer         // since the last mark; guarded by mu
}

// answer is one attempt of a client.
type answer struct {
	client    int
	begun, at time.Time
	stored    bool
}

// newLoad starts two servers on a cluster, and the clients.
func newLoad(t testing.TB, program string, c *cluster, seed uint64) *load {
	t.Helper()
	l := &load{token: rig.Token(t, program, c.url(), "failover"), sent: map[int64]string{}, acked: map[int64]bool{}}
	for range 2 {
		server, err := rig.Start(t, program, c.url(), nil, c.flags...)
		if err != nil {
			t.Fatal(err)
		}
		l.servers = append(l.servers, server)
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("--- server\n%s", server.Log())
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	l.stop = cancel
	for i := range clients {
		l.clients.Go(func() { l.client(ctx, i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	t.Cleanup(l.end)
	return l
}

// end ends the clients, and waits.
func (l *load) end() {
	l.stop()
	l.clients.Wait()
}

func (l *load) client(ctx context.Context, number int, chance *rand.Rand) {
	const first = 1 << 20 // ids of a client, of which there are enough
	c := &rig.Client{Token: l.token}
	c.HTTP.Timeout = answerMax
	tick := time.NewTicker(plantEvery)
	defer tick.Stop()
	for made := int64(0); ; {
		id := int64(number)*first + made
		if made > 0 && chance.IntN(8) == 0 {
			id -= 1 + chance.Int64N(min(made, 100)) // once more
		} else {
			made++
		}
		name := fmt.Sprintf("plant %d of client %d", id, number)
		for server := chance.IntN(len(l.servers)); !l.send(ctx, c, number, l.servers[server].URL, id, name); server = (server + 1) % len(l.servers) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(againAfter):
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// send makes one attempt, and reports whether the plant is acknowledged.
func (l *load) send(ctx context.Context, c *rig.Client, number int, url string, id int64, name string) bool {
	l.mu.Lock()
	l.sent[id] = name
	l.mu.Unlock()
	begun := time.Now()
	outcome, status := c.Create(ctx, url, id, name)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch outcome {
	case rig.Stored:
		l.acked[id] = true
	case rig.Conflict, rig.Refused: // only this client has the id, and one content for it
		l.faults = append(l.faults, fmt.Sprintf("plant %d: answered with %d", id, status))
	case rig.Busy, rig.Unknown:
	}
	l.answers = append(l.answers, answer{number, begun, time.Now(), outcome == rig.Stored})
	return outcome == rig.Stored
}

// mark begins a new measurement.
func (l *load) mark() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = nil
}

// storedAfter counts the plants that were sent after a moment and acknowledged.
func (l *load) storedAfter(moment time.Time) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.answers {
		if a.stored && a.begun.After(moment) {
			n++
		}
	}
	return n
}

// triedAfter reports whether each client has made two attempts since a moment.
func (l *load) triedAfter(moment time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	var tried [clients]int
	for _, a := range l.answers {
		if a.begun.After(moment) {
			tried[a.client]++
		}
	}
	return slices.Min(tried[:]) >= 2
}

// goesOn waits until a plant is stored that was sent after a moment.
func (l *load) goesOn(t testing.TB, moment time.Time) {
	t.Helper()
	rig.Within(t, wholeMax, pollEvery, "plants are stored", func() bool { return l.storedAfter(moment) > 0 })
}

// standstill is the longest time without an acknowledgement from a moment until
// the last one.
func (l *load) standstill(from time.Time) (longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.answers { // in the order in which they came
		if a.stored && a.at.After(from) {
			longest = max(longest, a.at.Sub(from))
			from = a.at
		}
	}
	return longest
}

// check reads all plants from one host, holds them against what was acknowledged
// before, and returns how much that was.
func (l *load) check(t testing.TB, program string, h *host) int {
	t.Helper()
	l.mu.Lock()
	acked := maps.Clone(l.acked)
	l.mu.Unlock()
	plants, err := rig.Export(t, program, urlOf(h))
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, fault := range l.faults {
		t.Error(fault)
	}
	for id := range acked {
		if _, ok := plants[id]; !ok {
			t.Errorf("plant %d was acknowledged and is lost", id)
		}
	}
	for id, name := range plants {
		if sent, ok := l.sent[id]; !ok || sent != name {
			t.Errorf("plant %d is %q, and was sent as %q", id, name, sent)
		}
	}
	return len(acked)
}
