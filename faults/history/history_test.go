// Package history kills a server repeatedly while clients create plants, and an operator erases and corrects some by
// the admin API and by commands beside the server. It checks that the responses for each id are linearizable, and that
// the store has the acknowledged plants at the end.
//
// A kill leaves the page cache of the system, so this harness does not detect a commit without a sync.
//
// The short form takes less than a minute:
//
//	go test ./history
//
// The long form, a form with many kills, and a form with a time limit:
//
//	go test ./history -run TestHistory -v -timeout 0 -seeds 100 -ops 100000
//	go test ./history -run TestHistory -v -timeout 0 -seeds 1 -ops 200000 -kills 2000
//	go test ./history -run TestHistory -v -timeout 0 -seeds 100 -ops 100000 -for 8m
package history

import (
	"errors"
	"flag"
	"fmt"
	"testing"
	"time"

	"plantstore/faults/rig"
	"plantstore/internal/postgres/pgtest"
)

var (
	seed    = flag.Uint64("seed", 0, "first seed of the operations, but not of their timing; 0: random")
	seeds   = flag.Int("seeds", 2, "number of seeds from the first on")
	ops     = flag.Int("ops", 5000, "operations of each seed")
	kills   = flag.Int("kills", 10, "number of kills of each seed")
	limit   = flag.Duration("for", 0, "start no further seed after this `duration`; 0: no limit")
	clients = flag.Int("clients", 8, "number of concurrent clients")
)

// restartMax is for loaded machines; the documented limit is a second on an idle one, and the log of the test has the
// longest restart.
const restartMax = time.Minute

// TestHistory fails on any fault of a history or of its store.
func TestHistory(t *testing.T) {
	program := rig.Build(t)
	from := rig.Seed(t, *seed)
	var slowest time.Duration
	var done, operations, requests, killed int
	started := time.Now()
	for i := range *seeds {
		if *limit > 0 && time.Since(started) > *limit {
			break
		}
		s := from + uint64(i)
		t.Run(fmt.Sprint("seed=", s), func(t *testing.T) {
			r, err := execute(t, program, options{seed: s, operations: *ops, kills: *kills, clients: *clients})
			if err != nil {
				t.Fatal(err)
			}
			t.Log(r)
			if err := first(r.faults()); err != nil {
				t.Error(err)
			}
			if r.slowest() > restartMax {
				t.Errorf("a restart took %s, want at most %s", r.slowest(), restartMax)
			}
			done++
			slowest = max(slowest, r.slowest())
			operations += r.operations
			requests += len(r.requests)
			killed += r.kills + r.startKills
		})
	}
	t.Logf("in total: %d seeds, %d operations, %d requests, %d kills, slowest restart %s",
		done, operations, requests, killed, slowest)
}

// startPostgreSQL starts a PostgreSQL that runs until the end of the test.
func startPostgreSQL(t *testing.T) *pgtest.Server {
	t.Helper()
	server, err := pgtest.Start(t.Context())
	rig.Need(t, !errors.Is(err, pgtest.ErrMissing), "PostgreSQL")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// TestHistoryOnPostgreSQL is TestHistory with one seed. PostgreSQL itself is not killed.
func TestHistoryOnPostgreSQL(t *testing.T) {
	db, err := startPostgreSQL(t).Database(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	o := options{seed: rig.Seed(t, *seed), operations: *ops, kills: *kills, clients: *clients, db: db}
	r, err := execute(t, rig.Build(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	if err := first(r.faults()); err != nil {
		t.Error(err)
	}
}

// wholeBatchRepeated repeats the creates of a whole batch after a plant of it was erased, although an attempt has
// created the others. The pause gives the operator time to erase these too.
var wholeBatchRepeated = []rig.Weakness{
	{File: "internal/postgres/insert.go", Old: "rest = rest.without(missing.created)", New: "_ = missing"},
	{
		File: "internal/postgres/insert.go",
		Old:  "\tif len(created) < len(b.ids) {\n",
		New:  "\tif len(created) < len(b.ids) {\n\t\ttime.Sleep(20 * time.Millisecond)\n",
	},
}

// TestRepeatedCreates shows that the checks detect a create that takes effect twice.
func TestRepeatedCreates(t *testing.T) {
	program, server, from := rig.Build(t, wholeBatchRepeated...), startPostgreSQL(t), rig.Seed(t, *seed)
	for i := range uint64(100) { // on a busy machine, one in ten detects it
		db, err := server.Database(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		o := options{seed: from + i, operations: 2000, clients: *clients, db: db}
		r, err := execute(t, program, o)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.illegal) > 0 {
			t.Logf("detected: %s\n%v", r, r.illegal[0])
			return
		}
	}
	t.Error("no fault was detected")
}

// TestEarlyResponse shows that the checks detect a server that responds before it commits.
func TestEarlyResponse(t *testing.T) {
	program := rig.Build(t, rig.EarlyAnswer)
	from := rig.Seed(t, *seed)
	const rounds = 10
	killed := 0
	for i := range rounds {
		r, err := execute(t, program, options{seed: from + uint64(i), operations: 2000, kills: 20, clients: *clients})
		if err != nil {
			t.Fatal(err)
		}
		killed += r.kills
		if len(r.set.lost) > 0 {
			t.Logf("detected after %d kills: %s\n%v", killed, r, r.set.lost[0])
			return
		}
	}
	t.Errorf("no plant was lost after %d kills", killed)
}

// conflictReplayed reports a conflict as a replay.
var conflictReplayed = rig.Weakness{
	File: "internal/sqlite/insert.go",
	Old:  "return plant.Differences(c.Plant.Plant, stored.Plant), nil",
	New:  "return plant.Differences(stored.Plant, stored.Plant), nil",
}

// replayUnmarked omits the header of a replay.
var replayUnmarked = rig.Weakness{
	File: "internal/server/plants.go",
	Old:  "if replayed {",
	New:  "if replayed && false {",
}

// earlyErasure responds to an erasure before its commit.
var earlyErasure = rig.Weakness{
	File: "internal/admin/erase.go",
	Old:  "return s.engine.Erase(ctx, plants, e.Reason, by)",
	New: "go s.engine.Erase(context.WithoutCancel(ctx), plants, e.Reason, by)\n" +
		"\t\treturn int64(len(plants)), nil",
}

// lastWins replaces a stored plant by a later one.
var lastWins = rig.Weakness{
	File: "internal/sqlite/insert.go",
	Old:  "ON CONFLICT DO NOTHING",
	New: "ON CONFLICT DO UPDATE SET name = excluded.name, tag = excluded.tag, created_at = excluded.created_at, " +
		"created_by = excluded.created_by, digest = excluded.digest",
}

// TestWrongResponses shows that the checks detect responses that are not linearizable, even without a kill.
func TestWrongResponses(t *testing.T) {
	for name, weak := range map[string]rig.Weakness{
		"conflict reported as replayed": conflictReplayed,
		"replayed reported as created":  replayUnmarked,
		"last plant wins":               lastWins,
		"erased before the commit":      earlyErasure,
	} {
		t.Run(name, func(t *testing.T) {
			o := options{seed: rig.Seed(t, *seed), operations: 1000, clients: *clients}
			r, err := execute(t, rig.Build(t, weak), o)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.illegal) == 0 {
				t.Fatalf("no fault was detected: %s", r)
			}
			t.Logf("detected: %s\n%v", r, r.illegal[0])
		})
	}
}
