package webhooks

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// TestWebhooks kills servers and receivers on both engines.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	program := rig.Build(t, hasty)
	for _, test := range []struct {
		name       string
		inDatabase bool
		servers    int
	}{{"file", false, 1}, {"PostgreSQL", true, 3}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			violations := newHarness(t, program, test.inDatabase, test.servers).run(size(4, 60), 4*time.Minute)
			if err := errors.Join(violations[:min(5, len(violations))]...); err != nil {
				t.Errorf("%d violations, the first: %v", len(violations), err)
			}
		})
	}
}

// hasty ends an attempt after a second, so that a stalled receiver delays a run for seconds only.
var hasty = rig.Weakness{
	File: "internal/webhook/webhook.go",
	Old:  "cmp.Or(c.Timeout, 10*time.Second)",
	New:  "cmp.Or(c.Timeout, time.Second)",
}

// Weaknesses that TestControl must detect.
var (
	// forgetsClaims removes a delivery when a server claims it.
	forgetsClaims = rig.Weakness{
		File: "internal/store/outbox.go",
		Old:  `"UPDATE plantstore_deliveries SET due_at = $1 WHERE webhook = $2 AND plant = $3"`,
		New:  `"DELETE FROM plantstore_deliveries WHERE $1 > 0 AND webhook = $2 AND plant = $3"`,
	}
	// sharesClaims lets other servers claim a claimed delivery.
	sharesClaims = rig.Weakness{
		File: "internal/store/outbox.go",
		Old:  `"UPDATE plantstore_deliveries SET due_at = $1 WHERE webhook = $2 AND plant = $3"`,
		New:  `"UPDATE plantstore_deliveries SET due_at = least(due_at, $1) WHERE webhook = $2 AND plant = $3"`,
	}
	// overtakesClaims delivers a change of a plant while a delivery about an earlier one is under way.
	overtakesClaims = rig.Weakness{
		File: "internal/store/outbox.go",
		Old:  `" THEN " + due +`,
		New:  `" THEN excluded.due_at" +`,
	}
	// inventsEvents delivers another plant than the one that was created.
	inventsEvents = rig.Weakness{
		File: "internal/webhook/sign.go",
		Old:  "\t\tbody = d.Plant.AppendJSON(nil)\n",
		New: "\t\tif d.Plant.ID%10 == 0 {\n\t\t\td.Plant.ID++\n\t\t\td.Plant.Name += \"0\"\n\t\t}\n" +
			"\t\tbody = d.Plant.AppendJSON(nil)\n",
	}
)

// TestControl shows that the harness detects weak servers.
func TestControl(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		weak       rig.Weakness
		inDatabase bool
		servers    int
		short      bool // part of the short form; each test builds a program
	}{
		{"forgets claims", forgetsClaims, false, 1, true},
		{"shares claims", sharesClaims, true, 3, false},
		{"overtakes claims", overtakesClaims, true, 3, false},
		{"invents events", inventsEvents, false, 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if !test.short && !*long {
				t.Skip("only in the long form")
			}
			h := newHarness(t, rig.Build(t, hasty, test.weak), test.inDatabase, test.servers)
			violations := h.run(3, 30*time.Second)
			if len(violations) == 0 {
				t.Fatal("the harness did not detect the weakness")
			}
			t.Logf("detected by %d violations, the first: %v", len(violations), violations[0])
		})
	}
}

// harness is servers on one store, their clients and a receiver.
type harness struct {
	t           testing.TB
	program, db string
	token       string
	receiver    *receiverProcess
	flags       []string
	next        atomic.Int64 // id of the next plant

	mu      sync.Mutex
	servers []*rig.Server // guarded by mu
	changes map[int64]int // requests that erase, correct or create again, by id; guarded by mu
}

func newHarness(t testing.TB, program string, inDatabase bool, servers int) *harness {
	t.Helper()
	h := &harness{
		t: t, program: program, db: newStore(t, inDatabase), receiver: startReceiver(t), changes: map[int64]int{},
	}
	h.flags = h.receiver.flags()
	h.token = rig.Token(t, program, h.db, "webhooks")
	importPlants(t, program, h.db, -100, 50) // before webhooks are on: without events
	for range servers {
		h.servers = append(h.servers, h.start())
	}
	return h
}

func (h *harness) start() *rig.Server {
	h.t.Helper()
	s, err := rig.Start(h.t, h.program, h.db, nil, h.flags...)
	if err != nil {
		h.t.Fatal(err)
	}
	return s
}

func (h *harness) server(i int) *rig.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.servers[i]
}

