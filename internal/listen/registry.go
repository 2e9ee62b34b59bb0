package listen

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"plantstore/internal/limit"
)

// Limits limit the connections of a listener. 0: no limit.
type Limits struct {
	// Connections are the open connections. Above half of them, those that wait are evicted, and idle ones before
	// IdleTimeout: the time shrinks to nothing at the limit. At the limit, makeRoom replaces connections, or the new one
	// is refused.
	Connections int
	IdleTimeout time.Duration

	// PerAddress are the open connections of a client (limit.Network). Further ones are refused.
	PerAddress int
	// Unlimited are addresses without PerAddress.
	Unlimited []netip.Prefix
	// Proxies are the addresses of trusted proxies. No limit of one client applies to them.
	Proxies []netip.Prefix
	// Uncharged are addresses to which the limit of clients without a valid credential does not apply, like Proxies.
	Uncharged []netip.Prefix

	// Incomplete are the connections whose request or response has been incomplete for more than incompleteGrace.
	// Above it, the clients with the most of them lose connections, the oldest first.
	Incomplete int

	// IncompleteBytes are the bytes of memory of incomplete requests without a valid credential, beyond arrivingFree of
	// each. Above it, the connections with the most of them are evicted.
	IncompleteBytes int64
}

// incompleteGrace is the time that each request has to arrive, and each response to leave, however many connections are
// incomplete. It protects the clients of a burst.
const incompleteGrace = time.Second

const (
	sweepEvery = 100 * time.Millisecond
	evictMax   = 512 // evictions per sweep: each one takes as long as a small request
)

// registry holds the open connections of a listener.
type registry struct {
	limits   Limits
	arriving atomic.Int64 // memory of incomplete requests, see count

	mu        sync.Mutex // guards the rest, and the fields of Conn that name it
	conns     []*Conn
	byNetwork map[limit.Network]int // open connections of clients with a limit; never 0
	fullUntil time.Duration         // by clock; makeRoom finds nothing before
}

// add adds a connection of a client, unless a limit refuses it. If the limit of all connections is reached, it first
// removes others, which the caller must evict.
func (r *registry) add(c *Conn, client netip.Addr) (evicted []candidate, refused *refusal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c.network = limit.NetworkOf(client)
	c.shared = !client.IsValid() || contains(r.limits.Proxies, client)
	c.free = c.shared || contains(r.limits.Uncharged, client)
	limited := !c.shared && r.limits.PerAddress > 0 && !contains(r.limits.Unlimited, client)
	if limited && r.byNetwork[c.network] >= r.limits.PerAddress {
		return nil, &refusal{tooManyOfAddress, fmt.Sprintf("%s has %d open connections", client, r.limits.PerAddress)}
	}
	if limit := r.limits.Connections; limit > 0 && len(r.conns) >= limit {
		if evicted = r.makeRoom(); len(evicted) == 0 {
			return nil, &refusal{tooMany, fmt.Sprintf("%d connections are open, and none is idle", limit)}
		}
	}
	c.index = len(r.conns)
	r.conns = append(r.conns, c)
	if c.claimed = limited; limited {
		r.byNetwork[c.network]++
	}
	return evicted, nil
}

func contains(prefixes []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(address) })
}

// contains reports whether a connection is open.
func (r *registry) contains(c *Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return c.index >= 0
}

// remove removes a connection. It reports false if it was removed before.
func (r *registry) remove(c *Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.removeLocked(c)
}

func (r *registry) removeLocked(c *Conn) bool {
	if c.index < 0 {
		return false
	}
	last := r.conns[len(r.conns)-1]
	r.conns[c.index], last.index = last, c.index
	r.conns[len(r.conns)-1] = nil
	r.conns = r.conns[:len(r.conns)-1]
	c.index = -1
	r.setArriving(c, removed)
	if c.claimed {
		if r.byNetwork[c.network]--; r.byNetwork[c.network] == 0 {
			delete(r.byNetwork, c.network)
		}
	}
	return true
}

func (r *registry) has(s State) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.conns, func(c *Conn) bool { return stamp(c.state.Load()).state() == s })
}

