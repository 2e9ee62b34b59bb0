package replicas

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// replica is one life of a server. The next life is another replica, with
// connections of its own, so that a request that fails tells which life failed.
type replica struct {
	server *rig.Server
	plants *sender

	mu      sync.Mutex
	ended   time.Time // when it was told to end; guarded by mu
	inOrder bool      // it was told so by SIGTERM; guarded by mu
}

// ending notes that the replica is about to be told to end.
func (r *replica) ending(inOrder bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended, r.inOrder = time.Now(), inOrder
}

// mustAnswer reports whether the replica answers what it accepts to the end.
func (r *replica) mustAnswer() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.inOrder
}

// mayFail reports whether a request that ended then may have failed.
func (r *replica) mayFail(end time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.ended.IsZero() && r.ended.Before(end)
}

// cluster is servers on one database. It is safe for concurrent use, except that
// one goroutine alone starts and ends servers.
type cluster struct {
	t       testing.TB
	program string
	db      string
	token   string
	slowest time.Duration // of the starts

	slowTokens   int           // how often a token that was made was refused
	slowestToken time.Duration // when it was refused last, since it was made

	mu       sync.Mutex
	replicas [replicasMax]*replica // guarded by mu
}

const replicasMax = 3

func newCluster(t testing.TB, program string) *cluster {
	t.Helper()
	c := &cluster{t: t, program: program, db: newDatabase(t)}
	c.token = rig.Token(t, program, c.db, "replicas")
	for i := range c.replicas {
		c.start(i)
	}
	return c
}

// start begins the next life of a replica, on an address that no other program
// of the machine uses: nobody shall answer for one that is gone.
func (c *cluster) start(i int) {
	c.t.Helper()
	begun := time.Now()
	s, err := rig.Start(c.t, c.program, c.db, nil, "--listen", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
	if err != nil {
		c.t.Fatal(err)
	}
	c.slowest = max(c.slowest, time.Since(begun))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replicas[i] = &replica{server: s, plants: newSender(s.URL, c.token, clients)}
}

func (c *cluster) replica(i int) *replica {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.replicas[i]
}

// kill ends a replica at once and starts it again.
func (c *cluster) kill(i int) {
	c.t.Helper()
	r := c.replica(i)
	r.ending(false)
	r.server.Kill()
	c.start(i)
}

// restart ends a replica in order and starts it again.
func (c *cluster) restart(i int) {
	c.t.Helper()
	r := c.replica(i)
	r.ending(true)
	if code := r.server.Stop(); code != 0 {
		c.t.Errorf("a replica ended with code %d:\n%s", code, r.server.Log())
	}
	c.start(i)
}

// crowd is clients that spread their requests over the replicas.
type crowd struct {
	seed    uint64
	cluster *cluster
	done    chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex
	history []operation // guarded by mu
	faults  []error     // guarded by mu
}

func newCrowd(ctx context.Context, seed uint64, c *cluster) *crowd {
	w := &crowd{seed: seed, cluster: c, done: make(chan struct{})}
	for number := range uint64(clients) {
		w.running.Go(func() { w.work(ctx, number) })
	}
	return w
}

// leave waits until the clients have ended.
func (w *crowd) leave() {
	close(w.done)
	w.running.Wait()
}

func (w *crowd) work(ctx context.Context, number uint64) {
	chance := rand.New(rand.NewPCG(w.seed, number+1))
	for n := int64(0); ; n++ {
		id, c := w.plant(chance, int64(number), n)
		w.insist(ctx, chance, id, c)
		select {
		case <-w.done:
			return
		case <-ctx.Done():
			return
		default:
		}
	}
}

// others is the first id of the plants that are not one client's own.
const others = 1 << 40

// plant chooses what to send: a client's own plant, or one of those that all
// clients want at about the same time, the same or not quite.
func (w *crowd) plant(chance *rand.Rand, number, n int64) (id int64, c content) {
	const shared, window = 4, 20
	if chance.IntN(3) > 0 {
		return n*clients + number, randomContent(chance)
	}
	id = others + n/window*shared + chance.Int64N(shared)
	return id, [...]content{{"Rosa canina", ""}, {"Rosa canina", ""}, {"Rosa canina", "shrub"}, {"Rosa rugosa", ""}}[chance.IntN(4)]
}

// insist sends a plant, to another replica each time, until its outcome is known.
func (w *crowd) insist(ctx context.Context, chance *rand.Rand, id int64, c content) {
	const most = 30 // more than there are restarts while the slowest client thinks
	at := chance.IntN(replicasMax)
	unanswered := false
	for range most {
		r := w.cluster.replica(at)
		o := r.plants.send(ctx, id, c)
		w.note(&o, r)
		if o.outcome == replayed && unanswered && id < others {
			w.complain(fmt.Errorf("plant %d was stored by a replica that ended in order, and not answered", id))
		}
		if o.outcome.final() || o.outcome == refused {
			return
		}
		unanswered = o.outcome == unknown && r.mustAnswer()
		at = (at + 1 + chance.IntN(replicasMax-1)) % replicasMax
	}
	w.complain(fmt.Errorf("plant %d: no replica answered, %d times", id, most))
}

func (w *crowd) complain(fault error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.faults = append(w.faults, fault)
}

// note keeps what came of a request. A replica fails nobody before it is told to
// end: then a client needs no more than another replica.
func (w *crowd) note(o *operation, r *replica) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.history = append(w.history, *o)
	if !o.outcome.final() && !r.mayFail(o.end) {
		w.faults = append(w.faults, fmt.Errorf("a replica that was to go on failed a client: %s", o))
	}
}
