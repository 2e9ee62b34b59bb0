package writepath

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"plantstore/internal/plant"
	"plantstore/internal/store"
	"plantstore/internal/trace"
)

// writer collects creates in a pending batch. A committer commits the pending batch when the last commit has ended and
// the batch has half as many creates as there are recent clients. It commits the plant of a lone client at once. Many
// clients, whose next requests arrive when a commit ends, share the next commit: without that wait, they would split
// into a small commit and a second one.
type writer struct {
	engine  Engine
	log     *slog.Logger
	outage  *outage
	limit   Limits
	metrics *metrics
	tracer  *trace.Tracer   // nil: off
	ctx     context.Context // for the commits before retire
	cancel  context.CancelFunc
	lateAt  atomic.Pointer[time.Time] // a commit that starts later gets lateCommitMax; nil: retire was not called

	waiting chan struct{} // semaphore of the committer that waits for a batch
	timer   *time.Timer   // bounds the wait of that committer

	mu            sync.Mutex
	pending       *pendingBatch // for the next commit; guarded by mu
	wakeAt        int           // number of pending creates that wakes the committer; guarded by mu
	recentClients int           // upper bound of the clients of the last commits; decays; guarded by mu
	inFlight      int           // creates in running commits; guarded by mu
	closed        bool          // no more creates are accepted; guarded by mu
	broken        bool          // the engine returned store.ErrBroken; guarded by mu
	started       []time.Time   // start of the commit of each committer; zero: none runs; guarded by mu

	endProbe   context.CancelFunc
	wake       chan struct{}  // holds a value when creates may be pending, or closed was set
	committers sync.WaitGroup // the running committers, and probe
	failed     chan struct{}  // closed when broken is set
}

// pendingBatch is a batch of creates, and their outcomes.
type pendingBatch struct {
	creates  []store.Create
	bytes    int             // size of names and tags
	outcomes []store.Outcome // one for each create; set before end
	err      error           // fails the whole batch, but for the outcomes of insertStored; set before end
	done     chan struct{}   // closed by end
	ended    sync.Once       // guards end
	late     bool            // the batch became older than Limits.AnswerTimeout before it had outcomes; set by end
	timer    *time.Timer     // ends the batch late; set by the first create
	first    [1]store.Create // holds creates of a lone client without another allocation
	traced   *traced         // nil: no create has a sampled span

	shares map[int64]share // by token; nil: not counted yet
}

// The defaults of Limits.
const (
	QueueMax      = 8192
	AnswerTimeout = 20 * time.Second
)

// Limits bounds the plants that wait for a commit. A zero field means its default.
type Limits struct {
	QueueMax      int           // plants that wait for the next commit; default QueueMax
	Bytes         int           // bytes of their names and tags; default 32 MiB
	CommitTimeout time.Duration // for one commit to begin and to end; default 10 s
	AnswerTimeout time.Duration // for Create, which then returns that the outcome is unknown; default AnswerTimeout
}

func (l Limits) withDefaults() Limits {
	l.QueueMax = cmp.Or(l.QueueMax, QueueMax)
	l.Bytes = cmp.Or(l.Bytes, 32<<20)
	l.CommitTimeout = cmp.Or(l.CommitTimeout, 10*time.Second)
	l.AnswerTimeout = cmp.Or(l.AnswerTimeout, AnswerTimeout)
	return l
}

