package listen

import (
	"io"
	"net/netip"
	"time"

	"plantstore/internal/limit"
)

// A client without a valid credential may use strangerUnits at once and one more each strangerInterval. A new
// connection costs a unit, and so does each request of Charge.
const (
	strangerUnits    = 500
	strangerInterval = 50 * time.Millisecond

	// A connection beyond the units waits for the units of all earlier ones. If that takes waitMax or longer, the
	// listener closes it after waitMax: a client that is refused at once would connect again at once.
	waitMax   = 5 * time.Second
	waitBelow = int(waitMax / strangerInterval) // units left in the bucket below which connections wait

	knownFor    = 10 * time.Minute // after a request with a valid credential
	networksMax = 10_000
)

// strangers limits the clients without a valid credential, by network. Clients may share an address, so a network has
// no limit for knownFor after a request of any of them with a valid credential.
type strangers struct {
	units *limit.Buckets[limit.Network]
	known *limit.Buckets[limit.Network] // an empty bucket is known; if too many networks are known, all are
}

func newStrangers() *strangers {
	const units = strangerUnits + waitBelow
	return &strangers{
		units: limit.NewBuckets[limit.Network](units, 1, strangerInterval, networksMax),
		known: limit.NewBuckets[limit.Network](1, 1, knownFor, networksMax),
	}
}

// admit makes a network known.
func (s *strangers) admit(n limit.Network) { s.known.Take(n) }

func (s *strangers) isKnown(n limit.Network) bool { return s.known.Wait(n) > 0 }

// charge takes a unit of a network. It returns the time until the unit is available, at most waitMax.
func (s *strangers) charge(n limit.Network) time.Duration {
	if s.isKnown(n) {
		return 0
	}
	return time.Duration(max(0, waitBelow-s.units.Take(n).Units)) * strangerInterval
}

// chargeNew charges the network of a new connection one unit, and waits until there is one. It returns io.EOF for a
// connection that the server must close without a response.
func (c *Conn) chargeNew() error {
	l := c.listener
	c.charged = true
	wait := l.strangers.charge(c.network)
	if wait == 0 {
		return nil
	}
	l.limited(addressOf(c.RemoteAddr()))
	end := time.NewTimer(wait)
	defer end.Stop()
	check := time.NewTicker(time.Second)
	defer check.Stop()
	for {
		select {
		case <-end.C:
			if wait < waitMax || l.strangers.isKnown(c.network) {
				return nil
			}
			l.metrics.refused[stranger].Inc()
			return io.EOF
		case <-l.retired:
			return io.EOF
		case <-check.C:
			if !l.open.contains(c) { // the server has closed it
				return io.EOF
			}
			if l.strangers.isKnown(c.network) {
				return nil
			}
		}
	}
}

// admitEvery limits the calls of strangers for a connection with many requests.
const admitEvery = time.Second

// Admit records a request with a valid credential. forwarded is the client that a trusted proxy has named; zero: the
// client of the connection. Only the goroutine that reads the connection may call Admit, Charge and Refund.
func (c *Conn) Admit(forwarded netip.Addr) {
	if forwarded.IsValid() {
		c.listener.strangers.admit(limit.NetworkOf(forwarded))
		return
	}
	if now := clock(); !c.shared && now >= c.admitAgain {
		c.admitAgain = now + admitEvery
		c.listener.strangers.admit(c.network)
	}
}

// Charge counts a request without a valid credential. It returns false beyond the limit of its client: the server must
// then refuse it if it is forwarded, or else close the connection.
func (c *Conn) Charge(forwarded netip.Addr) bool {
	if !forwarded.IsValid() {
		return c.shared || c.listener.strangers.charge(c.network) == 0
	}
	if c.listener.strangers.charge(limit.NetworkOf(forwarded)) == 0 {
		return true
	}
	c.listener.limited(forwarded)
	return false
}

// Refund returns the unit of a new connection, after a response that is not a refusal.
func (c *Conn) Refund() {
	if c.charged && !c.refunded {
		c.refunded = true
		c.listener.strangers.units.Return(c.network)
	}
}