// makeRoom removes connections for new ones: a few that wait for units, otherwise a few that have been incomplete for
// more than incompleteGrace, or idle ones, or newer incomplete ones, or at last held ones above half of the limit.
// A flood that fills all places in less time than the grace must not keep out a client that sends its request at once.
// The search reads every connection, so it frees several places, and does not repeat at once if it finds none.
func (r *registry) makeRoom() []candidate {
	now := clock()
	if now < r.fullUntil {
		return nil
	}
	found := largestOwnersFirst(r.since(Waiting, now))
	if len(found) == 0 {
		found = largestOwnersFirst(r.since(Incomplete, now-incompleteGrace))
	}
	if len(found) == 0 {
		found = r.since(Idle, now)
	}
	if len(found) == 0 {
		found = largestOwnersFirst(r.since(Incomplete, now))
	}
	if len(found) == 0 {
		found = largestOwnersFirst(r.since(Held, now))
		found = found[:max(len(found)-r.limits.Connections/2, 0)]
	}
	evicted := r.take(found[:min(len(found), r.limits.Connections/64+1, evictMax)])
	if len(evicted) == 0 {
		r.fullUntil = now + sweepEvery/10
	}
	return evicted
}

// sweep removes incomplete connections above the limits, waiting ones above half of all places, and connections that
// have been idle too long for the number of connections. The caller must evict them.
func (r *registry) sweep() []candidate {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := clock()
	evicted := r.take(r.heaviest())
	if limit := r.limits.Incomplete; limit > 0 && len(r.conns) > limit {
		found := largestOwnersFirst(r.since(Incomplete, now-incompleteGrace))
		evicted = append(evicted, r.take(found[:min(max(len(found)-limit, 0), evictMax)])...)
	}
	if limit := r.limits.Connections; limit > 0 && len(r.conns) > limit/2 {
		found := largestOwnersFirst(r.since(Waiting, now))
		evicted = append(evicted, r.take(found[:min(len(found), len(r.conns)-limit/2, evictMax)])...)
		found = r.since(Idle, now)
		n := 0
		for n < min(len(found), evictMax) && now-found[n].seen.time() > r.idleTime(len(r.conns)-n) {
			n++
		}
		evicted = append(evicted, r.take(found[:n])...)
	}
	return evicted
}

// idleTime returns the time that a connection may be idle while there are n connections.
func (r *registry) idleTime(n int) time.Duration {
	limit := r.limits.Connections
	upper := limit - limit/2
	return time.Duration(float64(r.limits.IdleTimeout) * float64(min(max(limit-n, 0), upper)) / float64(upper))
}

// candidate is a connection that may be evicted if its state is still the same.
type candidate struct {
	conn   *Conn
	seen   stamp
	reason reason
	more   int   // newer candidates of its owner
	bytes  int64 // set by heaviest
}

// since returns the connections that have been in a state since a time, the oldest first.
func (r *registry) since(state State, at time.Duration) []candidate {
	var found []candidate
	for _, c := range r.conns {
		if seen := stamp(c.state.Load()); seen.state() == state && seen.time() <= at {
			found = append(found, candidate{conn: c, seen: seen, reason: evictions[state]})
		}
	}
	slices.SortFunc(found, func(a, b candidate) int { return cmp.Compare(a.seen, b.seen) })
	return found
}

// largestOwnersFirst sorts candidates, which are in order of age, by the number of newer ones of the same owner, in
// descending order.
func largestOwnersFirst(found []candidate) []candidate {
	counts := map[owner]int{}
	for i, f := range slices.Backward(found) {
		if of, ok := f.owner(); ok {
			found[i].more = counts[of]
			counts[of]++
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(b.more, a.more) })
	return found
}

// owner is who connections count for: the credential of Hold, otherwise the client. Connections of a client before the
// first Hold are apart from those after it, so that a credential does not end new connections from the same address.
type owner struct {
	network    limit.Network
	credential int64
}

// owner returns false for a connection of a proxy, which counts for itself.
func (f candidate) owner() (owner, bool) {
	credential := f.conn.holder.Load()
	if f.seen.state() == Held {
		return owner{credential: credential}, true
	}
	return owner{f.conn.network, credential}, !f.conn.shared
}

// take removes the candidates, except connections whose state has changed since, and returns them.
func (r *registry) take(candidates []candidate) []candidate {
	var evicted []candidate
	for _, c := range candidates {
		if stamp(c.conn.state.Load()) == c.seen {
			r.removeLocked(c.conn)
			evicted = append(evicted, c)
		}
	}
	return evicted
}
