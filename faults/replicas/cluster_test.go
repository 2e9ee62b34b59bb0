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

// replica is one process of a server. A restart creates another replica with its own connections, so that a failed
// request belongs to one process.
type replica struct {
	server *rig.Server
	plants *sender

	mu       sync.Mutex
	ended    time.Time // when the harness killed or stopped it; guarded by mu
	graceful bool      // stopped with SIGTERM; guarded by mu
}

// setEnded records that the harness is about to kill or stop the replica.
func (r *replica) setEnded(graceful bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended, r.graceful = time.Now(), graceful
}

// mustRespond reports whether the replica is stopped gracefully, so that it must respond to every request that it
// accepted.
func (r *replica) mustRespond() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.graceful
}

// mayFail reports whether a request that ended at that time may have failed.
func (r *replica) mayFail(end time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.ended.IsZero() && r.ended.Before(end)
}

// cluster is several servers on one database. It is safe for concurrent use, but only one goroutine may start and end
// servers.
type cluster struct {
	t            testing.TB
	program      string
	db           string
	token        string
	slowestStart time.Duration

	newTokenRefusals int           // refused requests with a new token
	newTokenDelay    time.Duration // longest time from a creation to a refused request

	mu       sync.Mutex
	replicas [replicasMax]*replica // guarded by mu
}

const replicasMax = 3

func newCluster(t testing.TB, program string) *cluster {
	t.Helper()
	return newClusterOn(t, program, newDatabase(t))
}

// newClusterOn starts servers on the store in a database.
func newClusterOn(t testing.TB, program, db string) *cluster {
	t.Helper()
	c := &cluster{t: t, program: program, db: db}
	c.token = rig.Token(t, program, c.db, "replicas")
	for i := range c.replicas {
		c.start(i)
	}
	return c
}

// start starts a new process of a replica.
func (c *cluster) start(i int) {
	c.t.Helper()
	started := time.Now()
	s, err := rig.Start(c.t, c.program, c.db, nil, "--listen", unusedAddress(),
		"--auth-failures", "0") // the load sends revoked tokens from one address
	if err != nil {
		c.t.Fatal(err)
	}
	c.slowestStart = max(c.slowestStart, time.Since(started))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replicas[i] = &replica{server: s, plants: newSender(s.URL, c.token)}
}

// unusedAddress returns a random loopback address. Other programs are unlikely to use it, so that none of them receives
// the requests to an ended server.
func unusedAddress() string {
	return fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254))
}

func (c *cluster) replica(i int) *replica {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.replicas[i]
}

// kill ends a replica with SIGKILL and starts it again.
func (c *cluster) kill(i int) {
	c.t.Helper()
	r := c.replica(i)
	r.setEnded(false)
	r.server.Kill()
	c.start(i)
}

// restart stops a replica with SIGTERM and starts it again.
func (c *cluster) restart(i int) {
	c.t.Helper()
	r := c.replica(i)
	r.setEnded(true)
	if code := r.server.Stop(); code != 0 {
		c.t.Errorf("a replica ended with code %d:\n%s", code, r.server.Log())
	}
	c.start(i)
}

// load is clients that spread their requests over the replicas of a cluster.
type load struct {
	seed    uint64
	cluster *cluster
	done    chan struct{}
	running sync.WaitGroup

	mu         sync.Mutex
	history    []operation // guarded by mu
	violations []error     // guarded by mu
}

// startLoad starts the clients. The caller must call stop.
func startLoad(ctx context.Context, seed uint64, c *cluster) *load {
	l := &load{seed: seed, cluster: c, done: make(chan struct{})}
	for number := range uint64(clients) {
		l.running.Go(func() { l.runClient(ctx, number) })
	}
	return l
}

// stop stops the clients and waits until they have ended.
func (l *load) stop() {
	close(l.done)
	l.running.Wait()
}

func (l *load) runClient(ctx context.Context, number uint64) {
	random := rand.New(rand.NewPCG(l.seed, number+1))
	for n := int64(0); ; n++ {
		id, c := randomPlant(random, int64(number), n)
		l.sendUntilFinal(ctx, random, id, c)
		select {
		case <-l.done:
			return
		case <-ctx.Done():
			return
		default:
		}
	}
}

// sharedFirst is the first id of the plants that several clients send.
const sharedFirst = 1 << 40

// randomPlant returns the n-th plant of a client: either one with an id of its own, or one with an id that all clients
// use at about the same time, some of them with another name or tag.
func randomPlant(random *rand.Rand, number, n int64) (id int64, c content) {
	const shared, window = 4, 20
	if random.IntN(3) > 0 {
		return n*clients + number, randomContent(random)
	}
	id = sharedFirst + n/window*shared + random.Int64N(shared)
	return id, [...]content{
		{"Rosa canina", ""}, {"Rosa canina", ""}, {"Rosa canina", "shrub"}, {"Rosa rugosa", ""},
	}[random.IntN(4)]
}

// sendUntilFinal sends a plant to one replica after the other until its outcome is known.
func (l *load) sendUntilFinal(ctx context.Context, random *rand.Rand, id int64, c content) {
	const tries = 30 // more than the restarts within one request of the slowest client
	at := random.IntN(replicasMax)
	var lost *operation // without a response from a replica that was stopped gracefully
	for range tries {
		r := l.cluster.replica(at)
		o := r.plants.send(ctx, id, c)
		l.record(&o, r)
		if o.outcome == replayed && lost != nil && id < sharedFirst {
			l.report(fmt.Errorf("a replica that was stopped gracefully stored a plant and sent no response: %s", lost))
		}
		if o.outcome.final() || o.outcome == unexpected {
			return
		}
		if lost = nil; o.outcome == unknown && o.status == 0 && r.mustRespond() {
			lost = &o
		}
		at = (at + 1 + random.IntN(replicasMax-1)) % replicasMax
	}
	l.report(fmt.Errorf("plant %d: no known outcome after %d requests", id, tries))
}

func (l *load) report(violation error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.violations = append(l.violations, violation)
}

// record stores the result of a request. Requests to a replica must not fail before the harness ends it.
func (l *load) record(o *operation, r *replica) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history = append(l.history, *o)
	if !o.outcome.final() && !r.mayFail(o.end) {
		l.violations = append(l.violations, fmt.Errorf("a request to a running replica failed: %s", o))
	}
}

// requests returns the number of requests that have ended.
func (l *load) requests() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.history)
}
