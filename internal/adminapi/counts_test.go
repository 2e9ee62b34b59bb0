package adminapi_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// counts is the response with the counts.
type counts struct {
	Counts *struct {
		CountedAt  time.Time `json:"counted_at"`
		Plants     int64
		Untagged   int64
		OtherTags  int64 `json:"other_tags"`
		OtherDays  int64 `json:"other_days"`
		Exact      bool
		Tags, Days []map[string]any
	}
	Running *struct {
		StartedAt time.Time `json:"started_at"`
		Rows      int64
		Total     *int64
	}
}

func (h *harness) counts(query string) (c counts) {
	h.t.Helper()
	r := h.get("/plants/counts" + query)
	if err := json.Unmarshal([]byte(r.body), &c); err != nil || r.status != 200 {
		h.t.Fatalf("%+v: %v", r, err)
	}
	return c
}

// counted returns the counts of a count that starts at or after a time.
func (h *harness) counted(since time.Time) counts {
	h.t.Helper()
	for deadline := time.Now().Add(wait); ; {
		c := h.counts("?max_age=0")
		if c.Counts != nil && !c.Counts.CountedAt.Before(since) {
			return c
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("no count within %s: %+v", wait, c)
		}
	}
}

func createOn(id int64, day string, tag plant.Tag) store.Create {
	at, err := time.Parse(time.RFC3339Nano, day)
	if err != nil {
		panic(err)
	}
	c := create(id, "A", tag)
	c.At = at
	return c
}

func TestCounts(t *testing.T) {
	t.Parallel()
	tree, long := plant.Tagged("tree"), plant.Tagged(strings.Repeat("x", 257))
	h := start(t, setup{plants: []store.Create{
		createOn(-9, "2026-11-20T23:59:59.999999Z", tree), createOn(-8, "2026-11-21T00:00:00Z", tree),
		createOn(1, "2026-11-21T10:00:00+14:00", plant.Tagged("")), createOn(2, "1969-12-31T23:59:59.999999Z", plant.Tag{}),
		createOn(3, "1970-01-01T00:00:00Z", plant.Tag{}), createOn(4, "2026-11-21T23:59:59.999999Z", plant.Tagged("水")),
		createOn(5, "2026-11-21T23:59:59Z", tree), createOn(6, "2026-11-21T23:59:59Z", long),
	}})
	started := time.Now()
	first := h.counts("")
	if first.Running == nil || first.Counts != nil {
		t.Errorf("the first response is %+v, want a running count only", first)
	}
	got := h.counted(started).Counts
	want := map[string]any{
		"plants": int64(8), "untagged": int64(2), "other tags": int64(1), "other days": int64(0), "exact": true,
		"tags": []map[string]any{
			{"tag": "tree", "plants": 3.0}, {"tag": "", "plants": 1.0}, {"tag": "水", "plants": 1.0},
		},
		"days": []map[string]any{
			{"day": "1969-12-31", "plants": 1.0},
			{"day": "1970-01-01", "plants": 1.0},
			{"day": "2026-11-20", "plants": 2.0},
			{"day": "2026-11-21", "plants": 4.0},
		},
	}
	if diff := cmp.Diff(want, map[string]any{
		"plants": got.Plants, "untagged": got.Untagged, "other tags": got.OtherTags, "other days": got.OtherDays,
		"exact": got.Exact, "tags": got.Tags, "days": got.Days,
	}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The counts stay in memory until they are older than max_age.
func TestCountsAreKept(t *testing.T) {
	t.Parallel()
	h := start(t, setup{plants: []store.Create{create(1, "A", plant.Tag{})}})
	first := h.counted(time.Time{})
	if _, err := h.engine.Insert(t.Context(), []store.Create{create(2, "B", plant.Tag{})}); err != nil {
		t.Fatal(err)
	}
	inserted := time.Now()
	for deadline := time.Now().Add(wait); h.counts("").Running != nil; { // that counted has started
		if time.Now().After(deadline) {
			t.Fatal("the count runs on")
		}
	}
	if kept := h.counts("?max_age=86400"); kept.Running != nil || kept.Counts.CountedAt.Before(first.Counts.CountedAt) {
		t.Errorf("got %+v, want the kept counts", kept)
	}
	if got := h.counted(inserted).Counts.Plants; got != 2 {
		t.Errorf("the next count has %d plants, want 2", got)
	}
	for query, message := range map[string]string{
		"max_age=-1":       `max_age must be an integer from 0 to 31536000; got "-1"`,
		"max_age=31536001": `max_age must be an integer from 0 to 31536000; got "31536001"`,
		"max_age=1h":       `max_age must be an integer from 0 to 31536000; got "1h"`,
		"age=1":            `unknown query parameter "age"; use max_age`,
	} {
		check(t, query, h.get("/plants/counts?"+query), refused(40061, message))
	}
}

// One count runs at a time, and its progress is visible. Close ends it.
func TestCountIsAlone(t *testing.T) {
	t.Parallel()
	h, g := startGated(t)
	h.counts("?max_age=0")
	g.next <- struct{}{}
	g.next <- struct{}{} // the first plant is counted
	for range 3 {
		running := h.counts("?max_age=0").Running
		if running == nil || running.Rows < 1 || running.Total == nil || *running.Total != 0 {
			t.Errorf("got %+v, want a running count", running)
		}
	}
	h.service.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.scans > 3 {
		t.Errorf("the engine has %d scans, want at most 3 of one count", g.scans)
	}
	if _, _, err := h.service.Counts(0); err == nil || !strings.Contains(err.Error(), "shutting down") {
		t.Errorf("after Close: got %v", err)
	}
}

func TestCountFails(t *testing.T) {
	t.Parallel()
	h, g := startGated(t)
	g.err = errors.New("disk on fire")
	close(g.next)
	h.counts("")
	for deadline := time.Now().Add(wait); !strings.Contains(h.log.string(), "disk on fire"); {
		if time.Now().After(deadline) {
			t.Fatalf("the log lacks the cause:\n%s", h.log.string())
		}
	}
}
