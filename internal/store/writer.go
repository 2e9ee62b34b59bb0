package store

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"plantstore/internal/plant"
)

// writer gathers creates into a pool and commits the whole pool when the last
// commit has ended and enough have gathered: half of the recent clients. A lone
// client is served at once. Many clients, whose next requests are on their way
// when a commit ends, share the next commit instead of splitting into a small
// one and those who wait for it.
type writer struct {
	engine Engine
	log    *slog.Logger
	outage *outage
	limit  Limits
	meters *meters
	ctx    context.Context // of every commit
	cancel context.CancelFunc

	gathering chan struct{} // holds a token while a committer waits for a pool
	timer     *time.Timer   // of that committer

	mu            sync.Mutex
	pool          *batch      // what gathers for the next commit; guarded by mu
	goal          int         // the committer is woken when the pool has so many; guarded by mu
	recentClients int         // an upper bound of the clients of the last commits, which fades; guarded by mu
	flying        int         // creates in commits that run; guarded by mu
	closed        bool        // no more creates are taken; guarded by mu
	broken        bool        // the engine returned ErrBroken; guarded by mu
	begun         []time.Time // of each committer, when its commit began; zero between two; guarded by mu

	wake       chan struct{}  // holds a token when the pool may have something, or closed was set
	committers sync.WaitGroup // those that run
	fail       chan struct{}  // closed when broken was set
}

// batch is a pool of creates, and their outcomes.
type batch struct {
	creates  []Create
	bytes    int       // of names and tags
	outcomes []Outcome // of creates, unless err is set; set before done is closed
	err      error     // for all of the batch; set before done is closed
	done     chan struct{}
	late     chan struct{} // closed when the batch is older than Limits.AnswerTimeout
	timer    *time.Timer   // that closes late; set by the first create
}

// Limits bounds the plants that wait for a commit. A zero field means its default.
type Limits struct {
	QueueMax      int           // plants that wait for the next commit; default 8192
	Bytes         int           // bytes of their names and tags; default 32 MiB
	CommitTime    time.Duration // for one commit to begin and to end; default 10 s
	AnswerTimeout time.Duration // for Store.Create, which then returns that the outcome is unknown; default 20 s
}

func (l Limits) withDefaults() Limits {
	l.QueueMax = cmp.Or(l.QueueMax, 8192)
	l.Bytes = cmp.Or(l.Bytes, 32<<20)
	l.CommitTime = cmp.Or(l.CommitTime, 10*time.Second)
	l.AnswerTimeout = cmp.Or(l.AnswerTimeout, 20*time.Second)
	return l
}

func newWriter(c Config, o *outage) *writer {
	w := &writer{
		engine:    c.Engine,
		log:       c.Log,
		outage:    o,
		limit:     c.Limits,
		pool:      newBatch(0),
		goal:      1,
		gathering: make(chan struct{}, 1),
		wake:      make(chan struct{}, 1),
		fail:      make(chan struct{}),
		timer:     time.NewTimer(gatherMax),
		begun:     make([]time.Time, c.Commits),
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.meters = newMeters(c.Metrics, w.gathered, c.Engine.Durability)
	for i := range w.begun {
		w.committers.Go(func() { w.commitAll(i) }) // ends when close is called or the engine breaks; close waits for it
	}
	return w
}

func newBatch(room int) *batch {
	return &batch{creates: make([]Create, 0, room), done: make(chan struct{}), late: make(chan struct{})}
}

// end wakes those who wait for the batch. One timer served them all: one for
// each would cost as much as decoding a plant.
func (b *batch) end() {
	if b.timer != nil {
		b.timer.Stop()
	}
	close(b.done)
}

// create waits until c is committed. It returns the outcome, or an *plant.Error
// that tells why there is no outcome. If the time for an answer ends first, the
// plant stays in its batch, and the outcome is unknown.
func (w *writer) create(c Create) (Outcome, error) {
	b, i, err := w.add(c)
	if err != nil {
		return Outcome{}, err
	}
	select {
	case <-b.done:
		if b.err != nil {
			return Outcome{}, b.err
		}
		return b.outcomes[i], nil
	case <-b.late:
		return Outcome{}, errUnknown()
	}
}

// add puts c into the pool, at index i of the batch that the pool becomes.
func (w *writer) add(c Create) (b *batch, i int, err error) {
	bytes := c.Plant.Bytes()

	w.mu.Lock()
	defer w.mu.Unlock()
	b = w.pool
	switch {
	case w.broken:
		return nil, 0, errUnavailable()
	case w.closed:
		return nil, 0, &plant.Error{Code: plant.CodeShuttingDown, Message: "the store is shutting down; the plant was not stored: send it again"}
	case len(b.creates) >= w.limit.QueueMax || b.bytes+bytes > w.limit.Bytes:
		return nil, 0, &plant.Error{Code: plant.CodeQueueFull, Message: "more plants wait than the store takes; this one was not stored: send it again"}
	}
	select {
	case <-b.late: // the commit before hangs, and nobody would wait for this one
		return nil, 0, errUnavailable()
	default:
	}
	if len(b.creates) == 0 {
		b.timer = time.AfterFunc(w.limit.AnswerTimeout, func() { close(b.late) })
	}
	b.creates = append(b.creates, c)
	b.bytes += bytes
	if len(b.creates) == w.goal {
		w.signal()
	}
	return b, len(b.creates) - 1, nil
}

// signal tells the committer that there is something to do.
func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // it will find this too
	}
}

