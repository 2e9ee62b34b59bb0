package history

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
)

// content is what a plant is besides its id.
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

// planned is one operation before it is sent.
type planned struct {
	id      int64
	content content
	retry   bool // until the outcome is known; else an unknown outcome is left alone
}

// plan is the operations that a seed decides. Each depends on the seed and its
// own number only, so it does not matter which client takes it, or when.
type plan struct{ seed uint64 }

// Hot ids are wanted by many operations at about the same time. They change
// with time, because after its first plant an id has little left to decide.
const (
	hotIDs    = 8   // at a time
	hotWindow = 200 // operations that share them
	hotBurst  = 8   // operations most of which want the same one
	hotFirst  = 1 << 40
)

// edges are the first hot ids: those at which a number may be bent.
var edges = [hotIDs]int64{math.MinInt64, math.MaxInt64, 0, -1, 1 << 53, 1<<53 + 1, -1<<53 - 1, 1}

func (p plan) operation(number int) planned {
	chance := rand.New(rand.NewPCG(p.seed, uint64(number)+1))
	o := planned{retry: chance.IntN(4) > 0}
	if chance.IntN(3) > 0 {
		o.id = p.spread(int64(number) + 1000)
		o.content.name = strings.Repeat("Festuca ", 1+chance.IntN(40))
		if o.content.tagged = chance.IntN(2) == 0; o.content.tagged {
			o.content.tag = fmt.Sprint("tag ", chance.IntN(100))
		}
		return o
	}
	window := number / hotWindow
	if chance.IntN(8) == 0 { // what was decided earlier still holds
		window = chance.IntN(window + 1)
	}
	which := chance.IntN(hotIDs)
	if chance.IntN(4) > 0 { // what is under way at the same time wants the same
		which = number / hotBurst % hotIDs
	}
	o.id = p.spread(hotFirst + int64(window*hotIDs+which))
	if window == 0 {
		o.id = edges[which]
	}
	o.content.name = "Rosa canina"
	switch chance.IntN(4) {
	case 0:
		o.content.name = "Rosa rugosa"
	case 1: // differs in the tag only
		o.content.tagged = true
	}
	return o
}

// spread gives every second seed ids that ascend, and the others ids from all
// over the table. It never gives the same id for two numbers.
func (p plan) spread(number int64) int64 {
	if p.seed%2 == 0 {
		return number
	}
	const odd = 0x9E3779B97F4A7C15 // an odd factor is reversible
	return int64(uint64(number) * odd)
}

// claims hands out the numbers of operations, each once. It is safe for
// concurrent use.
type claims struct {
	mu     sync.Mutex
	next   int           // guarded by mu, as is what follows
	end    int           // numbers are below it
	alarm  int           // the number that closes reached
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
	c.ring()
	return number, true
}

func (c *claims) claimed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}

// reached returns a channel that is closed once so many numbers were claimed.
// There is one at a time.
func (c *claims) reached(alarm int) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.alarm, c.signal = alarm, make(chan struct{})
	signal := c.signal
	c.ring()
	return signal
}

// ring is called with mu held.
func (c *claims) ring() {
	if c.signal != nil && c.next >= c.alarm {
		close(c.signal)
		c.signal = nil
	}
}
