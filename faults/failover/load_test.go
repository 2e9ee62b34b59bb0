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
	retryAfter = 200 * time.Millisecond
	requestMax = 5 * time.Second // for one request of a client
)

// load is clients that create plants on two servers, with a record of their requests. A client sends a plant to one
// server after the other until it is acknowledged. It repeats some acknowledged plants.
type load struct {
	servers []*rig.Server
	token   string
	cancel  context.CancelFunc
	clients sync.WaitGroup

	mu         sync.Mutex
	sent       map[int64]string // names by id; guarded by mu
	acked      map[int64]bool   // guarded by mu
	violations []string         // unexpected responses; guarded by mu
	attempts   []attempt        // since resetAttempts, in the order of their ends; guarded by mu
}

// attempt is one request of a client.
type attempt struct {
	client         int
	started, ended time.Time
	stored         bool
}

// newLoad starts two servers on a cluster, and the clients. The end of the test stops them.
func newLoad(t testing.TB, program string, c *cluster, seed uint64) *load {
	t.Helper()
	token := rig.Token(t, program, c.url(), "failover")
	l := &load{token: token, sent: map[int64]string{}, acked: map[int64]bool{}}
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
	l.cancel = cancel
	for i := range clients {
		l.clients.Go(func() { l.runClient(ctx, i, rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	t.Cleanup(l.stop)
	return l
}

// stop stops the clients and waits until they have ended.
func (l *load) stop() {
	l.cancel()
	l.clients.Wait()
}

func (l *load) runClient(ctx context.Context, number int, random *rand.Rand) {
	const idsMax = 1 << 20 // ids of one client
	c := &rig.Client{Token: l.token}
	c.Timeout = requestMax
	tick := time.NewTicker(plantEvery)
	defer tick.Stop()
	for created := int64(0); ; {
		id := int64(number)*idsMax + created
		if created > 0 && random.IntN(8) == 0 {
			id -= 1 + random.Int64N(min(created, 100)) // a replay
		} else {
			created++
		}
		name := fmt.Sprintf("plant %d of client %d", id, number)
		server := random.IntN(len(l.servers))
		for !l.send(ctx, c, number, l.servers[server].URL, id, name) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(retryAfter):
			}
			server = (server + 1) % len(l.servers)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// send sends a plant once, and reports whether it was acknowledged.
func (l *load) send(ctx context.Context, c *rig.Client, number int, url string, id int64, name string) bool {
	l.mu.Lock()
	l.sent[id] = name
	l.mu.Unlock()
	started := time.Now()
	outcome, status := c.Create(ctx, url, id, name)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch outcome {
	case rig.Stored:
		l.acked[id] = true
	case rig.Conflict, rig.Refused: // only this client uses the id, always with the same name
		l.violations = append(l.violations, fmt.Sprintf("plant %d: unexpected status %d", id, status))
	case rig.Busy, rig.Unknown:
	}
	l.attempts = append(l.attempts, attempt{number, started, time.Now(), outcome == rig.Stored})
	return outcome == rig.Stored
}

// resetAttempts starts a new measurement.
func (l *load) resetAttempts() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts = nil
}

// storedSince counts the acknowledged requests that started after a time.
func (l *load) storedSince(since time.Time) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.attempts {
		if a.stored && a.started.After(since) {
			n++
		}
	}
	return n
}

// triedSince reports whether each client has completed two requests that started after a time.
func (l *load) triedSince(since time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	var tries [clients]int
	for _, a := range l.attempts {
		if a.started.After(since) {
			tries[a.client]++
		}
	}
	return slices.Min(tries[:]) >= 2
}

// waitStored waits until a request that started after a time is acknowledged.
func (l *load) waitStored(t testing.TB, since time.Time) {
	t.Helper()
	rig.Within(t, healthyMax, pollEvery, "plants are stored", func() bool { return l.storedSince(since) > 0 })
}

// downtime returns the longest time without an acknowledgement between from and the last acknowledgement.
func (l *load) downtime(from time.Time) (longest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.attempts {
		if a.stored && a.ended.After(from) {
			longest = max(longest, a.ended.Sub(from))
			from = a.ended
		}
	}
	return longest
}

// check compares all plants of one host with the requests, and returns the number of plants that were acknowledged
// before.
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
	for _, violation := range l.violations {
		t.Error(violation)
	}
	for id := range acked {
		if _, ok := plants[id]; !ok {
			t.Errorf("plant %d was acknowledged and is not stored", id)
		}
	}
	for id, name := range plants {
		if sent, ok := l.sent[id]; !ok || sent != name {
			t.Errorf("plant %d has the name %q, want %q as sent", id, name, sent)
		}
	}
	return len(acked)
}
