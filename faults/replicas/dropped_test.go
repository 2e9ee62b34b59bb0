package replicas

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// TestDropped loses PostgreSQL's responses to a server and the server's requests. Each client must receive the correct
// response, because the server determines the outcome of a batch by itself.
func TestDropped(t *testing.T) {
	t.Parallel()
	d := runDropped(t, build(t), map[fault]int{
		noResponse: size(40, 1000), noRequest: size(20, 500), noCommit: size(20, 500), lateResponse: size(2, 20),
	})
	if err := joinFirst(d.violations); err != nil {
		t.Error(err)
	}
}

// Weaknesses of the retry of a batch, which TestDroppedControl must detect.
var (
	// unknownIsSuccess reports a batch with an unknown outcome as stored.
	unknownIsSuccess = rig.Weakness{
		File: "internal/postgres/insert.go",
		Old:  "\t\tuncertain = uncertain || effect == unknownEffect\n",
		New:  "\t\tif effect == unknownEffect {\n\t\t\treturn b.outcomes(nil, true), nil\n\t\t}\n",
	}
	// ownIsOther treats a row of an earlier attempt as another request's plant.
	ownIsOther = rig.Weakness{
		File: "internal/postgres/insert.go",
		Old:  "found && !(uncertain && equal(&r, c))",
		New:  "found",
	}
	// unknownIsFailure reports a batch with an unknown outcome as not stored.
	unknownIsFailure = rig.Weakness{
		File: "internal/postgres/insert.go",
		Old:  "\t\treturn nil, effectOf(err), err\n",
		New:  "\t\treturn nil, noEffect, err\n",
	}
	// noPrimaryKey and noConflictClause store an existing plant again.
	noPrimaryKey = rig.Weakness{
		File: "internal/postgres/migrations/0001_store.sql",
		Old:  "id         bigint      PRIMARY KEY,",
		New:  "id         bigint      NOT NULL,",
	}
	noConflictClause = rig.Weakness{
		File: "internal/postgres/insert.go",
		Old:  "\n\tON CONFLICT (id) DO NOTHING",
		New:  "",
	}
)

// TestDroppedControl shows that the harness detects each weakness of the retry.
func TestDroppedControl(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		weak  []rig.Weakness
		short bool // part of the short form; each test builds a program
	}{
		{"unknown is success", []rig.Weakness{unknownIsSuccess}, true},
		{"stored twice", []rig.Weakness{noPrimaryKey, noConflictClause}, true},
		{"own plant is another's", []rig.Weakness{ownIsOther}, false},
		{"unknown is failure", []rig.Weakness{unknownIsFailure}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !test.short && !*long {
				t.Skip("only in the long form")
			}
			d := runDropped(t, rig.Build(t, test.weak...), map[fault]int{noResponse: 5, noRequest: 5, noCommit: 5})
			requireDetection(t, d.violations)
		})
	}
}

// injector assigns a given number of each fault to statements.
type injector struct {
	mu     sync.Mutex
	random *rand.Rand      // guarded by mu
	left   [faultCount]int // guarded by mu
	done   chan struct{}   // closed after the last fault
}

func newInjector(seed uint64, counts map[fault]int) *injector {
	in := &injector{random: rand.New(rand.NewPCG(seed, 0)), done: make(chan struct{})}
	for f, n := range counts {
		in.left[f] = n
	}
	return in
}

// next returns the fault of a statement. One of three statements has a fault, so that the retry of a batch sometimes
// has one too.
func (in *injector) next(statement string) fault {
	in.mu.Lock()
	defer in.mu.Unlock()
	sum := 0
	for _, n := range in.left {
		sum += n
	}
	if sum == 0 || !writesPlants(statement) || in.random.IntN(3) > 0 {
		return none
	}
	if sum == 1 {
		close(in.done)
	}
	n := in.random.IntN(sum)
	for f := range in.left {
		if n -= in.left[f]; n < 0 {
			in.left[f]--
			return fault(f)
		}
	}
	panic("the sum is wrong")
}

// droppedRun is the load of clients on a server with faults between it and PostgreSQL.
type droppedRun struct {
	seed   uint64
	plants *sender
	done   <-chan struct{} // closed after the last fault
	ended  <-chan struct{} // closed when the server has ended, which is an error

	mu         sync.Mutex
	history    []operation // guarded by mu
	violations []error     // guarded by mu
}

const clients = 8

// runDropped runs clients until all faults have happened, and checks the results.
func runDropped(t *testing.T, program string, counts map[fault]int) *droppedRun {
	t.Helper()
	s, db := rig.Seed(t, *seed), newDatabase(t)
	in := newInjector(s, counts)
	p, url := newProxy(t, db, 2*time.Second, in.next)
	server, err := rig.Start(t, program, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	token := rig.Token(t, program, db, "dropping")
	d := &droppedRun{seed: s, plants: newSender(server.URL, token), done: in.done, ended: server.Ended()}
	var running sync.WaitGroup
	for number := range int64(clients) {
		running.Go(func() { d.runClient(t.Context(), number) })
	}
	running.Wait()
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with code %d:\n%s", code, server.Log())
	}
	stored := storedPlants(t, db)
	d.violations = append(d.violations, check(d.history, stored)...)
	if n := int(p.committed.Load()); n != counts[noResponse] {
		t.Errorf("PostgreSQL executed %d statements with a lost response, want %d", n, counts[noResponse])
	}
	t.Logf("faults %v; outcomes %v; %d plants, %d violations",
		counts, countOutcomes(d.history), len(stored), len(d.violations))
	return d
}

// runClient sends plants of its own until the end of the run. It repeats some of them, unchanged and changed, so that a
// batch has replays and conflicts.
func (d *droppedRun) runClient(ctx context.Context, number int64) {
	random := rand.New(rand.NewPCG(d.seed, uint64(number)+1))
	for id := number; ; id += clients {
		c := randomContent(random)
		d.expect(ctx, id, c, created)
		if random.IntN(4) == 0 {
			d.expect(ctx, id, c, replayed)
		}
		if random.IntN(4) == 0 {
			d.expect(ctx, id, content{"another", c.tag}, conflict)
		}
		select {
		case <-d.done:
			return
		case <-d.ended:
			return
		default:
		}
	}
}

// expect sends a plant once. A client must not notice a fault, so any other outcome is a violation.
func (d *droppedRun) expect(ctx context.Context, id int64, c content, want outcome) {
	o := d.plants.send(ctx, id, c)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.history = append(d.history, o)
	if o.outcome != want {
		d.violations = append(d.violations, fmt.Errorf("%s, want %s", &o, want))
	}
}
