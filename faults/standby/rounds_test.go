package standby

import (
	"slices"
	"time"
)

// kind is a kind of faults. Its run returns when they are over, or leaves their end to settle.
type kind struct {
	name       string
	run        func(c *cluster, owner, standby *machine)
	needBucket bool
}

// kinds are all kinds.
var kinds = []kind{
	{name: "kill the owner", run: killOwner},
	{name: "a late claim", run: lateClaim},
	{name: "kill and start the owner", run: killBriefly},
	{name: "start the old owner during a take-over", run: startDuringTakeOver},
	{name: "kill the standby during a take-over", run: killTaker},
	{name: "kill both", run: killBoth},
	{name: "stop the owner", run: stopOwner},
	{name: "promote", run: promote},
	{name: "promote without the owner", run: promoteWithoutOwner},
	{name: "pause the owner", run: func(c *cluster, owner, _ *machine) { c.suspendFor(owner) }},
	{name: "pause the standby", run: func(c *cluster, _, standby *machine) { c.suspendFor(standby) }},
	{name: "cut the owner off", run: func(c *cluster, owner, _ *machine) { c.cutFor(owner) }},
	{name: "cut the standby off", run: func(c *cluster, _, standby *machine) { c.cutFor(standby) }},
	{name: "cut both off", run: func(c *cluster, owner, standby *machine) { c.cutFor(owner, standby) }},
	{name: "slow links", run: slowLinks, needBucket: true},
	{name: "lossy links", run: lossyLinks, needBucket: true},
	{name: "several faults", run: several},
}

// deal returns the kinds for a number of rounds: each one before any of them again.
func (c *cluster) deal(from []kind, rounds int) (dealt []kind) {
	from = slices.DeleteFunc(slices.Clone(from), func(k kind) bool { return k.needBucket && !c.bucket })
	for len(dealt) < rounds {
		c.random.Shuffle(len(from), func(i, j int) { from[i], from[j] = from[j], from[i] })
		dealt = append(dealt, from...)
	}
	return dealt[:rounds]
}

// faultTime returns a random time that is often longer than --failover.
func (c *cluster) faultTime() time.Duration {
	const longPause = time.Minute
	longest := 3 * c.failover
	if *long && c.random.IntN(20) == 0 {
		longest = longPause
	}
	return 100*time.Millisecond + time.Duration(c.random.Int64N(int64(longest)))
}

func (c *cluster) suspendFor(m *machine) {
	m.suspend()
	<-time.After(c.faultTime())
	m.resume()
}

// cutFor cuts machines off from the destination. Requests of the time are lost, or late.
func (c *cluster) cutFor(all ...*machine) {
	for _, m := range all {
		if m.hold != nil && c.random.IntN(2) == 0 {
			m.hold()
		} else {
			m.cut()
		}
	}
	<-time.After(c.faultTime())
	for _, m := range all {
		m.heal()
		c.pause(time.Second)
	}
}

// killOwner measures the times from a kill until the standby is ready, and until it has acknowledged a plant.
func killOwner(c *cluster, owner, standby *machine) {
	at := time.Now()
	owner.kill()
	c.kills = append(c.kills, c.awaitReady(standby, at).Sub(at))
	var first time.Time
	c.within("the standby acknowledges a plant", func() bool {
		first = c.firstAfter(standby.number, at)
		return !first.IsZero()
	})
	c.firsts = append(c.firsts, first.Sub(at))
	c.pause(time.Second)
}

// awaitReady waits until a machine is ready after a time, and returns when.
func (c *cluster) awaitReady(m *machine, after time.Time) (at time.Time) {
	c.t.Helper()
	c.within("the standby is ready", func() bool {
		c.restart(m)
		at = c.readyAfter(m.number, after)
		return !at.IsZero()
	})
	return at
}

