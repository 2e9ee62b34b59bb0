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
	movePlants  = 60_000  // there before, so that a move takes a while
	moveFirstID = 1 << 50 // of these
)

// TestMove moves a store between files and databases while it is served, and
// kills the mover at random moments. What a client was told holds in the last
// store.
func TestMove(t *testing.T) {
	t.Parallel()
	chance := rand.New(rand.NewPCG(rig.Seed(t, *seed), 0))
	j := newJourney(t, build(t), filepath.Join(t.TempDir(), "first.db"))
	for leg := range size(2, 20) {
		to := newDatabase(t)
		if leg%2 == 1 {
			to = filepath.Join(t.TempDir(), "plantstore.db")
		}
		j.travel(to, size(2, 5), chance)
	}
	if faults := j.arrive(); len(faults) > 0 {
		t.Error(first(faults))
	}
}

// TestMoveControl shows that plants are missed that a move leaves behind.
func TestMoveControl(t *testing.T) {
	if !*long {
		t.Skip("in the long form only")
	}
	t.Parallel()
	blind := rig.Weakness{
		File: "internal/move/copy.go",
		Old:  "ids, err := m.From.Captured(ctx, m.chunk)\n",
		New:  "ids, err := []int64(nil), error(nil)\n",
	}
	j := newJourney(t, rig.Build(t, blind), newDatabase(t))
	j.travel(newDatabase(t), 0, nil)
	faults := j.arrive()
	if len(faults) == 0 {
		t.Fatal("nothing was noticed")
	}
	t.Logf("caught, %d times: %v", len(faults), faults[0])
}

// journey is a store that is moved again and again, and its clients.
type journey struct {
	t              *testing.T
	program, place string
	token          string
	server         *rig.Server
	plants         atomic.Pointer[sender] // to the server that takes plants, or will
	killed         int
	longest        time.Duration // from the last plant that an old server took to the first of a new one

	done    chan struct{}
	running sync.WaitGroup
	mu      sync.Mutex
	history []operation // guarded by mu
	taken   time.Time   // when a plant was last taken; guarded by mu
}

func newJourney(t *testing.T, program, place string) *journey {
	t.Helper()
	j := &journey{t: t, program: program, place: place, done: make(chan struct{})}
	j.token = rig.Token(t, program, place, "travelling")
	var lines bytes.Buffer
	for i := range movePlants {
		fmt.Fprintf(&lines, "{\"id\":%d,\"name\":\"plant %d\"}\n", moveFirstID+i, i)
	}
	file := filepath.Join(t.TempDir(), "plants.jsonl")
	if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), program, "import", file, "--create", "--db", place).CombinedOutput(); err != nil {
		t.Fatalf("import: %v\n%s", err, out)
	}
	j.serve()
	for number := range int64(clients) {
		j.running.Go(func() { j.work(number) })
	}
	return j
}

// serve starts a server on the place, and leads the clients to it.
func (j *journey) serve() {
	j.t.Helper()
	s, err := rig.Start(j.t, j.program, j.place, nil, "--listen", fmt.Sprintf("127.%d.%d.%d:0", 1+rand.IntN(254), rand.IntN(256), 1+rand.IntN(254)))
	if err != nil {
		j.t.Fatal(err)
	}
	j.server = s
	j.plants.Store(newSender(s.URL, j.token, clients))
}

// travel moves the store while it is served, after the mover was killed so often.
func (j *journey) travel(to string, kills int, chance *rand.Rand) {
	j.t.Helper()
	arrived := false
	for ; kills > 0 && !arrived; kills-- {
		ctx, cancel := context.WithTimeout(j.t.Context(), time.Duration(chance.IntN(600))*time.Millisecond)
		arrived = j.move(ctx, to)
		cancel()
		if !arrived {
			j.killed++
		}
	}
	if !arrived && !j.move(j.t.Context(), to) {
		j.t.Fatal("the last move was killed, too")
	}
	old := j.server
	j.place = to
	j.serve()
	if code := old.Stop(); code != 0 {
		j.t.Errorf("the old server ended with code %d:\n%s", code, old.Log())
	}
	before := j.lastTaken()
	rig.Within(j.t, 10*time.Second, 10*time.Millisecond, "the new server takes plants", func() bool { return j.lastTaken().After(before) })
}

// move runs the mover, and tells whether it got to its end.
func (j *journey) move(ctx context.Context, to string) bool {
	j.t.Helper()
	out, err := exec.CommandContext(ctx, j.program, "move", "--from", j.place, "--to", to).CombinedOutput()
	switch {
	case err == nil, strings.Contains(string(out), "it was moved already"): // killed when there was nothing left to do
		return true
	case ctx.Err() == nil:
		j.t.Fatalf("move: %v\n%s", err, out)
	}
	return false
}

func (j *journey) lastTaken() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.taken
}

// work sends plants, some of them a second time.
func (j *journey) work(number int64) {
	for n := int64(0); ; n++ {
		select {
		case <-j.done:
			return
		default:
		}
		j.insist(n*clients + number)
		if n%5 == 4 {
			j.insist((n-n%25)*clients + number)
		}
	}
}

// insist sends a plant until a server tells what became of it.
func (j *journey) insist(id int64) {
	const tries, pause = 3000, 10 * time.Millisecond
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for range tries {
		o := j.plants.Load().send(context.WithoutCancel(j.t.Context()), id, content{name: fmt.Sprint("online ", id)})
		j.note(&o)
		if o.outcome.final() || o.outcome == refused {
			return
		}
		<-tick.C
	}
	j.t.Errorf("plant %d: no server took it, %d times", id, tries)
}

func (j *journey) note(o *operation) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.history = append(j.history, *o)
	if o.outcome.final() {
		if !j.taken.IsZero() {
			j.longest = max(j.longest, o.end.Sub(j.taken))
		}
		j.taken = o.end
	}
}

// arrive ends the clients, and compares what they were told with what is there.
func (j *journey) arrive() (faults []error) {
	j.t.Helper()
	close(j.done)
	j.running.Wait()
	if code := j.server.Stop(); code != 0 {
		j.t.Errorf("the last server ended with code %d:\n%s", code, j.server.Log())
	}
	there, err := rig.Export(j.t, j.program, j.place)
	if err != nil {
		j.t.Fatal(err)
	}
	found := map[int64][]content{}
	before := 0
	for id, name := range there {
		if id >= moveFirstID && name == fmt.Sprintf("plant %d", id-moveFirstID) {
			before++
			continue
		}
		found[id] = []content{{name: name}}
	}
	if before != movePlants {
		faults = append(faults, fmt.Errorf("of %d plants from before %d are there", movePlants, before))
	}
	if _, err := os.Stat(j.place); err == nil {
		if out, err := exec.CommandContext(j.t.Context(), j.program, "verify", "--db", j.place).CombinedOutput(); err != nil {
			faults = append(faults, errors.New(string(out)))
		}
	}
	j.t.Logf("answers: %v; %d plants; the mover was killed %d times; no plant was taken for %s at most", tally(j.history), len(found), j.killed, j.longest)
	return append(faults, check(j.history, found)...)
}
