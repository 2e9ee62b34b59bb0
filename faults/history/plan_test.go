package history

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
)

// content is a plant without its id.
type content struct {
	name, tag string
	tagged    bool
}

func (c content) String() string {
	name := c.name
	if len(name) > 30 {
		name = name[:30] + "…"
	}
	if c.tagged {
		return fmt.Sprintf("%q tagged %q", name, c.tag)
	}
	return fmt.Sprintf("%q", name)
}

// kind is the kind of an operation.
type kind int

const (
	create  kind = iota
	erase        // by the operator, as is correct
	correct      // gives a stored plant another content
)

func (k kind) String() string { return [...]string{"create", "erase", "correct"}[k] }

// planned is an operation before its request.
type planned struct {
	kind    kind
	id      int64
	content content
	retry   bool // repeat the request until the outcome is known
	command bool // run a command beside the server instead of a request
}

// plan derives the operations from a seed. Each depends only on the seed and its number, not on the client or the time.
type plan struct{ seed uint64 }

// Hot ids are shared by many operations at about the same time, and only these are erased and corrected. They change
// with the number of the operation, so that the checks of an id end in time.
const (
	hotIDs    = 8   // at a time
	hotWindow = 200 // operations that share them
	hotBurst  = 8   // operations that mostly share one id
	hotFirst  = 1 << 40
)

// edges are the first hot ids: the limits of integer types and of JSON numbers.
var edges = [hotIDs]int64{math.MinInt64, math.MaxInt64, 0, -1, 1 << 53, 1<<53 + 1, -1<<53 - 1, 1}

func (p plan) operation(number int) planned {
	random := rand.New(rand.NewPCG(p.seed, uint64(number)+1))
	o := planned{retry: random.IntN(4) > 0}
	if random.IntN(3) > 0 {
		o.id = p.spread(int64(number) + 1000)
		o.content.name = strings.Repeat("Festuca ", 1+random.IntN(40))
		if o.content.tagged = random.IntN(2) == 0; o.content.tagged {
			o.content.tag = fmt.Sprint("tag ", random.IntN(100))
		}
		return o
	}
	window := number / hotWindow
	if random.IntN(8) == 0 { // a plant of an earlier window
		window = random.IntN(window + 1)
	}
	which := random.IntN(hotIDs)
	if random.IntN(4) > 0 { // the id of the concurrent operations
		which = number / hotBurst % hotIDs
	}
	o.id = p.spread(hotFirst + int64(window*hotIDs+which))
	if window == 0 {
		o.id = edges[which]
	}
	o.content.name = "Rosa canina"
	switch random.IntN(4) {
	case 0:
		o.content.name = "Rosa rugosa"
	case 1: // differs in the tag only
		o.content.tagged = true
	}
	switch random.IntN(8) {
	case 0:
		o.kind, o.content = erase, content{}
	case 1:
		o.kind = correct
	}
	o.command = o.kind != create && random.IntN(16) == 0
	return o
}

// spread returns ascending ids for even seeds, and ids from the whole range for odd ones. Different numbers have
// different ids.
func (p plan) spread(number int64) int64 {
	if p.seed%2 == 0 {
		return number
	}
	const odd = 0x9E3779B97F4A7C15 // an odd factor is invertible
	return int64(uint64(number) * odd)
}

// claims assigns each number of an operation once. It is safe for concurrent use.
type claims struct {
	mu     sync.Mutex
	next   int           // guarded by mu, like all that follows
	end    int           // the number after the last one
	alarm  int           // the number that closes signal
	signal chan struct{} // nil: no alarm is set
}

func (c *claims) claim() (number int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next >= c.end {
		return 0, false
	}
	number = c.next
	c.next++
	c.signalLocked()
	return number, true
}

func (c *claims) claimed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}

// reached returns a channel that is closed when that many numbers are claimed. It replaces an earlier channel.
func (c *claims) reached(alarm int) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alarm, c.signal = alarm, make(chan struct{})
	signal := c.signal
	c.signalLocked()
	return signal
}

// signalLocked closes signal if alarm is reached. The caller holds mu.
func (c *claims) signalLocked() {
	if c.signal != nil && c.next >= c.alarm {
		close(c.signal)
		c.signal = nil
	}
}