func newWriter(c Config, o *outage) *writer {
	w := &writer{
		engine:  c.Engine,
		log:     c.Log,
		outage:  o,
		limit:   c.Limits,
		tracer:  c.Tracer,
		pending: newBatch(0),
		wakeAt:  1,
		waiting: make(chan struct{}, 1),
		wake:    make(chan struct{}, 1),
		failed:  make(chan struct{}),
		timer:   time.NewTimer(waitMax),
		started: make([]time.Time, c.Commits),
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.metrics = newMetrics(c.Metrics, w.pendingPlants, c.Engine.Durability)
	for i := range w.started {
		w.committers.Go(func() { w.commitAll(i) }) // ends with close or store.ErrBroken; close waits for it
	}
	probing, end := context.WithCancel(w.ctx)
	w.endProbe = end
	w.committers.Go(func() { w.probe(probing) }) // ends with close or store.ErrBroken; close waits for it
	return w
}

func newBatch(capacity int) *pendingBatch {
	b := &pendingBatch{done: make(chan struct{})}
	b.creates = b.first[:0]
	if capacity > len(b.first) {
		b.creates = make([]store.Create, 0, capacity)
	}
	return b
}

// complete wakes the requests that wait for the batch. They share one timer: a timer for each would cost as much as
// decoding a plant.
func (b *pendingBatch) complete() {
	if b.timer != nil {
		b.timer.Stop()
	}
	b.end(false)
}

// end wakes the requests that wait for the batch, once: after the commit, or late.
func (b *pendingBatch) end(late bool) {
	b.ended.Do(func() {
		b.late = late
		close(b.done)
	})
}

// create waits for the commit of c and returns the outcome. The error is a *plant.Error. If AnswerTimeout ends first,
// the plant stays in its batch, and the error is that the outcome is unknown.
func (w *writer) create(span *trace.Span, c store.Create) (store.Outcome, error) {
	b, i, err := w.add(span, c)
	if err != nil {
		return store.Outcome{}, err
	}
	<-b.done
	if b.late { // the commit may still be running
		span.Record(queueSpan, c.At, time.Now(), nil, true)
		return store.Outcome{}, clientError(store.ErrOutcomeUnknown)
	}
	if span.Sampled() {
		b.recordWait(span, c.At)
	}
	if b.err != nil && (len(b.outcomes) == 0 || b.outcomes[i].Created()) {
		return store.Outcome{}, b.err
	}
	return b.outcomes[i], nil
}

// add appends c to the pending batch and returns the batch and the index of c in it.
func (w *writer) add(span *trace.Span, c store.Create) (b *pendingBatch, i int, err error) {
	bytes := c.Plant.Bytes()

	w.mu.Lock()
	defer w.mu.Unlock()
	b = w.pending
	switch {
	case w.broken:
		return nil, 0, clientError(store.ErrBroken)
	case w.closed:
		return nil, 0, plant.Errorf(plant.CodeShuttingDown,
			"the plant was not stored because the server is shutting down; send it again")
	case len(b.creates) >= w.limit.QueueMax || b.bytes+bytes > w.limit.Bytes:
		w.metrics.refusedFull.Add(1)
		return nil, 0, plant.Errorf(plant.CodeQueueFull,
			"the plant was not stored because the queue is full; send it again")
	}
	if err := w.refuseShare(b, c); err != nil {
		return nil, 0, err
	}
	select {
	case <-b.done: // the running commit hangs, and every request in the batch has timed out
		return nil, 0, clientError(store.ErrBroken)
	default:
	}
	if len(b.creates) == 0 {
		b.timer = time.AfterFunc(w.limit.AnswerTimeout, func() { b.end(true) })
	}
	b.creates = append(b.creates, c)
	b.bytes += bytes
	if span.Sampled() {
		b.trace(span)
	}
	if b.shares != nil {
		b.countShare(c)
	}
	if len(b.creates) == w.wakeAt {
		w.signal()
	}
	return b, len(b.creates) - 1, nil
}

// signal wakes the committer that waits for a batch.
func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // the committer has not received the last signal yet
	}
}

// waitMax is the longest time that a committer waits until wakeAt is reached.
const waitMax = time.Millisecond

// commitAll is the committer with that number.
func (w *writer) commitAll(number int) {
	for {
		b, last := w.next()
		if len(b.creates) > 0 {
			w.commit(number, b)
		}
		if last {
			return
		}
	}
}

func (w *writer) pendingPlants() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pending.creates)
}

