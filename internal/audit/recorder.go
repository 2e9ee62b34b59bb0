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
	refusalsMax = 1000 // refusals that are counted at the same time
	signInsMax  = 500  // sign-ins that are remembered with the scope admin, and as many without it
	networksMax = 50   // of these, networks of one actor
	consoleMax  = 100  // sign-ins of one actor to the console in an hour, without the scope admin

	refusalsEvery = time.Minute
	signInEvery   = time.Hour
	appendTimeMax = 5 * time.Second
)

// Recorder appends the events of a server to the log in the background, so no request waits for the store. It keeps
// events while the store does not accept them. A nil Recorder records no request.
type Recorder struct {
	appendTo func(ctx context.Context, events ...Event) error // AppendAudit of an engine
	log      *slog.Logger

	mu       sync.Mutex // guards the fields below
	pending  []Event
	console  *limit.Buckets[Actor] // has a lock of its own
	lost     int                   // events that exceeded a limit
	refusals map[refusal]*tally
	signIns  map[signIn]time.Time // the last entry of each

	failing  atomic.Bool    // the last attempt failed, so the ticker makes the next one
	flushing sync.Mutex     // held by the goroutine that appends
	wake     chan struct{}  // buffers one signal that events are pending
	stop     chan struct{}  // closed by Close
	running  sync.WaitGroup // of the goroutine
}

// refusal is a scope that the credential of an actor lacks, or a way to sign in that failed.
type refusal struct {
	actor  Actor
	action Action
	detail Detail
}

// tally counts the requests with one refusal.
type tally struct {
	first time.Time
	count int
	last  Origin // of the last request
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
		appendTo: appendTo, log: log, refusals: map[refusal]*tally{}, signIns: map[signIn]time.Time{},
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
	r.add(e, pendingMax)
}

// add adds an event, unless most events are pending, and wakes the goroutine. The caller has locked mu.
func (r *Recorder) add(e Event, most int) {
	if len(r.pending) < most {
		r.pending = append(r.pending, e)
	} else {
		r.lost++
	}
	r.signal()
}

func (r *Recorder) signal() {
	select {
	case r.wake <- struct{}{}:
	default: // a signal waits
	}
}

// ScopeRefused counts a request whose credential lacks a scope. Each minute with such requests adds one entry per actor
// and scope.
func (r *Recorder) ScopeRefused(by Origin, scope string) {
	r.tally(refusal{by.Actor, ScopeRefused, Detail{"scope", scope}}, by)
}

// SignInRefused counts a failed sign-in to the console by its way: token or oidc. Each minute with such sign-ins adds
// one entry per actor and way.
func (r *Recorder) SignInRefused(by Origin, way string) {
	r.tally(refusal{by.Actor, SignInRefused, Detail{"console", way}}, by)
}

func (r *Recorder) tally(key refusal, by Origin) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.refusals[key]
	if c == nil {
		if len(r.refusals) >= refusalsMax {
			r.lost++
			return
		}
		c = &tally{first: time.Now()}
		r.refusals[key] = c
	}
	c.count++
	c.last = by
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
	r.add(Event{Time: now, Action: SignIn, Origin: by, Details: details}, most)
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
	tick := time.NewTicker(refusalsEvery)
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
			r.countRefusals()
		}
		r.Flush(context.Background())
	}
}

// countRefusals makes events of the counted refusals.
func (r *Recorder) countRefusals() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	keys := slices.SortedFunc(maps.Keys(r.refusals), func(a, b refusal) int {
		return cmp.Or(cmp.Compare(a.actor.Name, b.actor.Name), cmp.Compare(a.actor.ID, b.actor.ID),
			cmp.Compare(a.action, b.action), cmp.Compare(a.detail.Value, b.detail.Value))
	})
	for _, key := range keys {
		c := r.refusals[key]
		r.add(Event{Time: now, Action: key.action, Origin: c.last, Details: []Detail{
			key.detail, {"count", strconv.Itoa(c.count)}, {"since", c.first.UTC().Format(TimeFormat)},
		}}, pendingMax/2)
	}
	clear(r.refusals)
}

// Flush appends the pending events. It returns after at most 5 seconds. After a failure it logs the reason, and the
// next call tries again.
func (r *Recorder) Flush(ctx context.Context) {
	r.flushing.Lock()
	defer r.flushing.Unlock()
	r.mu.Lock()
	events, lost := slices.Clone(r.pending), r.lost
	r.mu.Unlock()
	count := len(events)
	if lost > 0 {
		events = append(events, Event{Time: time.Now(), Action: EventsLost, Details: []Detail{{"count", strconv.Itoa(lost)}}})
	}
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
	r.pending = slices.Delete(r.pending, 0, count)
	r.lost -= lost
	if len(r.pending) > 0 { // run ignored their signal if the previous attempt had failed
		r.signal()
	}
}

// Close appends the pending events and the counted refusals, and ends the goroutine. Events that the store refuses are
// lost. No other call may run during Close or after it.
func (r *Recorder) Close() {
	close(r.stop)
	r.running.Wait()
	r.countRefusals()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeMax)
	defer cancel()
	r.Flush(ctx)
}

// closeTimeMax bounds the last attempt: a service manager kills a server that does not end.
const closeTimeMax = time.Second
