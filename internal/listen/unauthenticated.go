package listen

import (
	"cmp"
	"io"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"plantstore/internal/limit"
)

// A client without a valid credential may use networkUnits at once and one more each networkInterval, and all of them
// together unitsOfAll and one more each intervalOfAll. A new connection costs a unit of both, and so does each call
// of Charge. In a known network they cost one of knownUnits. A request that a proxy forwards costs none of unitsOfAll:
// it can be a preflight, which never has a credential.
const (
	networkUnits    = 500
	networkInterval = 50 * time.Millisecond
	unitsOfAll      = 1000
	intervalOfAll   = 10 * time.Millisecond
	knownUnits      = 2000
	knownInterval   = 2 * time.Millisecond

	// A connection beyond the units waits in a line for at most waitMax. The lines have no more connections than can be
	// served in that time. Others are refused, also after waitMax: a client that is refused at once would connect again
	// at once.
	waitMax    = 5 * time.Second
	lineMax    = int(waitMax / networkInterval) // connections of a network
	waitingMax = int(waitMax / intervalOfAll)   // connections in all lines

	// A connection of a known network is served without a unit after knownWaitMax: it may have a valid credential.
	knownWaitMax = time.Second

	// networksMax is more than the networks that can lack units at the same time: they share unitsOfAll, and those that
	// proxies name would need 200,000 requests a second. Further ones would share networkUnits.
	networksMax = 10_000
)

// unauthenticated limits the clients without a valid credential, by network and together. Clients may share an address,
// so a network is known for knownFor after a request of any of them with a valid credential.
type unauthenticated struct {
	units      *limit.Buckets[limit.Network]
	knownUnits *limit.Buckets[limit.Network]
	all        *limit.Buckets[struct{}]

	mu      sync.Mutex // guards the rest
	known   known
	served  *limit.Recent[limit.Network] // when a connection of a network got its units
	lines   map[limit.Network]*line
	waiting int  // connections in lines
	short   bool // connections wait for a unit of all
}

// line has the waiting connections of a network, the oldest first.
type line struct {
	turns  []*turn
	served time.Duration // copy of its time in unauthenticated.served; 0: not there
	rank   int           // set by round
}

// turn is a connection that waits for its units.
type turn struct {
	conn  *Conn
	since time.Duration
	ended chan struct{} // closed when it leaves its line in serve
	err   error         // not nil: the client is gone; readable after ended
}

func newUnauthenticated() *unauthenticated {
	return &unauthenticated{
		units:      limit.NewBuckets[limit.Network](networkUnits, 1, networkInterval, networksMax),
		knownUnits: limit.NewBuckets[limit.Network](knownUnits, 1, knownInterval, networksMax),
		all:        limit.NewBuckets[struct{}](unitsOfAll, 1, intervalOfAll, 1),
		known:      newKnown(),
		served:     limit.NewRecent[limit.Network](networksMax, knownFor),
		lines:      map[limit.Network]*line{},
	}
}

// admit makes a network known.
func (u *unauthenticated) admit(n limit.Network, credential int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.known.admit(n, credential, clock())
}

func (u *unauthenticated) isKnown(n limit.Network) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.known.has(n, clock())
}

// charge takes the units of a request, and reports false if there are none. Connections that wait go first.
func (u *unauthenticated) charge(n limit.Network, forwarded bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	isKnown := u.known.has(n, clock())
	switch {
	case forwarded:
		return isKnown || u.units.Take(n).Taken
	case u.lines[n] != nil:
		return false
	case isKnown:
		return u.knownUnits.Take(n).Taken
	}
	return !u.short && u.take(n)
}

// take takes a unit of an unknown network and one of all, or none.
func (u *unauthenticated) take(n limit.Network) bool {
	return u.units.Wait(n) == 0 && u.all.Take(struct{}{}).Taken && u.units.Take(n).Taken
}

// pay takes the units of a new connection, and reports false if there are none.
func (u *unauthenticated) pay(c *Conn, now time.Duration) bool {
	n := c.network
	isKnown := u.known.has(n, now)
	if isKnown && !u.knownUnits.Take(n).Taken || !isKnown && !u.take(n) {
		return false
	}
	c.paid = u.knownUnits
	if !isKnown {
		c.paid = u.units
		u.served.Turn(now)
		u.served.Set(n, now)
	}
	return true
}

// refund returns the units of a connection with a valid credential.
func (u *unauthenticated) refund(c *Conn) {
	if c.paid == nil {
		return
	}
	c.paid.Return(c.network)
	if c.paid == u.units {
		u.all.Return(struct{}{})
	}
	c.paid = nil
}

// enter takes the units of a new connection. If there are none, it returns a turn. If the lines have more than can be
// served, one of them leaves its line, and is refused at the end of its wait.
func (u *unauthenticated) enter(c *Conn) *turn {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := clock()
	own := u.lines[c.network]
	if own == nil && (!u.short || u.known.has(c.network, now)) && u.pay(c, now) {
		return nil
	}
	t := &turn{conn: c, since: now, ended: make(chan struct{})}
	if own == nil {
		own = &line{}
		own.served, _ = u.served.At(c.network)
		u.lines[c.network] = own
	}
	own.turns = append(own.turns, t)
	u.waiting++
	switch n := len(own.turns); {
	case n > lineMax: // a random one: otherwise those who always come when the line is full are never served
		u.remove(own.turns[rand.IntN(n)]) //nolint:gosec // fair, not secret
	case u.waiting > waitingMax:
		last := u.last()
		u.remove(last.turns[len(last.turns)-1])
	}
	return t
}