// run creates, erases and corrects plants while it kills servers and receivers, waits for the last deliveries, and
// returns the violations.
func (h *harness) run(kills int, within time.Duration) (violations []error) {
	h.t.Helper()
	s := rig.Seed(h.t, *seed)
	random := rand.New(rand.NewPCG(s, 0))
	ctx, cancel := context.WithCancel(h.t.Context())
	var clients sync.WaitGroup
	for number := range 4 {
		clients.Go(func() { h.create(ctx, number) })
	}
	clients.Go(func() { h.operate(ctx, s) })
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	<-tick.C // other servers know the webhooks after a second
	for range kills {
		<-tick.C
		if random.IntN(2) == 0 {
			h.receiver.kill()
			h.receiver.start()
		} else {
			i := random.IntN(len(h.servers))
			h.server(i).Kill()
			fresh := h.start()
			h.mu.Lock()
			h.servers[i] = fresh
			h.mu.Unlock()
		}
		importPlants(h.t, h.program, h.db, h.next.Add(20)-19, 20)
		tick.Reset(time.Second/4 + time.Duration(random.Int64N(int64(time.Second))))
	}
	i := random.IntN(len(h.servers)) // at least one server is killed
	h.server(i).Kill()
	cancel()
	clients.Wait()
	h.servers[i] = h.start()
	return h.check(within)
}

// create creates plants at some rate, at one server after the other.
func (h *harness) create(ctx context.Context, number int) {
	client := rig.Client{Token: h.token, Timeout: 5 * time.Second}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := number; ; i++ {
		id := h.next.Add(1)
		client.Create(ctx, h.server(i%len(h.servers)).URL, id, nameOf(id)) // the store has the outcome
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// operate erases, corrects and creates again plants at some rate, mostly late ones, whose events are under way.
func (h *harness) operate(ctx context.Context, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	client := rig.Client{Token: h.token, Timeout: 5 * time.Second}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		id := max(1, h.next.Load()-random.Int64N(1+random.Int64N(400)))
		h.mu.Lock()
		h.changes[id]++
		h.mu.Unlock()
		server := h.server(random.IntN(len(h.servers)))
		switch random.IntN(3) { // the store has the outcome
		case 0:
			_, _, _ = server.Post(ctx, h.token, "/plants/erase", map[string]any{"ids": []int64{id}})
		case 1:
			right := map[string]any{"name": fmt.Sprint(nameOf(id), " corrected ", i)}
			_, _, _ = server.Post(ctx, h.token, fmt.Sprintf("/plants/%d/correct", id), right)
		default:
			client.Create(ctx, server.URL, id, nameOf(id))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// check compares the delivered events with the stored plants when all plants were delivered, or after a time.
func (h *harness) check(within time.Duration) (violations []error) {
	h.t.Helper()
	plants, err := rig.Export(h.t, h.program, h.db)
	if err != nil {
		h.t.Fatal(err)
	}
	began := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for time.Since(began) < within && len(h.missing(plants, h.receiver.events())) > 0 {
		<-tick.C
	}
	events := h.receiver.events()
	missing := h.missing(plants, events)
	for _, id := range missing {
		violations = append(violations, fmt.Errorf("plant %d: the last change was not delivered", id))
	}
	known, versions, erased := map[string]event{}, map[int64]int{}, 0
	for _, e := range events {
		content := event{Plant: e.Plant, Name: e.Name, Erased: e.Erased}
		first, again := known[e.ID]
		if !again {
			known[e.ID] = content
			versions[e.Plant]++
		}
		if e.Erased {
			erased++
		}
		sent := e.Erased || strings.HasPrefix(e.Name+" ", nameOf(e.Plant)+" ")
		switch {
		case e.Fault != "":
			violations = append(violations, fmt.Errorf("plant %d: %s", e.Plant, e.Fault))
		case !sent || e.Plant < 0:
			violations = append(violations, fmt.Errorf("an event of plant %d %q, which has none", e.Plant, e.Name))
		case again && first != content:
			violations = append(violations, fmt.Errorf("event %s is %v and %v", e.ID, first, content))
		case versions[e.Plant] > 1+h.changes[e.Plant]:
			violations = append(violations, fmt.Errorf("plant %d has %d ids of events after %d changes",
				e.Plant, versions[e.Plant], h.changes[e.Plant]))
		}
	}
	h.t.Logf("%d plants with events, %d attempts, %d of erasures, %d not delivered after %s, %d violations",
		len(plants)-50, len(events), erased, len(missing), time.Since(began).Round(time.Second), len(violations))
	return violations
}

// missing returns the plants of which a receiver that stores and removes what it accepts has another state than the
// store.
func (h *harness) missing(plants map[int64]string, events []event) (ids []int64) {
	mirror := map[int64]string{}
	for _, e := range events {
		switch {
		case e.Accepted && e.Erased:
			delete(mirror, e.Plant)
		case e.Accepted:
			mirror[e.Plant] = e.Name
		}
	}
	for id := int64(1); id <= h.next.Load(); id++ {
		if mirror[id] != plants[id] {
			ids = append(ids, id)
		}
	}
	return ids
}
