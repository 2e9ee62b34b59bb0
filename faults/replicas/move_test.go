package replicas

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plantstore/faults/rig"
)

const (
	movePlants  = 60_000  // stored before the first move, so that a move takes some time
	moveFirstID = 1 << 50 // the first of their ids
)

// TestMove moves a store between files and databases while a server serves it, and
// kills the mover at random moments. The last store must match all responses.
func TestMove(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(rig.Seed(t, *seed), 0))
	m := newMoveRun(t, build(t), filepath.Join(t.TempDir(), "first.db"))
	for n := range size(2, 20) {
		to := newDatabase(t)
		if n%2 == 1 {
			to = filepath.Join(t.TempDir(), "plantstore.db")
		}
		m.moveTo(to, size(2, 5), random)
	}
	if violations := m.finish(); len(violations) > 0 {
		t.Error(joinFirst(violations))
	}
}

// TestMoveControl shows that the harness detects a move that loses plants.
func TestMoveControl(t *testing.T) {
	if !*long {
		t.Skip("only in the long form")
	}
	t.Parallel()
	noCapture := rig.Weakness{
		File: "internal/move/copy.go",
		Old:  "ids, err := m.From.Captured(ctx, m.chunk)\n",
		New:  "ids, err := []int64(nil), error(nil)\n",
	}
	m := newMoveRun(t, rig.Build(t, noCapture), newDatabase(t))
	m.moveTo(newDatabase(t), 0, nil)
	requireDetection(t, m.finish())
}

// moveRun is a store that is moved several times, with its server and clients.
type moveRun struct {
	t            *testing.T
	program, db  string
	token        string
	server       *rig.Server
	plants       atomic.Pointer[sender] // to the newest server
	kills        int
	longestPause time.Duration // longest time between two final outcomes

	done      chan struct{}
	running   sync.WaitGroup
	mu        sync.Mutex
	history   []operation // guarded by mu
	lastFinal time.Time   // end of the last request with a final outcome; guarded by mu
}

func newMoveRun(t *testing.T, program, db string) *moveRun {
	t.Helper()
	m := &moveRun{t: t, program: program, db: db, done: make(chan struct{})}
	m.token = rig.Token(t, program, db, "moving")
	var lines bytes.Buffer
	for i := range movePlants {
		fmt.Fprintf(&lines, "{\"id\":%d,\"name\":\"plant %d\"}\n", moveFirstID+i, i)
	}
	file := filepath.Join(t.TempDir(), "plants.jsonl")
	if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, "import", file, "--create", "--db", db)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("import: %v\n%s", err, out)
	}
	m.serve()
	for number := range int64(clients) {
		m.running.Go(func() { m.runClient(number) })
	}
	return m
}

// serve starts a server on the current store, and sends the clients' requests to it.
func (m *moveRun) serve() {
	m.t.Helper()
	s, err := rig.Start(m.t, m.program, m.db, nil, "--listen", unusedAddress())
	if err != nil {
		m.t.Fatal(err)
	}
	m.server = s
	m.plants.Store(newSender(s.URL, m.token))
}

// moveTo moves the store while it is served. It kills up to that many attempts
// before the last one.
func (m *moveRun) moveTo(to string, kills int, random *rand.Rand) {
	m.t.Helper()
	moved := false
	for ; kills > 0 && !moved; kills-- {
		ctx, cancel := context.WithTimeout(m.t.Context(), time.Duration(random.IntN(600))*time.Millisecond)
		moved = m.runMover(ctx, to)
		cancel()
		if !moved {
			m.kills++
		}
	}
	if !moved && !m.runMover(m.t.Context(), to) {
		m.t.Fatal("the last attempt of the move was killed, too")
	}
	old := m.server
	m.db = to
	m.serve()
	if code := old.Stop(); code != 0 {
		m.t.Errorf("the old server ended with code %d:\n%s", code, old.Log())
	}
	before := m.lastFinalTime()
	rig.Within(m.t, time.Minute, 10*time.Millisecond, "the new server stores plants", func() bool {
		return m.lastFinalTime().After(before)
	})
}

// runMover runs the mover until ctx ends, and reports whether the move is complete.
func (m *moveRun) runMover(ctx context.Context, to string) bool {
	m.t.Helper()
	out, err := exec.CommandContext(ctx, m.program, "move", "--from", m.db, "--to", to).CombinedOutput()
	switch {
	case err == nil, strings.Contains(string(out), "cannot move the store again"): // a killed attempt completed the move
		return true
	case ctx.Err() == nil:
		m.t.Fatalf("move: %v\n%s", err, out)
	}
	return false
}

func (m *moveRun) lastFinalTime() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lastFinal
}

// runClient sends plants, and some of them a second time.
func (m *moveRun) runClient(number int64) {
	for n := int64(0); ; n++ {
		select {
		case <-m.done:
			return
		default:
		}
		m.sendUntilFinal(n*clients + number)
		if n%5 == 4 {
			m.sendUntilFinal((n-n%25)*clients + number)
		}
	}
}

// sendUntilFinal sends a plant until its outcome is known.
func (m *moveRun) sendUntilFinal(id int64) {
	const tries, pause = 3000, 10 * time.Millisecond
	tick := time.NewTicker(pause)
	defer tick.Stop()
	c := content{name: fmt.Sprint("online ", id)}
	for range tries {
		o := m.plants.Load().send(context.WithoutCancel(m.t.Context()), id, c)
		m.record(&o)
		if o.outcome.final() || o.outcome == unexpected {
			return
		}
		<-tick.C
	}
	m.t.Errorf("plant %d: no known outcome after %d requests", id, tries)
}

func (m *moveRun) record(o *operation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.history = append(m.history, *o)
	if o.outcome.final() {
		if !m.lastFinal.IsZero() {
			m.longestPause = max(m.longestPause, o.end.Sub(m.lastFinal))
		}
		m.lastFinal = o.end
	}
}

// finish stops the clients and the last server, and compares the responses with the
// last store.
func (m *moveRun) finish() (violations []error) {
	m.t.Helper()
	close(m.done)
	m.running.Wait()
	if code := m.server.Stop(); code != 0 {
		m.t.Errorf("the last server ended with code %d:\n%s", code, m.server.Log())
	}
	exported, err := rig.Export(m.t, m.program, m.db)
	if err != nil {
		m.t.Fatal(err)
	}
	stored := map[int64][]content{} // without the imported plants
	imported := 0
	for id, name := range exported {
		if id >= moveFirstID && name == fmt.Sprintf("plant %d", id-moveFirstID) {
			imported++
			continue
		}
		stored[id] = []content{{name: name}}
	}
	if imported != movePlants {
		violations = append(violations, fmt.Errorf("the last store has %d imported plants, want %d", imported, movePlants))
	}
	if _, err := os.Stat(m.db); err == nil {
		out, err := exec.CommandContext(m.t.Context(), m.program, "verify", "--db", m.db).CombinedOutput()
		if err != nil {
			violations = append(violations, errors.New(string(out)))
		}
	}
	m.t.Logf("outcomes %v; %d plants; %d kills of the mover; longest pause: %s",
		countOutcomes(m.history), len(stored), m.kills, m.longestPause)
	return append(violations, check(m.history, stored)...)
}
