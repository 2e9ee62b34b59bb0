package replicas

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plantstore/faults/rig"
)

const movePlants = 60_000 // so that a move takes some time

// TestMove moves a store between files and databases, and kills the mover at random moments.
func TestMove(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(rig.Seed(t, *seed), 0))
	m := newMoveRun(t, build(t), filepath.Join(t.TempDir(), "first.db"))
	for n := range size(2, 20) {
		to := newDatabase(t)
		if n%2 == 1 {
			to = filepath.Join(t.TempDir(), "plantstore.db")
		}
		if violations := m.moveTo(to, size(3, 10), random); len(violations) > 0 {
			t.Fatal(joinFirst(violations))
		}
	}
	t.Logf("%d kills of the mover", m.kills)
}

// TestMoveControl shows that the harness detects a move after which both stores can be served.
func TestMoveControl(t *testing.T) {
	if !*long {
		t.Skip("only in the long form")
	}
	t.Parallel()
	unmarked := rig.Weakness{
		File: "internal/move/move.go",
		Old:  "err := m.From.SetMovedTo(ctx, m.ToName, event)\n",
		New:  "err := error(nil)\n",
	}
	m := newMoveRun(t, rig.Build(t, unmarked), newDatabase(t))
	requireDetection(t, m.moveTo(newDatabase(t), 0, nil))
}

// moveRun is a store that is moved several times.
type moveRun struct {
	t           *testing.T
	program, db string
	plants      map[int64]string
	kills       int
}

func newMoveRun(t *testing.T, program, db string) *moveRun {
	t.Helper()
	m := &moveRun{t: t, program: program, db: db, plants: map[int64]string{}}
	var lines bytes.Buffer
	for id := range int64(movePlants) {
		m.plants[id] = fmt.Sprint("plant ", id)
		fmt.Fprintf(&lines, "{\"id\":%d,\"name\":%q}\n", id, m.plants[id])
	}
	file := filepath.Join(t.TempDir(), "plants.jsonl")
	if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), program, "import", file, "--create", "--db", db)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("import: %v\n%s", err, out)
	}
	return m
}

// moveTo moves the store. It kills that many attempts before the last one, and checks both stores after each.
func (m *moveRun) moveTo(to string, kills int, random *rand.Rand) (violations []error) {
	m.t.Helper()
	moved := false
	for ; kills > 0 && !moved; kills-- {
		ctx, cancel := context.WithTimeout(m.t.Context(), time.Duration(random.IntN(2000))*time.Millisecond)
		moved = m.runMover(ctx, to)
		cancel()
		if !moved {
			m.kills++
			violations = append(violations, m.check(to)...)
		}
	}
	if !moved && !m.runMover(m.t.Context(), to) {
		m.t.Fatal("the last attempt of the move was killed, too")
	}
	violations = append(violations, m.check(to)...)
	if _, err := rig.Export(m.t, m.program, to); err != nil {
		violations = append(violations, err)
	}
	m.db = to
	return violations
}

// runMover runs the mover until ctx ends, and reports whether the move is complete.
func (m *moveRun) runMover(ctx context.Context, to string) bool {
	m.t.Helper()
	out, err := exec.CommandContext(ctx, m.program, "move", "--from", m.db, "--to", to).CombinedOutput()
	switch {
	case err == nil, strings.Contains(string(out), "the store was moved to"): // a killed attempt completed the move
		return true
	case ctx.Err() == nil:
		m.t.Fatalf("move: %v\n%s", err, out)
	}
	return false
}

// check returns a violation if the new store exists and lacks a plant, or if a server starts on the old store then.
func (m *moveRun) check(to string) (violations []error) {
	m.t.Helper()
	if plants, err := rig.Export(m.t, m.program, m.db); err != nil || !maps.Equal(plants, m.plants) {
		violations = append(violations, fmt.Errorf("the old store has %d plants, or others: %w", len(plants), err))
	}
	// Unlike export, get leaves a new store without an entry in its audit log.
	if exec.CommandContext(m.t.Context(), m.program, "get", "0", "--db", to).Run() != nil {
		return violations // there is no new store
	}
	if plants, err := rig.Export(m.t, m.program, to); err != nil || !maps.Equal(plants, m.plants) {
		violations = append(violations, fmt.Errorf("the new store has %d plants, or others: %w", len(plants), err))
	}
	if s, err := rig.Start(m.t, m.program, m.db, nil); err == nil {
		s.Kill()
		violations = append(violations, fmt.Errorf("a server starts on the old store %s beside the new one", m.db))
	}
	return violations
}
