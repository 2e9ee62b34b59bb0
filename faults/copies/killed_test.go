package copies

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"plantstore/faults/rig"
)

// at inserts a failpoint before a part of a source file.
func at(name, file, part string) rig.Weakness {
	return rig.Weakness{File: file, Old: part, New: fmt.Sprintf("\tfailpoint(%q)\n%s", name, part)}
}

// failpoints are the steps of a copy, a merge and the retention.
var failpoints = []rig.Weakness{
	rig.Killer("internal/backup"), rig.Killer("internal/safefile"), rig.Killer("internal/sqlite"),
	at("record", "internal/sqlite/journal.go", "\tt.history = t.history.After(&c)\n"),
	at("trim", "internal/sqlite/journal.go", "\tr.trimmed = to\n"),
	at("before the owner", "internal/backup/owner.go", "\t\t\terr = s.to.putOnce(ctx, s.names.ownerName(),"),
	at("before a timeline", "internal/backup/owner.go",
		"\tif err := putObject(ctx, s.to, s.names.timelineName(o.ID), o.timeline)"),
	at("before the origin", "internal/backup/owner.go", "\treturn s.hold(o.ID)\n"),
	at("after the start of the journal", "internal/backup/copy.go", "\tvisit := func(after int64,"),
	at("before a segment", "internal/backup/copy.go", "\tif err := s.to.put(ctx, name, content)"),
	at("before a rename", "internal/safefile/safefile.go", "\t\terr = f.Publish(replace)\n"),
	at("after a segment", "internal/backup/copy.go", "\tc.setCopied(c.timeline, described.Last,"),
	at("after a merged segment", "internal/backup/merge.go", "\told := slices.DeleteFunc(slices.Concat(group, covered), "),
	at("before a removal", "internal/backup/directory.go", "\t\tif err := d.removeFile(d.location(name)); err != nil && "),
	at("before the retention", "internal/backup/merge.go", "\tkept, current := keptSince(c.files), "),
	{File: "internal/backup/merge.go", Old: "const commitMax = time.Hour", New: "const commitMax = time.Second"},
}

// failpointsOfStart are those that a server reaches once.
var failpointsOfStart = []string{
	"before the owner", "before a timeline", "before the origin", "after the start of the journal",
}

// mergePoint is a failpoint before a merged segment is stored.
var mergePoint = at("before a merged segment", "internal/backup/merge.go", "\tif err := s.to.put(ctx, name, content); ")

// removesFirst removes the segments before it stores the merged one.
var removesFirst = rig.Weakness{
	File: mergePoint.File, Old: mergePoint.Old,
	New: "\tif err := s.deleteSegments(ctx, group); err != nil {\n\t\treturn err\n\t}\n" + mergePoint.New,
}

// TestKilled kills the server at each step, starts it again, and loses the machine. No acknowledged plant is lost.
func TestKilled(t *testing.T) {
	program := rig.Build(t, append(append([]rig.Weakness{mergePoint}, failpoints...), rig.HastyMerges...)...)
	counts := []int{3}
	if *long {
		counts = []int{1, 2, 3, 5, 8, 13, 21, 34}
	}
	random := rand.New(rand.NewPCG(rig.Seed(t, *seed), 0))
	for _, name := range []string{
		"before the owner", "before a timeline", "before the origin", "after the start of the journal", "record", "trim",
		"before a segment", "before a rename", "after a segment", "before a merged segment", "after a merged segment",
		"before a removal", "before the retention",
	} {
		for _, count := range counts {
			if slices.Contains(failpointsOfStart, name) {
				count = 1 // a server reaches it once
			}
			flags := []string{"--backup-every", "1s", "--backup-keep", "1"}
			m := killed(t, program, random, fmt.Sprintf("%s:%d", name, count), flags...)
			m.serve(t, flags...)
			r := m.lose(t)
			if err := errors.Join(r.violations[:min(5, len(r.violations))]...); err != nil {
				t.Fatalf("%s %d: %d violations, the first: %v", name, count, len(r.violations), err)
			}
			t.Logf("%s %d: %d acknowledged plants, %d lost", name, count, r.plants, r.lost)
		}
	}
}

// TestKilledControl shows that TestKilled detects a merge that removes before it stores.
func TestKilledControl(t *testing.T) {
	program := rig.Build(t, append(append([]rig.Weakness{removesFirst}, failpoints...), rig.HastyMerges...)...)
	random := rand.New(rand.NewPCG(rig.Seed(t, *seed), 0))
	for range controlRounds { // the first merge may be of segments from before the first backup, which has their commits
		m := killed(t, program, random, "before a merged segment:1", "--backup-every", "1h")
		if len(m.recover(t, time.Time{}).violations) > 0 {
			return
		}
	}
	t.Errorf("the harness has not detected it in %d rounds", controlRounds)
}

// killed returns a machine under load whose server was killed at a failpoint.
func killed(t *testing.T, program string, random *rand.Rand, point string, flags ...string) *machine {
	t.Helper()
	m := emptyMachine(t, program, random, true)
	err := m.start(t, []string{"env", "FAILPOINT=" + point}, flags...)
	switch {
	case errors.Is(err, rig.ErrEnded):
	case err != nil:
		t.Fatal(err)
	default:
		m.load(t)
		select {
		case <-m.server.Ended():
		case <-time.After(5 * time.Minute):
			t.Fatalf("the server was not killed at %s", point)
		}
		m.end()
		m.clients.Wait()
	}
	return m
}
