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

// TestDropped loses answers of PostgreSQL to a server, and its requests. Each
// client is answered as if nothing had happened, because the server finds out
// by itself what became of a batch.
func TestDropped(t *testing.T) {
	t.Parallel()
	d := drop(t, build(t), map[fault]int{
		noAnswer: size(40, 1000), noRequest: size(20, 500), noCommit: size(20, 500), lateAnswer: size(2, 20),
	})
	if err := first(d.faults); err != nil {
		t.Error(err)
	}
}

// The retry of a batch, weakened.
var (
	// takesForGranted does not ask again.
	takesForGranted = rig.Weakness{
		File: "internal/postgres/insert.go",
		Old:  "\t\tuncertain = uncertain || effect == unknownEffect\n",
		New:  "\t\tif effect == unknownEffect {\n\t\t\treturn b.outcomes(nil, true), nil\n\t\t}\n",
	}
	// forgetsItself takes what it made for another's.
	forgetsItself = rig.Weakness{
		File: "internal/postgres/insert.go",
		Old:  "found && !(uncertain && equal(&r, c))",
		New:  "found",
	}
	// givesUp says that a batch was not stored when it does not know.
	givesUp = rig.Weakness{
		File: "internal/postgres/insert.go",
		Old:  "\t\treturn nil, effectOf(err), err\n",
		New:  "\t\treturn nil, noEffect, err\n",
	}
	// keyless and insists store again whatever is there. Without a key there is
	// nothing else that could keep a batch from being stored twice.
	keyless = rig.Weakness{
		File: "internal/postgres/migrations/0001_begin.sql",
		Old:  "id         bigint      PRIMARY KEY,",
		New:  "id         bigint      NOT NULL,",
	}
	// unchecked is for keyless: a server does not start on a table without its key.
	unchecked = rig.Weakness{
		File: "internal/postgres/schema.go",
		Old:  "\t{1, fact{\"constraint\", \"plants\", \"id\", \"p\"}},\n",
		New:  "",
	}
	insists = rig.Weakness{
		File: "internal/postgres/insert.go",
		Old:  "\n\tON CONFLICT (id) DO NOTHING",
		New:  "",
	}
)

// TestDroppedControl shows that each way to be wrong about a batch is noticed.
func TestDroppedControl(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		weak  []rig.Weakness
		short bool // each is a program to build, so the short form has some only
	}{
		{"success without asking", []rig.Weakness{takesForGranted}, true},
		{"stored again", []rig.Weakness{keyless, unchecked, insists}, true},
		{"own plant taken for another", []rig.Weakness{forgetsItself}, false},
		{"unknown taken for undone", []rig.Weakness{givesUp}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if !test.short && !*long {
				t.Skip("in the long form only")
			}
			d := drop(t, rig.Build(t, test.weak...), map[fault]int{noAnswer: 5, noRequest: 5, noCommit: 5})
			if len(d.faults) == 0 {
				t.Fatal("nothing was noticed")
			}
			t.Logf("caught, %d times: %v", len(d.faults), d.faults[0])
		})
	}
}

// chooser decides which statements meet with which fault, so many of each.
type chooser struct {
	mu     sync.Mutex
	chance *rand.Rand    // guarded by mu
	left   [faults]int   // guarded by mu
	done   chan struct{} // closed when none is left
}

func newChooser(seed uint64, counts map[fault]int) *chooser {
	c := &chooser{chance: rand.New(rand.NewPCG(seed, 0)), done: make(chan struct{})}
	for f, n := range counts {
		c.left[f] = n
	}
	return c
}

// choose gives every third statement a fault, so that the retry of a batch meets
// with one now and then.
func (c *chooser) choose(statement string) fault {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := 0
	for _, n := range c.left {
		sum += n
	}
	if sum == 0 || !writes(statement) || c.chance.IntN(3) > 0 {
		return none
	}
	if sum == 1 {
		close(c.done)
	}
	n := c.chance.IntN(sum)
	for f := range c.left {
		if n -= c.left[f]; n < 0 {
			c.left[f]--
			return fault(f)
		}
	}
	panic("the sum is wrong")
}

// dropping is a server that is cut off again and again while clients work.
type dropping struct {
	seed   uint64
	plants *sender
	done   <-chan struct{} // the clients have done enough
	ended  <-chan struct{} // the server has, which it should not

	mu      sync.Mutex
	history []operation // guarded by mu
	faults  []error     // guarded by mu
}

const clients = 8

// drop runs clients until as many faults have happened, and checks what came of it.
func drop(t *testing.T, program string, counts map[fault]int) *dropping {
	t.Helper()
	s, db := rig.Seed(t, *seed), newDatabase(t)
	c := newChooser(s, counts)
	p, through := newProxy(t, db, 2*time.Second, c.choose)
	server, err := rig.Start(t, program, through, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &dropping{seed: s, plants: newSender(server.URL, rig.Token(t, program, db, "dropping"), clients), done: c.done, ended: server.Ended()}
	var running sync.WaitGroup
	for number := range int64(clients) {
		running.Go(func() { d.work(t.Context(), number) })
	}
	running.Wait()
	if code := server.Stop(); code != 0 {
		t.Errorf("the server ended with code %d:\n%s", code, server.Log())
	}
	there := rows(t, db)
	d.faults = append(d.faults, check(d.history, there)...)
	if n := int(p.committed.Load()); n != counts[noAnswer] {
		t.Errorf("%d statements were done and their answers lost, want %d", n, counts[noAnswer])
	}
	t.Logf("%v; answers: %v; %d plants; %d faults", counts, tally(d.history), len(there), len(d.faults))
	return d
}

// work has a client send plants of its own until it is done, some of them again
// and some of them otherwise, so that a batch has old ones beside new ones.
func (d *dropping) work(ctx context.Context, number int64) {
	chance := rand.New(rand.NewPCG(d.seed, uint64(number)+1))
	for id := number; ; id += clients {
		c := randomContent(chance)
		d.expect(ctx, id, c, created)
		if chance.IntN(4) == 0 {
			d.expect(ctx, id, c, replayed)
		}
		if chance.IntN(4) == 0 {
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

// expect sends a plant, once: that there was a fault is none of a client's business.
func (d *dropping) expect(ctx context.Context, id int64, c content, want outcome) {
	o := d.plants.send(ctx, id, c)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.history = append(d.history, o)
	if o.outcome != want {
		d.faults = append(d.faults, fmt.Errorf("%s, want %s", &o, want))
	}
}
