// Package copies loses the machine of a server that copies its commits, and compares what a restore of the
// destination has with what was acknowledged.
//
//	go test -count=1 ./copies                               short form
//	go test -count=1 -timeout 0 -v ./copies -args -long     long form
//	go test -count=1 -v ./copies -args -seed 7              repeat the plants of a seed, but not their timing
package copies

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"plantstore/faults/rig"
)

var (
	long = flag.Bool("long", false, "run the long form: 300 losses")
	seed = flag.Uint64("seed", 0, "`seed` of the plants and of the time of each loss; 0: random")
)

// TestLoss loses a machine again and again.
func TestLoss(t *testing.T) { testLoss(t, false) }

// TestLossWithSync is TestLoss for a server that acknowledges a plant when the destination has it: none is lost.
func TestLossWithSync(t *testing.T) { testLoss(t, true) }

func testLoss(t *testing.T, sync bool) {
	program := rig.Build(t, rig.HastyMerges...)
	rounds := 3
	if *long {
		rounds = 300
	}
	random := rand.New(rand.NewPCG(rig.Seed(t, *seed), 0))
	var total result
	for range rounds {
		r := newMachine(t, program, random, sync).lose(t)
		if err := errors.Join(r.violations[:min(5, len(r.violations))]...); err != nil {
			t.Fatalf("%d violations, the first: %v", len(r.violations), err)
		}
		total.plants += r.plants
		total.lost += r.lost
		total.oldest = max(total.oldest, r.oldest)
	}
	t.Logf("%d losses of a machine: %d acknowledged plants, %d of them lost, the oldest %v before the loss",
		rounds, total.plants, total.lost, total.oldest)
}

// Weaknesses that TestControl must detect.
var (
	skipsPlants = rig.Weakness{
		File: "internal/sqlite/journal.go",
		Old:  "\t\tif outcomes[i].Created() {\n",
		New:  "\t\tif outcomes[i].Created() && batch[i].Plant.ID%100 != 0 {\n",
	}
	cutsSegments = rig.Weakness{
		File: "internal/backup/copy.go",
		Old:  "s.to.put(ctx, name, content)",
		New:  "s.to.put(ctx, name, content[:len(content)-len(content)%3])",
	}
	losesMerged = rig.Weakness{
		File: "internal/backup/merge.go",
		Old:  "\tcontents := make(",
		New: "\tall := group\n\tdefer func() { _ = s.deleteSegments(ctx, all) }()\n\tgroup = group[1:]\n" +
			"\tcontents := make(",
	}
	forgetsTokens = rig.Weakness{
		File: "internal/sqlite/journal.go",
		Old:  "\t\"plants\", \"tokens\", \"plantstore\",",
		New:  "\t\"plants\", \"plantstore\",",
	}
	claimsEarly = rig.Weakness{
		File: "internal/backup/copy.go",
		Old:  "\t\tc.checked = now\n",
		New:  "\t\tc.checked = now.Add(time.Second)\n",
	}
	acknowledgesEarly = rig.Weakness{
		File: "internal/serve/backups.go",
		Old:  "\tif err := e.backups.Sync(ctx); err != nil {\n",
		New:  "\tif err := ctx.Err(); err != nil {\n",
	}
)

// controlRounds is how often a control is repeated until the harness detects it.
const controlRounds = 40

func TestControl(t *testing.T) {
	for name, weak := range map[string]rig.Weakness{
		"skips plants": skipsPlants, "cuts segments": cutsSegments, "loses merged ones": losesMerged,
		"forgets tokens": forgetsTokens, "claims early": claimsEarly, "acknowledges early": acknowledgesEarly,
	} {
		t.Run(name, func(t *testing.T) {
			program := rig.Build(t, append([]rig.Weakness{weak}, rig.HastyMerges...)...)
			sync := weak == acknowledgesEarly || weak == losesMerged // which has more segments
			random := rand.New(rand.NewPCG(rig.Seed(t, *seed), 0))
			for range controlRounds { // on a busy machine a loss may come when nothing is in flight
				if len(newMachine(t, program, random, sync).lose(t).violations) > 0 {
					return
				}
			}
			t.Errorf("the harness has not detected it in %d rounds", controlRounds)
		})
	}
}

// result is what a loss has shown.
type result struct {
	plants     int           // that were acknowledged
	lost       int           // how many of these
	oldest     time.Duration // from the acknowledgement of the first lost one to the loss
	violations []error
}

// ledger is what clients know.
type ledger struct {
	mu      sync.Mutex
	sent    map[int64]time.Time // plants, with the time before the request; guarded by mu
	stored  map[int64]time.Time // acknowledged plants, with the time after the response; guarded by mu
	command map[int64]bool      // plants of these that a command imported; guarded by mu
	revoked map[string]time.Time
}

// acknowledged returns the number of acknowledged plants.
func (l *ledger) acknowledged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.stored)
}

func nameOf(id int64) string { return fmt.Sprintf("Plant %d", id) }

