package main

import (
	"container/heap"
	"math/rand/v2"
	"slices"
	"time"
)

// model is a Plant Store with its clients and its database, for simulate. Times are processor time, except for sync.
type model struct {
	cores  int           // that the requests and the database share; a plan gives each of them its own, see databaseCores
	server time.Duration // of a request: the client on the same machine, HTTP, decoding, response

	databaseCores int           // 0: the database runs on cores
	parts         int           // machines that a batch is divided over; 1: none
	batch, plant  time.Duration // of the database: for each batch, and for each plant in it
	committers    int           // batches that are stored at the same time
	sync          time.Duration // mean time until a commit is durable, without processor time

	clients int     // closed loop: each sends a request when it has the response
	rate    float64 // open loop: requests a second, if clients is 0
}

// simulated is the result of a simulation.
type simulated struct {
	perSecond float64
	p50, p99  time.Duration
}

// The constants of the group commit in package store.
const (
	waitMax = time.Millisecond
	quantum = 200 * time.Microsecond // of the scheduler of the operating system
)

// simulation is a simulation of discrete events, with the same result in each run. Requests use a processor, wait in
// the pending batch, and end with the commit of their batch, as in store.writer.
type simulation struct {
	model

	random *rand.Rand
	now    time.Duration
	events events
	order  int // of events at the same time

	front, back processors // of the requests, and of the database

	pending  []time.Duration // starts of the requests in the pending batch
	overdue  bool            // the pending batch has waited for waitMax
	running  int             // commits
	inFlight int             // requests in running commits
	recent   int             // clients of the last commits
	warm     time.Duration   // later responses count
	times    []time.Duration // of the responses
}

// simulate simulates some seconds of a model.
func simulate(m model) simulated {
	const warm, measured = time.Second, 4 * time.Second
	s := &simulation{model: m, warm: warm}
	s.random = rand.New(rand.NewPCG(1, 2)) //nolint:gosec // each run must have the same numbers
	s.front.cores, s.back.cores = m.cores, m.databaseCores
	for range m.clients {
		s.request()
	}
	if m.clients == 0 {
		s.arrive()
	}
	for s.now < warm+measured && len(s.events) > 0 {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
	}
	slices.Sort(s.times)
	if len(s.times) == 0 {
		return simulated{}
	}
	return simulated{
		perSecond: float64(len(s.times)) / measured.Seconds(),
		p50:       s.times[len(s.times)/2], p99: s.times[len(s.times)*99/100],
	}
}

// arrive begins a request and plans the next one, with exponential times between them.
func (s *simulation) arrive() {
	s.request()
	s.after(s.exponential(time.Duration(float64(time.Second)/s.rate)), s.arrive)
}

// request begins a request, which then waits in the pending batch.
func (s *simulation) request() {
	started := s.now
	s.use(&s.front, s.exponential(s.server/2)+s.server/2, func() {
		s.pending = append(s.pending, started)
		if len(s.pending) == 1 {
			s.overdue = false
			s.after(waitMax, func() { s.overdue = true; s.commit() })
		}
		s.commit()
	})
}

// commit begins a commit if a committer is free and the pending batch is large enough.
func (s *simulation) commit() {
	if s.running == s.committers || len(s.pending) == 0 || len(s.pending) < s.recent/2 && !s.overdue {
		return
	}
	batch := s.pending
	s.pending, s.overdue = nil, false
	s.recent -= (s.recent + 7) / 8
	s.running++
	s.inFlight += len(batch)
	at := &s.back
	if s.databaseCores == 0 {
		at = &s.front
	}
	left := s.parts
	for range s.parts { // the batch is stored when its last part is
		work := (s.batch + time.Duration(len(batch))*s.plant) / time.Duration(s.parts)
		s.use(at, work, func() {
			if left--; left == 0 {
				s.after(s.syncTime(), func() { s.committed(batch) })
			}
		})
	}
}

// syncTime returns the time of a sync on the slowest part.
func (s *simulation) syncTime() (longest time.Duration) {
	for range s.parts {
		longest = max(longest, s.sync*7/10+s.exponential(s.sync*3/10))
	}
	return longest
}

// committed ends the requests of a batch.
func (s *simulation) committed(batch []time.Duration) {
	s.recent = max(s.recent, s.inFlight+len(s.pending))
	s.running--
	s.inFlight -= len(batch)
	for _, started := range batch {
		if s.now >= s.warm {
			s.times = append(s.times, s.now-started)
		}
		if s.clients > 0 {
			s.request()
		}
	}
	s.commit()
}

func (s *simulation) exponential(mean time.Duration) time.Duration {
	return time.Duration(s.random.ExpFloat64() * float64(mean))
}

// processors are cores that run tasks in turns of a quantum.
type processors struct {
	cores, busy int
	waiting     []task
}

// task is work for a processor, and the function after it.
type task struct {
	left time.Duration
	done func()
}

// use runs a task.
func (s *simulation) use(p *processors, work time.Duration, done func()) {
	p.waiting = append(p.waiting, task{work, done})
	s.dispatch(p)
}

// dispatch gives free cores to waiting tasks.
func (s *simulation) dispatch(p *processors) {
	for p.busy < p.cores && len(p.waiting) > 0 {
		t := p.waiting[0]
		p.waiting = p.waiting[1:]
		p.busy++
		turn := min(t.left, quantum)
		s.after(turn, func() {
			p.busy--
			if t.left -= turn; t.left > 0 {
				p.waiting = append(p.waiting, t)
			} else {
				t.done()
			}
			s.dispatch(p)
		})
	}
}

// event is a function at a time.
type event struct {
	at    time.Duration
	order int
	do    func()
}

// events is a heap (container/heap) with the next event first.
type events []event

func (e events) Len() int { return len(e) }

func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}

func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *events) Push(x any) { *e = append(*e, x.(event)) }

// Pop implements heap.Interface.
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// after plans an event.
func (s *simulation) after(d time.Duration, do func()) {
	s.order++
	heap.Push(&s.events, event{s.now + d, s.order, do})
}
