package listen

import "time"

// State is the state of a connection.
type State uint8

// The states of a connection. A new connection is incomplete.
const (
	Incomplete State = iota // the server waits until the client sends a whole request, or reads a response
	Serving                 // the server works on a request; the connection is never evicted
	Idle                    // between two requests
	Waiting                 // for the units of a client without a valid credential, before the first read
	Held                    // the server works on a request of Hold
)

// SetWaiting sets the state of the connection while the server works on no request of it: Idle before the head of the
// next request, Incomplete after it. Only the goroutine that reads the connection may call SetWaiting.
func (c *Conn) SetWaiting(s State) {
	c.head = head{ended: s != Idle}
	if s == Idle {
		c.nextArrives()
	}
	c.setWaiting(s)
}

func (c *Conn) setWaiting(s State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting = s; c.serving == 0 {
		c.setState(s)
	}
}

// BeginServing protects the connection from eviction until the same number of calls of EndServing.
func (c *Conn) BeginServing() { c.addServing(1) }

// Hold is BeginServing for a request of a credential that may hold only a share of the connections: above half of the
// limit, all of Hold together are evicted for new connections.
func (c *Conn) Hold(credential int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holder.Store(credential)
	c.serving++
	c.setState(Held)
}

// EndServing ends one call of BeginServing or Hold.
func (c *Conn) EndServing() { c.addServing(-1) }

func (c *Conn) addServing(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.serving += n
	switch c.serving {
	case 0:
		c.setState(c.waiting)
	case n: // the first one
		c.setState(Serving)
	}
}

// setState sets the state of the connection. A request has several changes, so setState needs no lock of the listener,
// and reads the clock only for states that an eviction ends.
func (c *Conn) setState(s State) {
	at := time.Duration(0)
	if s != Serving {
		at = clock()
	}
	c.state.Store(int64(newStamp(s, at)))
}

// stamp is a state and the time of its start. Of two stamps with the same state, the older one is smaller.
type stamp int64

const stateBits = 3

func newStamp(s State, at time.Duration) stamp { return stamp(at)<<stateBits | stamp(s) }

func (s stamp) state() State { return State(s & (1<<stateBits - 1)) }

func (s stamp) time() time.Duration { return time.Duration(s >> stateBits) }

var started = time.Now()

// clock returns the time since the start of the process. A stamp has room for 36 years of it.
func clock() time.Duration { return time.Since(started) }