// next waits until half as many creates are pending as there are recent clients, or at least one after waitMax. It
// returns the pending batch and replaces it with an empty one.
//
// The number of recent clients decays by an eighth with each commit, rounded up: rounded down, it would never fall
// below 8, and a lone client would wait for clients that have left.
func (w *writer) next() (b *pendingBatch, last bool) {
	w.waiting <- struct{}{}
	defer func() { <-w.waiting }()
	if !w.enough(false) {
		w.timer.Reset(waitMax)
		select {
		case <-w.wake:
		case <-w.timer.C:
			if !w.enough(true) {
				<-w.wake
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	b = w.pending
	w.pending = newBatch(w.recentClients)
	w.recentClients -= (w.recentClients + 7) / 8
	w.inFlight += len(b.creates)
	return b, w.closed || w.broken
}

// enough sets wakeAt and reports whether as many creates are pending, or no more will come. If overdue is set, one
// create is enough. If enough returns false, wake receives a value as soon as the result would be true.
func (w *writer) enough(overdue bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case <-w.wake: // the signal of an earlier batch
	default:
	}
	w.wakeAt = 1
	if !overdue {
		w.wakeAt = max(1, w.recentClients/2)
	}
	return len(w.pending.creates) >= w.wakeAt || w.closed || w.broken
}

// commit stores a batch and wakes the requests that wait for it. Its deadline does not depend on a request, so no
// client can cancel the commit of others.
func (w *writer) commit(number int, b *pendingBatch) {
	start := time.Now()
	ctx, cancel := w.commitContext(start)
	defer cancel()
	w.commitStarted(number, start)
	if b.traced != nil {
		ctx = w.startSpan(ctx, b, start)
	}
	outcomes, err := w.engine.Insert(ctx, b.creates)
	if errors.Is(err, store.ErrFull) && !errors.Is(err, store.ErrOutcomeUnknown) {
		outcomes, err = w.insertStored(ctx, b.creates, err)
	}
	w.commitEnded(number, len(b.creates))
	w.metrics.commit(b, outcomes, start, err)
	w.recordCommit(start, len(b.creates), err)
	b.outcomes = outcomes
	if err != nil {
		b.err = clientError(err)
	}
	if b.traced != nil {
		b.endSpan(err)
	}
	b.complete()
}

// storedPart is the number of plants that insertStored reads at a time, because they may be large.
const storedPart = 64

// insertStored inserts the plants of a batch whose ids are stored, after the disk was too full for the others: a replay
// needs no space, and its client must not wait for a larger disk. The outcome of every other plant is the zero value.
// The error wraps full.
func (w *writer) insertStored(ctx context.Context, batch []store.Create, full error) ([]store.Outcome, error) {
	outcomes := make([]store.Outcome, len(batch))
	for from := 0; from < len(batch); from += storedPart {
		to := min(from+storedPart, len(batch))
		if err := w.insertStoredPart(ctx, batch[from:to], outcomes[from:to]); err != nil {
			return outcomes, errors.Join(full, err)
		}
	}
	return outcomes, full
}

func (w *writer) insertStoredPart(ctx context.Context, batch []store.Create, outcomes []store.Outcome) error {
	ids := make([]int64, len(batch))
	for i := range batch {
		ids[i] = batch[i].Plant.ID
	}
	slices.Sort(ids)
	rows, err := w.engine.PlantsByID(ctx, slices.Compact(ids), math.MaxInt)
	if err != nil || len(rows) == 0 {
		return err
	}
	var stored []store.Create
	var places []int // where the stored creates are in batch
	for i := range batch {
		if slices.ContainsFunc(rows, func(r store.Row) bool { return r.ID == batch[i].Plant.ID }) {
			stored, places = append(stored, batch[i]), append(places, i)
		}
	}
	found, err := w.engine.Insert(ctx, stored)
	if err != nil {
		return err
	}
	for i, place := range places {
		outcomes[place] = found[i]
	}
	w.metrics.count(found)
	return nil
}

// recordCommit logs a failed commit of some plants, or counts it for Service.Ready. After store.ErrBroken it ends the
// writer.
func (w *writer) recordCommit(start time.Time, plants int, err error) {
	switch {
	case err == nil:
		w.outage.commitSucceeded()
	case errors.Is(err, store.ErrBroken): // the process ends
		w.log.Error("commit failed", "plants", plants, "error", err)
		w.fail()
	default:
		w.outage.commitFailed(start, plants, err)
	}
}

const (
	probeEvery   = time.Second
	probeTimeMax = 5 * time.Second
)

// probe calls Engine.Probe while commits fail, until one succeeds: a load balancer sends no plant to a server that is
// not ready, so no commit would show that the store is back.
func (w *writer) probe(ctx context.Context) {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if !w.outage.failing.Load() {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, probeTimeMax)
		err := w.engine.Probe(limited)
		cancel()
		switch {
		case ctx.Err() != nil:
		case err == nil:
			w.outage.commitSucceeded()
		case errors.Is(err, store.ErrBroken):
			w.recordCommit(time.Now(), 0, err)
			return
		default:
			w.outage.probeFailed(err)
		}
	}
}

// lateCommitMax is the longest run time of a commit that begins after the time of retire. Two of them fit between the
// end of the requests and the end of the process.
const lateCommitMax = 400 * time.Millisecond

// retire ends commits that are still running after a time.
func (w *writer) retire(within time.Duration) {
	at := time.Now().Add(within)
	w.lateAt.Store(&at)
	time.AfterFunc(within, w.cancel)
}

// commitContext returns the context of a commit that begins at that time. An engine may refuse every commit whose
// context has ended, so a commit after the time of retire gets a new one.
func (w *writer) commitContext(start time.Time) (context.Context, context.CancelFunc) {
	late := w.lateAt.Load()
	if late == nil {
		return context.WithTimeout(w.ctx, w.limit.CommitTimeout)
	}
	runs := min(w.limit.CommitTimeout, max(late.Sub(start), lateCommitMax))
	return context.WithDeadline(context.Background(), start.Add(runs))
}

func (w *writer) commitStarted(number int, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started[number] = at
}

// commitEnded updates the number of recent clients: clients with a plant in this commit, in another running commit or
// in the pending batch.
func (w *writer) commitEnded(number, creates int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.started[number] = time.Time{}
	w.recentClients = max(w.recentClients, w.inFlight+len(w.pending.creates))
	w.inFlight -= creates
}

// longestCommit returns the run time of the oldest running commit. The caller has locked mu.
func (w *writer) longestCommit() (d time.Duration) {
	for _, start := range w.started {
		if !start.IsZero() {
			d = max(d, time.Since(start))
		}
	}
	return d
}

// pollBroken ends the writer after a poll that returned store.ErrRemoved. Only a write finds out whether another error
// lasts.
func (w *writer) pollBroken(err error) {
	w.log.Error("store failed", "error", err)
	w.fail()
}

// fail refuses the pending creates and all later ones.
func (w *writer) fail() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken {
		return
	}
	w.broken = true
	w.pending.err = clientError(store.ErrBroken)
	w.pending.complete()
	w.pending = newBatch(0)
	w.signal()
	close(w.failed)
}

// clientError returns the error that a client receives for an engine's error.
func clientError(err error) *plant.Error {
	return store.ClientError(err, "the plant was not stored because",
		"the outcome is unknown and the plant may be stored; send it again, a retry never creates a second plant")
}

// close refuses new creates and waits until the pending ones are committed.
func (w *writer) close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.signal()
	w.endProbe()
	w.committers.Wait()
	w.cancel()
}
