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

// A client without a valid credential may use strangerUnits at once and one more each strangerInterval, and all of them
// together unitsOfAll and one more each intervalOfAll. A new connection costs a unit of both, and so does each call
// of Charge. In a known network they cost one of knownUnits. A request that a proxy forwards costs none of unitsOfAll:
// it can be a preflight, which never has a credential.
const (
	strangerUnits    = 500
	strangerInterval = 50 * time.Millisecond
	unitsOfAll       = 1000
	intervalOfAll    = 10 * time.Millisecond
	knownUnits       = 2000
	knownInterval    = 2 * time.Millisecond

	// A connection beyond the units waits in a line for at most waitMax. The lines have no more connections than can be
	// served in that time. Others are refused, also after waitMax: a client that is refused at once would connect again
	// at once.
	waitMax    = 5 * time.Second
	lineMax    = int(waitMax / strangerInterval) // connections of a network
	waitingMax = int(waitMax / intervalOfAll)    // connections in all lines

	// A connection of a known network is served without a unit after knownWaitMax: it may have a valid credential.
	knownWaitMax = time.Second

	// networksMax is more than the networks that can lack units at the same time: they share unitsOfAll, and those that
	// proxies name would need 200,000 requests a second. Further ones would share strangerUnits.
	networksMax = 10_000
)

// strangers limits the clients without a valid credential, by network and together. Clients may share an address, so a
// network is known for knownFor after a request of any of them with a valid credential.
type strangers struct {
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
	served time.Duration // copy of its time in strangers.served; 0: not there
	rank   int           // set by round
}

// turn is a connection that waits for its units.
type turn struct {
	conn  *Conn
	since time.Duration
	ended chan struct{} // closed when it leaves its line in serve
	err   error         // not nil: the client is gone; readable after ended
}

func newStrangers() *strangers {
	return &strangers{
		units:      limit.NewBuckets[limit.Network](strangerUnits, 1, strangerInterval, networksMax),
		knownUnits: limit.NewBuckets[limit.Network](knownUnits, 1, knownInterval, networksMax),
		all:        limit.NewBuckets[struct{}](unitsOfAll, 1, intervalOfAll, 1),
		known:      newKnown(),
		served:     limit.NewRecent[limit.Network](networksMax, knownFor),
		lines:      map[limit.Network]*line{},
	}
}

// admit makes a network known.
func (s *strangers) admit(n limit.Network, credential int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known.admit(n, credential, clock())
}

func (s *strangers) isKnown(n limit.Network) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known.has(n, clock())
}

// charge takes the units of a request, and reports false if there are none. Connections that wait go first.
func (s *strangers) charge(n limit.Network, forwarded bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	isKnown := s.known.has(n, clock())
	switch {
	case forwarded:
		return isKnown || s.units.Take(n).Taken
	case s.lines[n] != nil:
		return false
	case isKnown:
		return s.knownUnits.Take(n).Taken
	}
	return !s.short && s.take(n)
}

// take takes a unit of an unknown network and one of all, or none.
func (s *strangers) take(n limit.Network) bool {
	return s.units.Wait(n) == 0 && s.all.Take(struct{}{}).Taken && s.units.Take(n).Taken
}

// pay takes the units of a new connection, and reports false if there are none.
func (s *strangers) pay(c *Conn, now time.Duration) bool {
	n := c.network
	isKnown := s.known.has(n, now)
	if isKnown && !s.knownUnits.Take(n).Taken || !isKnown && !s.take(n) {
		return false
	}
	c.paid = s.knownUnits
	if !isKnown {
		c.paid = s.units
		s.served.Turn(now)
		s.served.Set(n, now)
	}
	return true
}

// refund returns the units of a connection with a valid credential.
func (s *strangers) refund(c *Conn) {
	if c.paid == nil {
		return
	}
	c.paid.Return(c.network)
	if c.paid == s.units {
		s.all.Return(struct{}{})
	}
	c.paid = nil
}

