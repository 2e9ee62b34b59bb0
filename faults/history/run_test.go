package history

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// options is the size of a run.
type options struct {
	seed       uint64
	operations int
	kills      int
	clients    int
}

// result is what came of a run.
type result struct {
	operations  int // planned
	requests    []operation
	kills       int // of servers that were ready
	startKills  int // of servers that were not yet
	restarts    []time.Duration
	took        time.Duration
	verify      time.Duration // the longest
	plants, ids int
	silent      int     // plants that are there, and no answer says created
	illegal     []error // ids whose history no order explains
	set         setFaults
	answers     []error // that should not have been given
	damage      []error // that verify found
}

// faults are all that was found.
func (r *result) faults() []error {
	return slices.Concat(r.damage, r.illegal, r.set.all(), r.answers)
}

func (r *result) slowest() time.Duration { return slices.Max(append(r.restarts, 0)) }

func (r *result) String() string {
	var outcomes [unsent + 1]int
	for _, o := range r.requests {
		outcomes[o.outcome]++
	}
	slow := 0
	for _, took := range r.restarts {
		if took > time.Second {
			slow++
		}
	}
	return fmt.Sprintf("%d operations, %d requests (%d created, %d replayed, %d conflict, %d unknown, %d busy, %d refused), %d beside another for the same id, in %.1f s; ",
		r.operations, len(r.requests), outcomes[created], outcomes[replayed], outcomes[conflict], outcomes[unknown], outcomes[busy], outcomes[refused], met(r.requests), r.took.Seconds()) +
		fmt.Sprintf("%d kills and %d while it started; %d restarts, the slowest %d ms, %d over 1 s; %d plants, %d of them created without an answer, verified in %d ms; ",
			r.kills, r.startKills, len(r.restarts), r.slowest().Milliseconds(), slow, r.plants, r.silent, r.verify.Milliseconds()) +
		fmt.Sprintf("of %d ids, %d that no order explains; %s; %d wrong answers, %d times damaged", r.ids, len(r.illegal), r.set, len(r.answers), len(r.damage))
}

// run is servers that are killed while clients work.
type run struct {
	options

	t       testing.TB
	program string
	db      string
	listen  string
	token   string
	chance  *rand.Rand // of the kills
	claims  *claims
	door    *door
	http    *http.Client
	server  *rig.Server // the last one
	result  *result
}

// execute does a run and checks it. An error means that there is no result.
func execute(t testing.TB, program string, o options) (*result, error) {
	t.Helper()
	listen, err := freeAddress()
	if err != nil {
		return nil, err
	}
	r := &run{
		options: o,
		t:       t,
		program: program,
		db:      filepath.Join(t.TempDir(), "a.db"),
		listen:  listen,
		chance:  rand.New(rand.NewPCG(o.seed, 0)),
		claims:  &claims{end: o.operations},
		door:    newDoor(),
		http:    &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: o.clients}},
		result:  &result{operations: o.operations},
	}
	r.token = rig.Token(t, program, r.db, "history")
	begun := time.Now()
	defer r.endServer()
	if err := r.work(begun); err != nil {
		return nil, err
	}
	r.result.took = time.Since(begun)
	return r.result, r.check(begun)
}

