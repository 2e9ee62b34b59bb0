package audit

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

// The limits of a Recorder.
const (
	pendingMax  = 1000 // events that wait for the store
	refusalsMax = 1000 // refusals that are counted at the same time
	signInsMax  = 1000 // actors and addresses whose last sign-in is known

	refusalsEvery = time.Minute
	signInEvery   = time.Hour
	appendTimeMax = 5 * time.Second
)

// Recorder appends the events of a server to the log in the background, so that no request waits for the store. It
// keeps events while the store does not accept them. A nil Recorder records no request.
type Recorder struct {
	append func(ctx context.Context, events ...Event) error // AppendAudit of an engine
	log    *slog.Logger

	mu       sync.Mutex // guards the fields below
	pending  []Event
	lost     int  // events that exceeded a limit
	failing  bool // the last attempt failed, so the next one is that of the ticker
	refusals map[refusal]*refused
	signIns  map[signIn]time.Time // the last entry of each

	flushing sync.Mutex    // held by the goroutine that appends
	wake     chan struct{} // buffers one signal that events are pending
	stop     chan struct{} // closed by Close
	done     chan struct{} // closed when the goroutine has ended
}

// refusal is a scope that a credential lacks, or a way to sign in that failed.
type refusal struct {
	actor  Actor
	action Action
	detail Detail
}

// refused counts the requests of a refusal since first.
type refused struct {
	first time.Time
	count int
	last  Origin // of the last request
}

// signIn is an actor at an address. A thief of a credential usually has another address than its owner.
type signIn struct {
	actor   Actor
	address string
}

// NewRecorder returns a Recorder and starts its goroutine. appendTo is AppendAudit of an engine. The caller
// closes the Recorder. log must not be nil.
func NewRecorder(appendTo func(ctx context.Context, events ...Event) error, log *slog.Logger) *Recorder {
	r := &Recorder{
		append: appendTo, log: log, refusals: map[refusal]*refused{}, signIns: map[signIn]time.Time{},
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
	go r.run() // ends when Close is called, which waits for it
	return r
}

// Record appends an event soon.
func (r *Recorder) Record(e Event) {
	r.mu.Lock()
	r.add(e)
	r.mu.Unlock()
	r.signal()
}

// add adds a pending event. The caller has locked mu.
func (r *Recorder) add(e Event) {
	if len(r.pending) >= pendingMax {
		r.lost++
		return
	}
	r.pending = append(r.pending, e)
}

func (r *Recorder) signal() {
	select {
	case r.wake <- struct{}{}:
	default: // a signal waits
	}
}

// Refused counts a request whose credential lacks a scope. Each minute with such requests has one entry for each actor
// and scope.
func (r *Recorder) Refused(by Origin, scope string) {
	r.refused(by, ScopeRefused, Detail{"scope", scope})
}

// RefusedSignIn counts a sign-in to the console that failed, by its way: token or oidc. Each minute
// with such sign-ins has one entry for each actor and way.
func (r *Recorder) RefusedSignIn(by Origin, way string) {
	r.refused(by, SignInRefused, Detail{"console", way})
}

func (r *Recorder) refused(by Origin, action Action, detail Detail) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	key := refusal{by.Actor, action, detail}
	c := r.refusals[key]
	if c == nil {
		if len(r.refusals) >= refusalsMax {
			r.lost++
			return
		}
		c = &refused{first: time.Now()}
		r.refusals[key] = c
	}
	c.count++
	c.last = by
}

// SignedIn records the first use of a credential in an hour from an address.
func (r *Recorder) SignedIn(by Origin) {
	if r == nil {
		return
	}
	now := time.Now()
	key := signIn{by.Actor, by.Address}
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.signIns[key]
	if known && now.Sub(last) < signInEvery {
		return
	}
	if !known && len(r.signIns) >= signInsMax {
		maps.DeleteFunc(r.signIns, func(_ signIn, last time.Time) bool { return now.Sub(last) >= signInEvery })
	}
	if !known && len(r.signIns) >= signInsMax { // a client with many addresses must not fill the store
		r.lost++
		return
	}
	r.signIns[key] = now
	r.add(Event{Time: now, Action: SignIn, Origin: by})
	r.signal()
}

func (r *Recorder) run() {
	defer close(r.done)
	tick := time.NewTicker(refusalsEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.stop:
			return
		case <-r.wake:
			if r.isFailing() {
				continue
			}
		case <-tick.C:
			r.countRefusals()
		}
		r.Flush(context.Background())
	}
}

func (r *Recorder) isFailing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failing
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
		}})
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
	err := r.append(ctx, events...)
	if err != nil {
		r.log.Warn("could not append to the audit log; a running server retries within a minute",
			"events", len(events), "error", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failing = err != nil; r.failing {
		return
	}
	r.pending = slices.Delete(r.pending, 0, count)
	r.lost -= lost
	if len(r.pending) > 0 { // run ignored their signal if the attempt before had failed
		r.signal()
	}
}

// Close appends the pending events and the counted refusals, and ends the goroutine. Events that the store does not
// accept are lost. No other call may run during Close or after it.
func (r *Recorder) Close() {
	close(r.stop)
	<-r.done
	r.countRefusals()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeMax)
	defer cancel()
	r.Flush(ctx)
}

// closeTimeMax bounds the last attempt: a service manager kills a server that does not end.
const closeTimeMax = time.Second