// stopOwner measures the time from a clean stop until the standby is ready.
func stopOwner(c *cluster, owner, standby *machine) {
	at := time.Now()
	owner.stop()
	c.stops = append(c.stops, c.awaitReady(standby, at).Sub(at))
	c.pause(time.Second)
}

// promote measures the time of the command.
func promote(c *cluster, _, standby *machine) {
	at := time.Now()
	if err := c.promote(standby); err != nil {
		c.violate("%w", err)
	}
	c.promotions = append(c.promotions, time.Since(at))
}

// promoteWithoutOwner promotes a standby while the owner cannot hand over.
func promoteWithoutOwner(c *cluster, owner, standby *machine) {
	faults := []func(){owner.kill, owner.suspend, owner.cut}
	faults[c.random.IntN(len(faults))]()
	c.pause(c.failover / 2)
	if err := c.promote(standby); err != nil {
		c.violate("%w", err)
	}
}

func killBriefly(c *cluster, owner, _ *machine) {
	owner.kill()
	c.pause(c.failover * 3 / 2)
}

func startDuringTakeOver(c *cluster, owner, standby *machine) {
	before := standby.takeOvers()
	owner.kill()
	c.awaitTakeOver(standby, before)
	c.pause(100 * time.Millisecond)
}

func killTaker(c *cluster, owner, standby *machine) {
	before := standby.takeOvers()
	owner.kill()
	c.awaitTakeOver(standby, before)
	c.pause(100 * time.Millisecond)
	standby.kill()
	c.startInTurn(owner, standby)
}

func killBoth(c *cluster, owner, standby *machine) {
	all := []*machine{owner, standby}
	c.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, m := range all {
		m.kill()
		c.pause(c.failover)
	}
	c.startInTurn(all...)
}

func (c *cluster) startInTurn(all ...*machine) {
	for _, n := range c.random.Perm(len(all)) {
		all[n].launch(c.t)
		c.pause(c.failover)
	}
}

// lateClaim cuts the owner off until the standby takes over, and delays the standby between its last look at the
// destination and its claim. Meanwhile the owner goes on.
func lateClaim(c *cluster, owner, standby *machine) {
	before := standby.takeOvers()
	if standby.slow != nil { // else it has claimed the destination before it is delayed
		standby.slow(100 * time.Millisecond)
	}
	owner.cut()
	c.awaitTakeOver(standby, before)
	if standby.hold != nil {
		standby.hold()
	} else {
		standby.suspend()
	}
	owner.heal()
	acknowledged := c.acknowledgements(owner.number)
	const plants = 50
	enough := time.After(c.failover)
	for c.acknowledgements(owner.number) < acknowledged+plants { // never, if the claim was faster
		select {
		case <-time.After(5 * time.Millisecond):
			continue
		case <-enough:
		}
		break
	}
	standby.resume()
	standby.heal()
}

func slowLinks(c *cluster, owner, standby *machine) {
	for _, m := range c.some(owner, standby) {
		m.slow(time.Duration(1 + c.random.Int64N(int64(500*time.Millisecond))))
	}
	<-time.After(c.faultTime())
}

func lossyLinks(c *cluster, owner, standby *machine) {
	for _, m := range c.some(owner, standby) {
		m.lossy()
	}
	<-time.After(c.faultTime())
}

// some returns one of two machines, or both.
func (c *cluster) some(a, b *machine) []*machine {
	return [][]*machine{{a}, {b}, {a, b}}[c.random.IntN(3)]
}

// several injects faults one after the other, whose times overlap.
func several(c *cluster, owner, standby *machine) {
	for range 2 + c.random.IntN(3) {
		m := c.some(owner, standby)[0]
		fault := []func(){
			m.kill, m.stop, m.suspend, m.resume, m.cut, m.heal,
			func() {
				if m.server == nil {
					m.heal()
					m.launch(c.t)
				}
			},
			func() {
				if m.hold != nil {
					m.hold()
				}
			},
		}
		fault[c.random.IntN(len(fault))]()
		c.pause(c.failover * 3 / 2)
	}
}