// freeAddress finds a port for all servers of a run. It is below those that the
// system gives to clients, which might take it while no server runs.
func freeAddress() (string, error) {
	var err error
	for range 100 {
		address := fmt.Sprint("127.0.0.1:", 20000+rand.IntN(10000))
		var l net.Listener
		if l, err = net.Listen("tcp", address); err == nil {
			return address, l.Close()
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}

// work has the clients do all operations while servers live and die.
func (r *run) work(begun time.Time) error {
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	clients := make([]*client, r.clients)
	faults := make([]error, r.clients)
	var running sync.WaitGroup
	for i := range clients {
		clients[i] = &client{sender: sender{r.token, r.http}, number: i, plan: plan{r.seed}, claims: r.claims, door: r.door, begun: begun}
		running.Go(func() { faults[i] = clients[i].run(ctx) })
	}
	done := make(chan struct{})
	go func() { // ends with the clients
		defer close(done)
		running.Wait()
	}()
	err := r.lives(done)
	if err != nil {
		cancel()
		r.endServer()
	}
	<-done
	r.http.CloseIdleConnections()
	for _, c := range clients {
		r.result.requests = append(r.result.requests, c.records...)
	}
	if err != nil {
		return err // the clients' errors come from it
	}
	return errors.Join(faults...)
}

func (r *run) endServer() {
	if r.server == nil {
		return
	}
	select {
	case <-r.server.Ended():
	default:
		r.server.Kill()
	}
}

// lives starts and kills servers; the last one lives until the clients are done.
func (r *run) lives(done <-chan struct{}) error {
	// Each kill has a share of the operations, so that all of them happen.
	share := max(1, r.operations/(r.kills+1))
	told := time.Now()
	for k := range r.kills {
		if k > 0 && r.chance.IntN(4) == 0 {
			if err := r.killAtStart(); err != nil {
				return err
			}
		}
		if err := r.start(k > 0); err != nil {
			return err
		}
		if err := r.until(r.claims.reached(k*share + r.chance.IntN(share))); err != nil {
			return err
		}
		// A client claims its next operation when it has an answer, and what was
		// answered too early is not stored just then. The other half of the
		// kills is for all other moments.
		if r.chance.IntN(2) == 0 {
			wait(r.t.Context(), r.server.Ended(), time.Duration(r.chance.Int64N(int64(10*time.Millisecond))))
		}
		r.server.Kill()
		r.result.kills++
		r.http.CloseIdleConnections()
		if time.Since(told) > time.Minute { // a long run shows that it is alive
			told = time.Now()
			r.t.Logf("%d kills, %d operations so far", r.result.kills, r.claims.claimed())
		}
	}
	if err := r.verify("after the last kill"); err != nil {
		return err
	}
	if err := r.start(r.kills > 0); err != nil {
		return err
	}
	if err := r.until(done); err != nil {
		return err
	}
	r.http.CloseIdleConnections()
	if code := r.server.Stop(); code != 0 {
		return fmt.Errorf("the last server ended with code %d:\n%s", code, r.server.Log())
	}
	return nil
}

// until waits for a channel to be closed, as long as the server runs and the
// clients get on.
func (r *run) until(closed <-chan struct{}) error {
	const most = time.Minute
	stuck := time.NewTicker(most)
	defer stuck.Stop()
	for before := -1; ; {
		select {
		case <-closed:
			return nil
		case <-r.server.Ended():
			return fmt.Errorf("the server ended by itself, with code %d:\n%s", r.server.ExitCode(), r.server.Log())
		case <-stuck.C:
			now := r.claims.claimed()
			if now == before {
				return fmt.Errorf("the clients have done nothing for %s:\n%s", most, r.server.Log())
			}
			before = now
		}
	}
}

// once is a test whose servers end with the run. At the end of the test their
// process ids may be those of others.
type once struct{ testing.TB }

// Cleanup does nothing: the run ends each server itself.
func (once) Cleanup(func()) {}

// start starts a server on the same store and the same port as the last one.
func (r *run) start(again bool) error {
	begun := time.Now()
	s, err := rig.Start(once{r.t}, r.program, r.db, nil, "--listen", r.listen)
	if err != nil {
		return fmt.Errorf("start %d: %w", r.result.kills+1, err)
	}
	if again {
		r.result.restarts = append(r.result.restarts, time.Since(begun))
	}
	r.server = s
	r.door.open(s)
	return nil
}

// killAtStart kills a server while it opens the store.
func (r *run) killAtStart() error {
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Duration(r.chance.Int64N(int64(60*time.Millisecond))))
	defer cancel()
	command := exec.CommandContext(ctx, r.program, "serve", "--db", r.db, "--listen", r.listen, "--admin-listen", "127.0.0.1:0")
	out, err := command.CombinedOutput() // an error, as it is killed
	if ctx.Err() == nil {
		return fmt.Errorf("the server ended by itself: %w\n%s", err, out)
	}
	r.result.startKills++
	return nil
}

// verify has the program look for damage in the store.
func (r *run) verify(when string) error {
	begun := time.Now()
	out, err := exec.CommandContext(r.t.Context(), r.program, "verify", "--db", r.db).CombinedOutput()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.result.damage = append(r.result.damage, fmt.Errorf("verify %s: %w\n%s", when, err, out))
	case err != nil:
		return fmt.Errorf("verify %s: %w", when, err)
	}
	r.result.verify = max(r.result.verify, time.Since(begun))
	return nil
}

// check fills in what is wrong with the history and with the store.
func (r *run) check(begun time.Time) error {
	if err := r.verify("in the end"); err != nil {
		return err
	}
	there, err := export(r.t.Context(), r.program, r.db)
	if err != nil {
		return err
	}
	at := time.Since(begun)
	requests := r.result.requests
	r.result.plants, r.result.silent = len(there), there.silent(requests)
	r.result.set = compare(there, requests)
	r.result.ids, r.result.illegal = linearizable(append(slices.Clone(requests), there.reads(requests, at)...))
	for _, o := range requests {
		if o.answer != "" {
			r.result.answers = append(r.result.answers, fmt.Errorf("plant %d: %s", o.id, o))
		}
	}
	return nil
}
