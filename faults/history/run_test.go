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
	"strings"
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
	db         string // the store; empty: a new file
}

// result is the result of a run.
type result struct {
	operations  int // planned
	requests    []operation
	kills       int // kills of servers that were ready
	startKills  int // kills of servers that were not ready yet
	restarts    []time.Duration
	took        time.Duration
	verify      time.Duration // the longest
	plants, ids int
	silent      int     // stored plants without the response created
	illegal     []error // ids whose history is not linearizable
	set         setFaults
	responses   []error // wrong responses
	damage      []error // reported by verify
}

// faults returns all detected faults.
func (r *result) faults() []error {
	return slices.Concat(r.damage, r.illegal, r.set.all(), r.responses)
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
	return fmt.Sprintf("%d operations, %d requests (%d created, %d replayed, %d conflict, %d erased, %d corrected, "+
		"%d missing, %d unknown, %d busy, %d refused), ",
		r.operations, len(r.requests), outcomes[created], outcomes[replayed], outcomes[conflict], outcomes[erased],
		outcomes[corrected], outcomes[missing], outcomes[unknown], outcomes[busy], outcomes[refused]) +
		fmt.Sprintf("%d concurrent for the same id, in %.1f s; ", concurrent(r.requests), r.took.Seconds()) +
		fmt.Sprintf("%d kills and %d during a start; %d restarts, the slowest %d ms, %d over 1 s; ",
			r.kills, r.startKills, len(r.restarts), r.slowest().Milliseconds(), slow) +
		fmt.Sprintf("%d plants, %d of them without a response, verified in %d ms; ",
			r.plants, r.silent, r.verify.Milliseconds()) +
		fmt.Sprintf("%d ids, %d not linearizable; %s; %d wrong responses, %d times damaged",
			r.ids, len(r.illegal), r.set, len(r.responses), len(r.damage))
}

// run kills servers on one store while clients create plants.
type run struct {
	options

	t       testing.TB
	program string
	listen  string
	token   string
	random  *rand.Rand // chooses the kills
	claims  *claims
	current *current
	http    *http.Client
	server  *rig.Server // the last one
	result  *result
}

// execute runs and checks a history. The result is nil if err is not nil.
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
		listen:  listen,
		random:  rand.New(rand.NewPCG(o.seed, 0)),
		claims:  &claims{end: o.operations},
		current: newCurrent(),
		http:    &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: o.clients}},
		result:  &result{operations: o.operations},
	}
	if r.db == "" {
		r.db = filepath.Join(t.TempDir(), "a.db")
	}
	r.token = rig.Token(t, program, r.db, "history")
	started := time.Now()
	defer r.endServer()
	if err := r.work(started); err != nil {
		return nil, err
	}
	r.result.took = time.Since(started)
	return r.result, r.check(started)
}

// freeAddress returns an address for all servers of a run. Its port is outside the ephemeral range: a client could use
// such a port while no server runs.
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

// work runs the clients and the servers until all operations are done.
func (r *run) work(started time.Time) error {
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	clients := make([]*client, r.clients)
	faults := make([]error, r.clients)
	var running sync.WaitGroup
	for i := range clients {
		clients[i] = &client{
			sender: sender{r.program, r.db, r.token, r.http}, number: i, plan: plan{r.seed},
			claims: r.claims, current: r.current, started: started,
		}
		running.Go(func() { faults[i] = clients[i].run(ctx) })
	}
	done := make(chan struct{})
	go func() { // ends with the clients
		defer close(done)
		running.Wait()
	}()
	err := r.runServers(done)
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
		return err // it causes the errors of the clients
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

// runServers starts and kills servers. The last one runs until the clients are done.
func (r *run) runServers(done <-chan struct{}) error {
	// Each kill happens within its share of the operations.
	share := max(1, r.operations/(r.kills+1))
	loggedAt := time.Now()
	for k := range r.kills {
		if k > 0 && r.random.IntN(4) == 0 {
			if err := r.killAtStart(); err != nil {
				return err
			}
		}
		if err := r.start(k > 0); err != nil {
			return err
		}
		if err := r.until(r.claims.reached(k*share + r.random.IntN(share))); err != nil {
			return err
		}
		// A client claims its next operation after a response; a kill at that moment shows a response before the commit. The
		// other half of the kills happens at random times.
		if r.random.IntN(2) == 0 {
			wait(r.t.Context(), r.server.Ended(), time.Duration(r.random.Int64N(int64(10*time.Millisecond))))
		}
		r.server.Kill()
		r.result.kills++
		r.http.CloseIdleConnections()
		if time.Since(loggedAt) > time.Minute { // progress of a long run
			loggedAt = time.Now()
			r.t.Logf("%d kills and %d operations so far", r.result.kills, r.claims.claimed())
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

// until waits until a channel is closed. It returns an error if the server ends or the clients make no progress.
func (r *run) until(closed <-chan struct{}) error {
	const limit = time.Minute
	stuck := time.NewTicker(limit)
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
				return fmt.Errorf("the clients made no progress for %s:\n%s", limit, r.server.Log())
			}
			before = now
		}
	}
}

// once is a test that does not kill its servers at its end: the run ends them, and their process ids may belong to
// other processes by then.
type once struct{ testing.TB }

// Cleanup ignores f: the run ends each server.
func (once) Cleanup(func()) {}

// start starts a server on the store and the port of the run.
func (r *run) start(again bool) error {
	started := time.Now()
	s, err := rig.Start(once{r.t}, r.program, r.db, nil, "--listen", r.listen)
	if err != nil {
		return fmt.Errorf("start %d: %w", r.result.kills+1, err)
	}
	if again {
		r.result.restarts = append(r.result.restarts, time.Since(started))
	}
	r.server = s
	r.current.set(s)
	return nil
}

// killAtStart kills a server while it opens the store.
func (r *run) killAtStart() error {
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Duration(r.random.Int64N(int64(60*time.Millisecond))))
	defer cancel()
	command := exec.CommandContext(ctx, r.program, "serve", "--db", r.db,
		"--listen", r.listen, "--admin-listen", "127.0.0.1:0")
	out, err := command.CombinedOutput() // the kill is an error
	if ctx.Err() == nil {
		return fmt.Errorf("the server ended by itself: %w\n%s", err, out)
	}
	r.result.startKills++
	return nil
}

// verify runs the command verify on a file and records damage.
func (r *run) verify(when string) error {
	if strings.HasPrefix(r.db, "postgres:") {
		return nil
	}
	started := time.Now()
	out, err := exec.CommandContext(r.t.Context(), r.program, "verify", "--db", r.db).CombinedOutput()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		r.result.damage = append(r.result.damage, fmt.Errorf("verify %s: %w\n%s", when, err, out))
	case err != nil:
		return fmt.Errorf("verify %s: %w", when, err)
	}
	r.result.verify = max(r.result.verify, time.Since(started))
	return nil
}

// check records the faults of the history and of the store.
func (r *run) check(started time.Time) error {
	if err := r.verify("at the end"); err != nil {
		return err
	}
	plants, err := export(r.t.Context(), r.program, r.db)
	if err != nil {
		return err
	}
	at := time.Since(started)
	requests := r.result.requests
	r.result.plants, r.result.silent = len(plants), plants.silent(requests)
	r.result.set = compare(plants, requests)
	r.result.ids, r.result.illegal = linearizable(append(slices.Clone(requests), plants.reads(requests, at)...))
	for _, o := range requests {
		if o.wrong != "" {
			r.result.responses = append(r.result.responses, fmt.Errorf("plant %d: %s", o.id, o))
		}
	}
	return nil
}