// gatherMax is how long a pool that has not reached its goal is waited for.
const gatherMax = time.Millisecond

// commitAll is the committer with that number.
func (w *writer) commitAll(number int) {
	for {
		b, last := w.take()
		if len(b.creates) > 0 {
			if err := w.commit(number, b); errors.Is(err, ErrBroken) {
				w.giveUp()
				return
			}
		}
		if last {
			return
		}
	}
}

// gathered returns how many creates wait in the pool.
func (w *writer) gathered() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pool.creates)
}

// take waits for a pool with half of the recent clients, for any pool once
// gatherMax is over, and swaps it for an empty one. The number of recent clients
// fades by an eighth a commit, rounded up: rounded down, it would never fall
// below 8, and a lone client would wait for clients that left long ago.
func (w *writer) take() (b *batch, last bool) {
	w.gathering <- struct{}{}
	defer func() { <-w.gathering }()
	if !w.reached(false) {
		w.timer.Reset(gatherMax)
		select {
		case <-w.wake:
		case <-w.timer.C:
			if !w.reached(true) {
				<-w.wake
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b = w.pool
	w.pool = newBatch(w.recentClients)
	w.recentClients -= (w.recentClients + 7) / 8
	w.flying += len(b.creates)
	return b, w.closed || w.broken
}

// reached reports whether the pool has enough, or will get no more; with any,
// one is enough. If not, wake will tell when it has.
func (w *writer) reached(any bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.wake: // of a pool that was taken before
	default:
	}
	w.goal = 1
	if !any {
		w.goal = max(1, w.recentClients/2)
	}
	return len(w.pool.creates) >= w.goal || w.closed || w.broken
}

// commit stores a batch and wakes those who wait for it. Its deadline is its
// own: no request can end the commit of others.
func (w *writer) commit(number int, b *batch) error {
	ctx, cancel := context.WithTimeout(w.ctx, w.limit.CommitTime)
	defer cancel()
	begun := time.Now()
	w.begin(number, begun)
	outcomes, err := w.engine.Insert(ctx, b.creates)
	w.end(number, len(b.creates))
	w.meters.commit(b.creates, outcomes, begun, err)
	switch {
	case errors.Is(err, ErrBroken): // the process ends
		w.log.Error("commit failed", "plants", len(b.creates), "error", err)
	case err != nil:
		w.outage.commitFailed(begun, len(b.creates), err)
	}
	b.outcomes = outcomes
	if err != nil {
		b.err = refusal(err)
	}
	b.end()
	return err
}

func (w *writer) begin(number int, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun[number] = at
}

// end notes the end of a commit, and how many clients there are: those whose
// plants were in it, in others that run, or are in the pool.
func (w *writer) end(number, creates int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun[number] = time.Time{}
	w.recentClients = max(w.recentClients, w.flying+len(w.pool.creates))
	w.flying -= creates
}

// longest returns for how long the oldest commit that runs has run. Who calls it
// holds mu.
func (w *writer) longest() (d time.Duration) {
	for _, begun := range w.begun {
		if !begun.IsZero() {
			d = max(d, time.Since(begun))
		}
	}
	return d
}

// giveUp ends the writing for good. What gathered meanwhile is refused.
func (w *writer) giveUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken {
		return
	}
	w.broken = true
	w.pool.err = errUnavailable()
	w.pool.end()
	w.pool = newBatch(0)
	w.signal()
	close(w.fail)
}

// refusal turns an engine's error into what a client is told.
func refusal(err error) *plant.Error {
	switch {
	case errors.Is(err, ErrOutcomeUnknown):
		return errUnknown()
	case errors.Is(err, ErrFull):
		return &plant.Error{Code: plant.CodeStoreFull, Message: "the store's disk is full; the plant was not stored: send it again later"}
	case errors.Is(err, ErrReadOnly):
		return &plant.Error{Code: plant.CodeStoreReadOnly, Message: "the store is being moved, or was; the plant was not stored: send it again"}
	default:
		return errUnavailable()
	}
}

func errUnknown() *plant.Error {
	return &plant.Error{Code: plant.CodeOutcomeUnknown, Message: "the store cannot tell whether the plant was stored: send it again to learn it, it is never created twice"}
}

func errUnavailable() *plant.Error {
	return &plant.Error{Code: plant.CodeStoreUnavailable, Message: "the store cannot write now; the plant was not stored: send it again"}
}

// close takes no more creates and waits until those in the pool are answered.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.signal()
	w.committers.Wait()
	w.cancel()
}
