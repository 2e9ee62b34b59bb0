package audit

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"plantstore/internal/limit"
)

// The limits of a Recorder.
const (
	pendingMax  = 1000 // events that wait for the store
	talliesMax  = 1000 // series that are counted at the same time
	signInsMax  = 500  // sign-ins that are remembered with the scope admin, and as many without it
	networksMax = 50   // of these, networks of one actor
	consoleMax  = 100  // sign-ins of one actor to the console in an hour, without the scope admin

	collectEvery  = time.Minute
	signInEvery   = time.Hour
	appendTimeMax = 5 * time.Second
)

// Recorder appends the events of a server to the log in the background, so no request waits for the store. It keeps
// events while the store does not accept them. A nil Recorder records no request.
type Recorder struct {
	appendTo func(ctx context.Context, events ...Event) error // AppendAudit of an engine
	log      *slog.Logger

	mu      sync.Mutex // guards the fields below
	pending []Event
	console *limit.Buckets[Actor] // has a lock of its own
	lost    int                   // events that exceeded a limit
	tallies map[series]*tally
	signIns map[signIn]time.Time // the last entry of each

	failing  atomic.Bool    // the last attempt failed, so the ticker makes the next one
	flushing sync.Mutex     // held by the goroutine that appends
	wake     chan struct{}  // buffers one signal that events are pending
	stop     chan struct{}  // closed by Close
	running  sync.WaitGroup // the goroutine
}

// series are the events that Collect adds up.
type series struct {
	actor  Actor
	action Action
	first  Detail
}

// tally has the events of a series since its last entry.
type tally struct {
	count int
	since time.Time // time of the first one
	last  Event
	sums  []Sum
}

// Sum is a number of an event. Collect adds it up.
type Sum struct {
	Key string // key of a detail
	N   int64
}

// signIn is an actor in a network. A stolen credential usually comes from a new network.
type signIn struct {
	actor   Actor
	admin   bool // the credential has the scope admin
	network limit.Network
}

// NewRecorder returns a Recorder and starts its goroutine. appendTo is AppendAudit of an engine. The caller
// closes the Recorder. log must not be nil.
func NewRecorder(appendTo func(ctx context.Context, events ...Event) error, log *slog.Logger) *Recorder {
	r := &Recorder{
		appendTo: appendTo, log: log, tallies: map[series]*tally{}, signIns: map[signIn]time.Time{},
		console: limit.NewBuckets[Actor](consoleMax, consoleMax, time.Hour, signInsMax),
		wake:    make(chan struct{}, 1), stop: make(chan struct{}),
	}
	r.running.Go(r.run) // until Close
	return r
}

// Record appends an event soon.
func (r *Recorder) Record(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addBelow(pendingMax, e)
}

// addBelow adds an event, unless so many are pending. The caller has locked mu.
func (r *Recorder) addBelow(most int, e Event) {
	if len(r.pending) < most {
		r.add(e)
	} else {
		r.lost++
	}
}

// add adds an event, and wakes the goroutine. The caller has locked mu.
func (r *Recorder) add(e Event) {
	r.pending = append(r.pending, e)
	r.signal()
}

func (r *Recorder) signal() {
	select {
	case r.wake <- struct{}{}:
	default: // a signal waits
	}
}

// Collect records an event that any client can cause again and again. It appends the first one soon, and counts further
// ones with the same actor, action and first detail. Each minute appends the last of them, with their count, the time
// of the first, and their sums, until a minute has none. The sums of a series have the same keys.
func (r *Recorder) Collect(e Event, sums ...Sum) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := series{e.Actor, e.Action, e.Details[0]}
	c := r.tallies[key]
	if c == nil {
		if len(r.tallies) >= talliesMax {
			r.lost++
			return
		}
		c = &tally{}
		r.tallies[key] = c
		if len(r.pending) < pendingMax/2 {
			r.add(e.with(sums))
			return
		}
	}
	if c.count == 0 {
		c.since, c.sums = e.Time, make([]Sum, len(sums))
	}
	c.count++
	c.last = e
	for i, sum := range sums {
		c.sums[i] = Sum{sum.Key, c.sums[i].N + sum.N}
	}
}

// with returns the event with further details.
func (e Event) with(sums []Sum, more ...Detail) Event {
	e.Details = append(slices.Clone(e.Details), more...)
	for _, sum := range sums {
		e.Details = append(e.Details, Detail{sum.Key, strconv.FormatInt(sum.N, 10)})
	}
	return e
}