// enter takes the units of a new connection. If there are none, it returns a turn. If the lines have more than can be
// served, one of them leaves its line, and is refused at the end of its wait.
func (s *strangers) enter(c *Conn) *turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock()
	own := s.lines[c.network]
	if own == nil && (!s.short || s.known.has(c.network, now)) && s.pay(c, now) {
		return nil
	}
	t := &turn{conn: c, since: now, ended: make(chan struct{})}
	if own == nil {
		own = &line{}
		own.served, _ = s.served.At(c.network)
		s.lines[c.network] = own
	}
	own.turns = append(own.turns, t)
	s.waiting++
	switch n := len(own.turns); {
	case n > lineMax: // a random one: otherwise those who always come when the line is full are never served
		s.remove(own.turns[rand.IntN(n)]) //nolint:gosec // fair, not secret
	case s.waiting > waitingMax:
		last := s.last()
		s.remove(last.turns[len(last.turns)-1])
	}
	return t
}

// last returns the line whose last connection would be served last: each line gets a turn in each round. Of several, it
// returns a random one.
func (s *strangers) last() *line {
	fresh := 0
	for _, l := range s.lines {
		if l.served == 0 {
			fresh++
		}
	}
	var last *line
	for _, l := range s.lines { // in random order
		if last == nil || l.order(last, 2*fresh > len(s.lines)) > 0 {
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
func (s *strangers) leave(t *turn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-t.ended:
		return t.err == nil
	default:
		s.remove(t)
		return s.known.has(t.conn.network, clock())
	}
}

// remove removes a connection from its line, if it is in one.
func (s *strangers) remove(t *turn) {
	n := t.conn.network
	l := s.lines[n]
	if l == nil {
		return
	}
	i := slices.Index(l.turns, t)
	if i < 0 {
		return
	}
	s.waiting--
	if l.turns = slices.Delete(l.turns, i, i+1); len(l.turns) == 0 {
		delete(s.lines, n)
	}
}

// serve ends the wait of connections for which there are units: one of each line in turn.
func (s *strangers) serve() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := clock()
	round := s.round()
	for len(round) > 0 {
		round = slices.DeleteFunc(round, func(l *line) bool { return !s.serveOne(l, now) })
	}
	s.short = s.waiting > 0 && s.all.Wait(struct{}{}) > 0
}

// round returns the lines in their order: the network that was served the longest ago comes first. Networks that were
// never served alternate with the others, so neither a flood from ever new addresses nor one from many that repeat
// keeps out a client of the other kind.
func (s *strangers) round() []*line {
	lines := slices.SortedFunc(maps.Values(s.lines), func(a, b *line) int {
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
func (s *strangers) serveOne(l *line, now time.Duration) bool {
	if len(l.turns) == 0 {
		return false
	}
	t := l.turns[0]
	switch {
	case hasHungUp(t.conn.tcp):
		t.err = io.EOF
	case s.pay(t.conn, now):
		l.served = now
	default:
		return false
	}
	s.remove(t)
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
	t := l.strangers.enter(c)
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
			waits = !l.strangers.isKnown(c.network)
			if !l.open.contains(c) { // the server has closed it
				l.strangers.leave(t)
				return io.EOF
			}
		case <-l.retired:
			l.strangers.leave(t)
			return io.EOF
		}
	}
	if l.strangers.leave(t) {
		return nil
	}
	l.metrics.refused[stranger].Inc()
	return io.EOF
}

// admitEvery limits the calls of strangers for a connection with many requests.
const admitEvery = time.Second

// Admit records a request with a valid credential. The units of its connection come back. forwarded is the client that
// a trusted proxy has named; zero: the client of the connection. Only the goroutine that reads the connection may call
// Admit and Charge.
func (c *Conn) Admit(forwarded netip.Addr, credential int64) {
	c.listener.open.setArriving(c, admitted)
	if forwarded.IsValid() {
		c.listener.strangers.admit(limit.NetworkOf(forwarded), credential)
		return
	}
	now := clock()
	if c.free || now < c.admitAgain {
		return
	}
	c.admitAgain = now + admitEvery
	c.listener.strangers.admit(c.network, credential)
	c.listener.strangers.refund(c)
}

// Charge counts a request without a valid credential. It returns false beyond the limit of its client: the server must
// then refuse it if it is forwarded, or else close the connection.
func (c *Conn) Charge(forwarded netip.Addr) bool {
	if !forwarded.IsValid() {
		return c.free || c.listener.strangers.charge(c.network, false)
	}
	if c.listener.strangers.charge(limit.NetworkOf(forwarded), true) {
		return true
	}
	c.listener.limited(forwarded)
	return false
}
