package admin

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
)

// TestPruneDamagedAudit shows that a prune removes no entry of a log that lacks one.
func TestPruneDamagedAudit(t *testing.T) {
	t.Parallel()
	rows := make([]audit.Row, 3)
	last := audit.Link{}
	for i := range rows {
		rows[i] = audit.Seal(last, audit.Event{Action: "x"})
		last = rows[i].Link()
	}
	before := time.Now()
	if n, err := olderRows(audit.Link{}, rows, before); n != 3 || err != nil {
		t.Errorf("a whole log: %d, %v", n, err)
	}
	rows[1] = rows[2]
	if n, err := olderRows(audit.Link{}, rows[:2], before); n != 0 || !errors.Is(err, store.ErrAuditFault) {
		t.Errorf("a log without entry 2: %d, %v", n, err)
	}
}

// TestPruneLargeAudit shows that a batch has fewer entries if they are large.
func TestPruneLargeAudit(t *testing.T) {
	t.Parallel()
	large := audit.Event{Action: "x"}
	for i := range 250 {
		large.Details = append(large.Details, audit.Detail{Key: "k" + strconv.Itoa(i), Value: strings.Repeat("x", 1000)})
	}
	var rows []audit.Row
	for last := (audit.Link{}); len(rows) < 50; last = rows[len(rows)-1].Link() {
		rows = append(rows, audit.Seal(last, large))
	}
	want := store.PlantsBytes / len(rows[0].Text)
	if n, err := olderRows(audit.Link{}, rows, time.Now()); n != want || err != nil {
		t.Errorf("of %d entries of %d bytes: %d, %v; want %d", len(rows), len(rows[0].Text), n, err, want)
	}
}

// TestPruneAudit prunes a log of several batches up to the first entry that is young enough.
func TestPruneAudit(t *testing.T) {
	t.Parallel()
	engine, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "a.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	now := time.Now()
	var events []audit.Event
	for i := range 2600 {
		age := time.Hour
		if i >= 2500 && i != 2550 { // one is old, but follows a young one
			age = time.Minute
		}
		events = append(events, audit.Event{Time: now.Add(-age), Action: "x"})
	}
	if err := engine.AppendAudit(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int64{2500, 0} {
		removed, err := PruneAudit(t.Context(), engine, now.Add(-30*time.Minute), audit.Origin{})
		if err != nil || removed != want {
			t.Errorf("removed %d, %v; want %d", removed, err, want)
		}
	}
	ends, err := store.VerifyAudit(t.Context(), engine, audit.Link{})
	if err != nil || ends.Anchor.Sequence != 2500 || ends.Head.Sequence != 2603 { // three batches have an entry each
		t.Errorf("ends %+v, %v", ends, err)
	}
}