// addCounted adds an event for each series that has counted some, unless so many are pending: it then counts on. It
// forgets the other series.
func (r *Recorder) addCounted(most int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.lost > 0 && len(r.pending) <= pendingMax {
		r.add(Event{Time: now, Action: EventsLost, Details: []Detail{{"count", strconv.Itoa(r.lost)}}})
		r.lost = 0
	}
	for _, key := range slices.SortedFunc(maps.Keys(r.tallies), series.compare) {
		switch c := r.tallies[key]; {
		case c.count == 0:
			delete(r.tallies, key)
		case len(r.pending) < most:
			c.last.Time = now
			r.add(c.last.with(c.sums, Detail{"count", strconv.Itoa(c.count)}, Detail{"since", c.since.UTC().Format(TimeFormat)}))
			*c = tally{}
		}
	}
}

func (s series) compare(other series) int {
	return cmp.Or(cmp.Compare(s.actor.Name, other.actor.Name), cmp.Compare(s.actor.ID, other.actor.ID),
		cmp.Compare(s.action, other.action), cmp.Compare(s.first.Value, other.first.Value))
}

// SignedIn records the first use of a credential in an hour from a network. With details it records every use: a
// sign-in to the console. admin means that the credential has the scope admin. Others cannot use up the limits for
// these.
func (r *Recorder) SignedIn(by Origin, admin bool, details ...Detail) {
	if r == nil {
		return
	}
	now := time.Now()
	address, _ := netip.ParseAddr(by.Address) // all invalid addresses are one network
	key := signIn{by.Actor, admin, limit.NetworkOf(address)}
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.signIns[key]
	if known && len(details) == 0 && now.Sub(last) < signInEvery {
		return
	}
	room := known || r.hasRoom(key, now)
	if room {
		r.signIns[key] = now
	}
	if len(details) > 0 {
		room = admin || r.console.Take(by.Actor).Taken
	}
	if !room { // a client with many networks or sign-ins must not fill the store
		r.lost++
		return
	}
	most := pendingMax
	if !admin {
		most = pendingMax / 2
	}
	r.addBelow(most, Event{Time: now, Action: SignIn, Origin: by, Details: details})
}

// hasRoom removes old sign-ins, and reports whether a new one is within the limits. The caller has locked mu.
func (r *Recorder) hasRoom(key signIn, now time.Time) bool {
	alike, own := 0, 0
	for other, last := range r.signIns {
		switch {
		case now.Sub(last) >= signInEvery:
			delete(r.signIns, other)
		case other.admin == key.admin:
			alike++
			if other.actor == key.actor {
				own++
			}
		}
	}
	return alike < signInsMax && own < networksMax
}

func (r *Recorder) run() {
	tick := time.NewTicker(collectEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-r.wake:
			if r.failing.Load() {
				continue
			}
		case <-tick.C:
			r.addCounted(pendingMax / 2)
		}
		r.Flush(context.Background())
	}
}

// Flush appends the pending events. It returns after at most 5 seconds. After a failure it logs the reason, and the
// next call tries again.
func (r *Recorder) Flush(ctx context.Context) {
	if r == nil {
		return
	}
	r.flushing.Lock()
	defer r.flushing.Unlock()
	r.mu.Lock()
	events := slices.Clone(r.pending)
	r.mu.Unlock()
	if len(events) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, appendTimeMax)
	defer cancel()
	err := r.appendTo(ctx, events...)
	r.failing.Store(err != nil)
	if err != nil {
		r.log.Warn("could not append to the audit log; a running server retries within a minute",
			"events", len(events), "error", err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pending = slices.Delete(r.pending, 0, len(events))
	if len(r.pending) > 0 { // run ignored their signal if the previous attempt had failed
		r.signal()
	}
}

// Close appends the pending and the counted events, and ends the goroutine. Events that the store refuses are
// lost. No other call may run during Close or after it.
func (r *Recorder) Close() {
	close(r.stop)
	r.running.Wait()
	r.addCounted(pendingMax + talliesMax)
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeMax)
	defer cancel()
	r.Flush(ctx)
}

// closeTimeMax bounds the last attempt: a service manager kills a server that does not end.
const closeTimeMax = time.Second
