package store

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"plantstore/internal/plant"
)

// writer gathers creates into a pool and commits the whole pool when the last
// commit has ended and enough have gathered: half of those that were there
// lately. A lone client is served at once. Many clients, whose next requests
// are on their way when a commit ends, share the next commit instead of
// splitting into a small one and those who wait for it.
type writer struct {
	engine Engine
	log    *slog.Logger
	limit  Limits
	meters *meters
	ctx    context.Context // of every commit
	cancel context.CancelFunc

	mu     sync.Mutex
	pool   *batch    // what gathers for the next commit; guarded by mu
	goal   int       // the committer is woken when the pool has so many; guarded by mu
	closed bool      // no more creates are taken; guarded by mu
	broken bool      // the engine returned ErrBroken; guarded by mu
	begun  time.Time // when the commit that runs began; zero between two; guarded by mu

	wake chan struct{} // holds a token when the pool may have something, or closed was set
	done chan struct{} // closed when the committer has ended
	fail chan struct{} // closed when broken was set
}

// batch is a pool of creates and what became of them.
type batch struct {
	creates []Create // the writer's until done is closed; then each waiter's at its own index
	bytes   int      // of names and tags
	err     error    // for all of the batch; set before done is closed
	done    chan struct{}
	late    chan struct{} // closed when the batch is older than Limits.AnswerTime
	timer   *time.Timer   // that closes late; set by the first create
}

// Limits bounds what waits for a commit.
type Limits struct {
	Plants     int           // plants that may wait for the next commit
	Bytes      int           // bytes of their names and tags
	CommitTime time.Duration // for one commit to get its turn, after which it is given up
	AnswerTime time.Duration // for a create, after which it is answered that the outcome is unknown
}

func newWriter(c Config) *writer {
	w := &writer{
		engine: c.Engine,
		log:    c.Log,
		limit:  c.Limits,
		pool:   newBatch(0),
		goal:   1,
		wake:   make(chan struct{}, 1),
		done:   make(chan struct{}),
		fail:   make(chan struct{}),
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.meters = newMeters(c.Metrics, w.gathered)
	go w.commitAll() // ends when close is called or the engine breaks; close waits for it
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

// create waits until c is committed. It returns c as the engine filled it in,
// or an *plant.Error that tells why there is no outcome. If the time for an
// answer ends first, the plant stays in its batch, and the outcome is unknown.
func (w *writer) create(c Create) (Create, error) {
	b, i, err := w.add(c)
	if err != nil {
		return c, err
	}
	select {
	case <-b.done:
		return b.creates[i], b.err
	case <-b.late:
		return c, errUnknown()
	}
}

// add puts c into the pool, at index i of the batch that the pool becomes.
func (w *writer) add(c Create) (b *batch, i int, err error) {
	tag, _ := c.Plant.Tag.Get()
	bytes := len(c.Plant.Name) + len(tag)

	w.mu.Lock()
	defer w.mu.Unlock()
	b = w.pool
	switch {
	case w.broken:
		return nil, 0, errUnavailable()
	case w.closed:
		return nil, 0, &plant.Error{Code: plant.CodeShuttingDown, Message: "the store is shutting down; the plant was not stored: send it again"}
	case len(b.creates) >= w.limit.Plants || b.bytes+bytes > w.limit.Bytes:
		return nil, 0, &plant.Error{Code: plant.CodeQueueFull, Message: "more plants wait than the store takes; this one was not stored: send it again"}
	}
	select {
	case <-b.late: // the commit before hangs, and nobody would wait for this one
		return nil, 0, errUnavailable()
	default:
	}
	if len(b.creates) == 0 {
		b.timer = time.AfterFunc(w.limit.AnswerTime, func() { close(b.late) })
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

// commitAll is the committer.
func (w *writer) commitAll() {
	defer close(w.done)
	timer := time.NewTimer(gatherMax)
	defer timer.Stop()
	lately := 0 // how many clients there were, from above, fading
	for {
		b, last := w.take(lately, timer)
		lately -= lately / 8
		if len(b.creates) > 0 {
			if err := w.commit(b); errors.Is(err, ErrBroken) {
				w.giveUp()
				return
			}
		}
		if last {
			return
		}
		lately = max(lately, len(b.creates)+w.gathered())
	}
}

// gathered returns how many creates wait in the pool.
func (w *writer) gathered() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pool.creates)
}

// take waits for a pool with half of lately, for any pool once gatherMax is
// over, and swaps it for an empty one.
func (w *writer) take(lately int, timer *time.Timer) (b *batch, closed bool) {
	if !w.reached(max(1, lately/2)) {
		timer.Reset(gatherMax)
		select {
		case <-w.wake:
		case <-timer.C:
			if !w.reached(1) {
				<-w.wake
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b = w.pool
	w.pool = newBatch(lately)
	return b, w.closed
}

// reached reports whether the pool has that many, or will get no more. If not,
// wake will tell when it has.
func (w *writer) reached(goal int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.wake: // of a pool that was taken before
	default:
	}
	w.goal = goal
	return len(w.pool.creates) >= goal || w.closed
}

// commit stores a batch and wakes those who wait for it. Its deadline is its
// own: no request can end the commit of others.
func (w *writer) commit(b *batch) error {
	ctx, cancel := context.WithTimeout(w.ctx, w.limit.CommitTime)
	defer cancel()
	begun := time.Now()
	w.setBegun(begun)
	err := w.engine.Insert(ctx, b.creates)
	w.setBegun(time.Time{})
	w.meters.commit(b.creates, begun, err)
	if err != nil {
		w.log.Error("commit failed", "plants", len(b.creates), "error", err)
		b.err = refusal(err)
	}
	b.end()
	return err
}

func (w *writer) setBegun(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = at
}

// giveUp ends the writing for good. What gathered meanwhile is refused.
func (w *writer) giveUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = true
	w.pool.err = errUnavailable()
	w.pool.end()
	close(w.fail)
}

// refusal turns an engine's error into what a client is told.
func refusal(err error) *plant.Error {
	switch {
	case errors.Is(err, ErrOutcomeUnknown):
		return errUnknown()
	case errors.Is(err, ErrFull):
		return &plant.Error{Code: plant.CodeStoreFull, Message: "the store's disk is full; the plant was not stored: send it again later"}
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
	<-w.done
	w.cancel()
}