// last returns the line whose last connection would be served last: each line gets a turn in each round. Of several, it
// returns a random one.
func (u *unauthenticated) last() *line {
	fresh := 0
	for _, l := range u.lines {
		if l.served == 0 {
			fresh++
		}
	}
	var last *line
	for _, l := range u.lines { // in random order
		if last == nil || l.order(last, 2*fresh > len(u.lines)) > 0 {
			last = l
		}
	}
	return last
}

// order compares when the last connections of two lines would be served.
func (l *line) order(m *line, freshLast bool) int {
	served := cmp.Compare(l.served, m.served)
	if freshLast && (l.served == 0) != (m.served == 0) {
		served = -served
	}
	return cmp.Or(cmp.Compare(len(l.turns), len(m.turns)), served)
}

// leave removes a connection from its line. It reports whether the server may serve it.
func (u *unauthenticated) leave(t *turn) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case <-t.ended:
		return t.err == nil
	default:
		u.remove(t)
		return u.known.has(t.conn.network, clock())
	}
}

// remove removes a connection from its line, if it is in one.
func (u *unauthenticated) remove(t *turn) {
	n := t.conn.network
	l := u.lines[n]
	if l == nil {
		return
	}
	i := slices.Index(l.turns, t)
	if i < 0 {
		return
	}
	u.waiting--
	if l.turns = slices.Delete(l.turns, i, i+1); len(l.turns) == 0 {
		delete(u.lines, n)
	}
}

// serve ends the wait of connections for which there are units: one of each line in turn.
func (u *unauthenticated) serve() {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := clock()
	round := u.round()
	for len(round) > 0 {
		round = slices.DeleteFunc(round, func(l *line) bool { return !u.serveOne(l, now) })
	}
	u.short = u.waiting > 0 && u.all.Wait(struct{}{}) > 0
}

// round returns the lines in their order: the network that was served the longest ago comes first. Networks that were
// never served alternate with the others, so neither a flood from ever new addresses nor one from many that repeat
// keeps out a client of the other kind.
func (u *unauthenticated) round() []*line {
	lines := slices.SortedFunc(maps.Values(u.lines), func(a, b *line) int {
		return cmp.Or(cmp.Compare(a.served, b.served), cmp.Compare(a.turns[0].since, b.turns[0].since))
	})
	fresh := 0
	for n, l := range lines {
		l.rank = n - fresh
		if l.served == 0 {
			l.rank = n
			fresh++
		}
	}
	slices.SortStableFunc(lines, func(a, b *line) int { return cmp.Compare(a.rank, b.rank) })
	return lines
}

// serveOne ends the wait of the first connection of a line. It reports false if there is none, or no unit.
func (u *unauthenticated) serveOne(l *line, now time.Duration) bool {
	if len(l.turns) == 0 {
		return false
	}
	t := l.turns[0]
	switch {
	case hasHungUp(t.conn.tcp):
		t.err = io.EOF
	case u.pay(t.conn, now):
		l.served = now
	default:
		return false
	}
	u.remove(t)
	close(t.ended)
	return true
}

// chargeNew takes the units of a new connection, and waits until there are some. It returns io.EOF for a connection
// that the server must close without a response. The time for the request, which net/http has set, begins after the
// wait: it may be shorter.
func (c *Conn) chargeNew() error {
	c.charged = true
	if c.free {
		return nil
	}
	l := c.listener
	t := l.unauthenticated.enter(c)
	if t == nil {
		return nil
	}
	l.limited(addressOf(c.RemoteAddr()))
	began, wanted := clock(), c.reading.wanted.Load()
	if err := c.await(t); err != nil {
		return err
	}
	return c.reading.postpone(c.tcp, wanted, clock()-began)
}

// await waits for the end of a turn.
func (c *Conn) await(t *turn) error {
	l := c.listener
	c.setWaiting(Waiting)
	defer c.setWaiting(Incomplete)
	end := time.NewTimer(waitMax)
	defer end.Stop()
	check := time.NewTicker(knownWaitMax)
	defer check.Stop()
	for waits := true; waits; {
		select {
		case <-t.ended:
			return t.err
		case <-end.C:
			waits = false
		case <-check.C:
			waits = !l.unauthenticated.isKnown(c.network)
			if !l.open.contains(c) { // the server has closed it
				l.unauthenticated.leave(t)
				return io.EOF
			}
		case <-l.retired:
			l.unauthenticated.leave(t)
			return io.EOF
		}
	}
	if l.unauthenticated.leave(t) {
		return nil
	}
	l.metrics.refused[noCredential].Add(1)
	return io.EOF
}

// admitEvery limits the calls of unauthenticated.admit for a connection with many requests.
const admitEvery = time.Second

// Admit records a request with a valid credential. The units of its connection come back. forwarded is the client that
// a trusted proxy has named; zero: the client of the connection. Only the goroutine that reads the connection may call
// Admit and Charge.
func (c *Conn) Admit(forwarded netip.Addr, credential int64) {
	c.listener.open.setArriving(c, admitted)
	if forwarded.IsValid() {
		c.listener.unauthenticated.admit(limit.NetworkOf(forwarded), credential)
		return
	}
	now := clock()
	if c.free || now < c.admitAgain {
		return
	}
	c.admitAgain = now + admitEvery
	c.listener.unauthenticated.admit(c.network, credential)
	c.listener.unauthenticated.refund(c)
}

// Charge counts a request without a valid credential. It returns false beyond the limit of its client: the server must
// then refuse it if it is forwarded, or else close the connection.
func (c *Conn) Charge(forwarded netip.Addr) bool {
	if !forwarded.IsValid() {
		return c.free || c.listener.unauthenticated.charge(c.network, false)
	}
	if c.listener.unauthenticated.charge(limit.NetworkOf(forwarded), true) {
		return true
	}
	c.listener.limited(forwarded)
	return false
}