// machine is a running server under load, with commands beside it.
type machine struct {
	ledger

	program, db string
	token       string // the clients'
	to          string // destination of the backups
	sync        bool   // the server runs with --backup-sync
	server      *rig.Server
	started     time.Time // when the server was started
	random      *rand.Rand
	end         context.CancelFunc // ends the load
	clients     sync.WaitGroup
}

// newMachine returns a machine under load whose destination has a backup.
func newMachine(t *testing.T, program string, random *rand.Rand, sync bool) *machine {
	t.Helper()
	m := emptyMachine(t, program, random, sync)
	m.serve(t)
	return m
}

// serve starts the server, waits until the destination has a backup, and starts the load.
func (m *machine) serve(t *testing.T, flags ...string) {
	t.Helper()
	if err := m.start(t, nil, flags...); err != nil {
		t.Fatal(err)
	}
	rig.Within(t, time.Minute, 10*time.Millisecond, "the destination has a backup", func() bool {
		found, _ := filepath.Glob(filepath.Join(m.to, "*.db"))
		return len(found) > 0
	})
	m.load(t)
}

// emptyMachine returns a machine with a store and without a server.
func emptyMachine(t *testing.T, program string, random *rand.Rand, sync bool) *machine {
	t.Helper()
	m := &machine{
		program: program, db: filepath.Join(t.TempDir(), "plantstore.db"), to: t.TempDir(), sync: sync, random: random,
		ledger: ledger{
			sent: map[int64]time.Time{}, stored: map[int64]time.Time{}, command: map[int64]bool{},
			revoked: map[string]time.Time{},
		},
	}
	m.token = rig.Token(t, program, m.db, "load")
	return m
}

// start starts the server by a command line that runs it, which may be empty.
func (m *machine) start(t *testing.T, before []string, flags ...string) (err error) {
	t.Helper()
	flags = append(flags, "--backup-dir", m.to, "--backup-lag", "1s")
	if m.sync {
		flags = append(flags, "--backup-sync")
	}
	m.started = time.Now()
	m.server, err = rig.Start(t, m.program, m.db, before, flags...)
	return err
}

// load starts clients and commands, which run until m.end.
func (m *machine) load(t *testing.T) {
	t.Helper()
	ctx := m.loadPlants(t)
	first := m.random.Int64()
	m.clients.Go(func() { m.changeTokens(ctx, m.program, m.db) })
	m.clients.Go(func() { m.importPlants(ctx, m.program, m.db, first) })
}

// loadPlants starts clients, which run until m.end, when the context ends.
func (m *machine) loadPlants(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	m.end = cancel
	url := m.server.URL
	for range 8 {
		ids := rand.New(rand.NewPCG(m.random.Uint64(), m.random.Uint64()))
		m.clients.Go(func() { m.create(ctx, &rig.Client{Token: m.token}, url, ids) })
	}
	return ctx
}

// stop kills the server after a time, and returns the time up to which it had copied all commits.
func (m *machine) stop(t *testing.T, after time.Duration) (copied time.Time) {
	t.Helper()
	<-time.After(after)
	copied = copiedTo(t, m.server, m.token)
	m.server.Kill()
	m.end()
	m.clients.Wait()
	return copied
}

// lose kills the server at a random moment and recovers the machine.
func (m *machine) lose(t *testing.T) result {
	t.Helper()
	return m.recover(t, m.stop(t, time.Duration(m.random.Int64N(int64(3*time.Second)))))
}

// recover removes all but the destination, which has all commits up to a time, and restores that.
func (m *machine) recover(t *testing.T, copied time.Time) (r result) {
	t.Helper()
	lossAt := time.Now()
	if err := os.RemoveAll(filepath.Dir(m.db)); err != nil {
		t.Fatal(err)
	}
	restored := filepath.Join(t.TempDir(), "plantstore.db")
	for _, args := range [][]string{
		{"verify", m.to}, {"restore", m.to, "--db", restored}, {"verify", "--db", restored},
	} {
		if out, err := exec.Command(m.program, args...).CombinedOutput(); err != nil {
			r.violations = append(r.violations, fmt.Errorf("%s: %w\n%s", args[0], err, out))
			return r
		}
	}
	plants, err := rig.Export(t, m.program, restored)
	if err != nil {
		t.Fatal(err)
	}
	m.compare(&r, plants, copied, lossAt)
	m.compareTokens(t, &r, m.program, restored, copied)
	return r
}

// TestAnySecond restores a run as it was at random times.
func TestAnySecond(t *testing.T) {
	times, runs := 5, 3*time.Second
	if *long {
		times, runs = 100, 30*time.Second
	}
	random := rand.New(rand.NewPCG(rig.Seed(t, *seed), 0))
	m := newMachine(t, rig.Build(t, rig.HastyMerges...), random, false)
	begin := time.Now()
	end := m.stop(t, runs)
	for range times {
		at := begin.Add(time.Duration(random.Int64N(int64(end.Sub(begin)))))
		restored := filepath.Join(t.TempDir(), "plantstore.db")
		args := []string{"restore", m.to, "--at", at.Format(time.RFC3339Nano), "--db", restored}
		out, err := exec.Command(m.program, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("restore: %v\n%s", err, out)
		}
		plants, err := rig.Export(t, m.program, restored)
		if err != nil {
			t.Fatal(err)
		}
		before, after := 0, 0
		for id := range m.sent {
			_, found := plants[id]
			acknowledged, ok := m.stored[id]
			switch {
			case ok && acknowledged.Before(at):
				before++
				if !found {
					t.Errorf("at %v: plant %d is missing, acknowledged at %v", at, id, acknowledged)
				}
			case m.sent[id].After(at):
				after++
				if found {
					t.Errorf("at %v: plant %d is there, sent at %v", at, id, m.sent[id])
				}
			}
		}
		t.Logf("%v after the start: %d plants before, %d after", at.Sub(begin), before, after)
	}
}

// create creates plants until ctx ends.
func (l *ledger) create(ctx context.Context, c *rig.Client, url string, ids *rand.Rand) {
	defer c.Close()
	for ctx.Err() == nil {
		id := ids.Int64()
		l.mu.Lock()
		l.sent[id] = time.Now()
		l.mu.Unlock()
		if outcome, _ := c.Create(ctx, url, id, nameOf(id)); outcome == rig.Stored {
			l.mu.Lock()
			l.stored[id] = time.Now()
			l.mu.Unlock()
		}
	}
}

// changeTokens creates and revokes tokens beside the server until ctx ends.
func (l *ledger) changeTokens(ctx context.Context, program, db string) {
	for ctx.Err() == nil {
		name := fmt.Sprintf("token-%x", rand.Uint64()) // a second load uses no name again
		create := exec.CommandContext(ctx, program, "token", "create", name, "--no-expiry", "--db", db)
		if _, err := create.Output(); err != nil { // the command creates no token whose secret nobody reads
			continue // the machine is lost
		}
		if exec.CommandContext(ctx, program, "token", "revoke", name, "--db", db).Run() == nil {
			l.mu.Lock()
			l.revoked[name] = time.Now()
			l.mu.Unlock()
		}
	}
}

// importPlants imports plants beside the server.
func (l *ledger) importPlants(ctx context.Context, program, db string, first int64) {
	const plants = 5000
	var lines bytes.Buffer
	l.mu.Lock()
	for id := first; id < first+plants; id++ {
		l.sent[id] = time.Now()
		fmt.Fprintf(&lines, "{\"id\":%d,\"name\":%q}\n", id, nameOf(id))
	}
	l.mu.Unlock()
	command := exec.CommandContext(ctx, program, "import", "-", "--format", "jsonl", "--quiet", "--db", db)
	command.Stdin = &lines
	if command.Run() == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		for id := first; id < first+plants; id++ {
			l.stored[id], l.command[id] = time.Now(), true
		}
	}
}

// copiedTo returns the time of the newest commit that the destination has, as the server states it.
func copiedTo(t *testing.T, s *rig.Server, token string) time.Time {
	t.Helper()
	at := time.Now()
	return at.Add(-time.Duration(metric(t, s, token, "plantstore_copy_lag_seconds") * float64(time.Second)))
}

// metric returns the value of a metric of a server.
func metric(t *testing.T, s *rig.Server, token, name string) float64 {
	t.Helper()
	body, err := s.Metrics(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(body)
	if match == nil {
		t.Fatalf("no %s in the metrics:\n%s", name, body)
	}
	value, err := strconv.ParseFloat(string(match[1]), 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// compare compares the plants of the restored store with those that were sent and acknowledged. With --backup-sync, a
// created plant is lost at no time, but an import by a command does not wait for the copy.
func (m *machine) compare(r *result, plants map[int64]string, copied, lossAt time.Time) {
	for id, name := range plants {
		if m.sent[id].IsZero() || name != nameOf(id) {
			r.violations = append(r.violations, fmt.Errorf("the restored store has plant %d %q, which nobody sent", id, name))
		}
	}
	for id, at := range m.stored {
		r.plants++
		if _, found := plants[id]; found {
			continue
		}
		r.lost++
		r.oldest = max(r.oldest, lossAt.Sub(at))
		if at.Before(copied) || m.sync && !m.command[id] {
			r.violations = append(r.violations, fmt.Errorf("plant %d is lost, acknowledged %v before the loss; "+
				"the server had copied all up to %v before it", id, lossAt.Sub(at), lossAt.Sub(copied)))
		}
	}
}

// compareTokens compares the tokens of the restored store with those that were revoked.
func (l *ledger) compareTokens(t *testing.T, r *result, program, db string, copied time.Time) {
	t.Helper()
	out, err := exec.Command(program, "token", "list", "--db", db, "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	revoked := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		var token struct {
			Name      string
			RevokedAt time.Time `json:"revoked_at"`
		}
		if err := json.Unmarshal([]byte(line), &token); err != nil {
			t.Fatal(err)
		}
		revoked[token.Name] = !token.RevokedAt.IsZero()
	}
	for name, at := range l.revoked {
		if at.Before(copied) && !revoked[name] {
			r.violations = append(r.violations, fmt.Errorf("%s is valid, although it was revoked %v before the time up to "+
				"which the server had copied all", name, copied.Sub(at)))
		}
	}
}
