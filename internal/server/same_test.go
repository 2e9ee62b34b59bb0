package server_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/plant"
)

// A create with the id of a stored plant changes nothing. Its response is a replay for the same content and an error
// for different content.
func TestSameID(t *testing.T) {
	t.Parallel()
	h := start(t)
	const (
		name   = "a plant with this id is stored with a different name"
		tag    = "a plant with this id is stored with a different tag"
		none   = "a plant with this id is stored with no tag"
		some   = "a plant with this id is stored with a tag"
		joined = "; "
	)
	replayed := func(body string) response { return created(body, "Idempotent-Replayed", "true") }
	for i, row := range []struct {
		name, first, again string // the members besides id
		want               response
	}{
		{"same name", `"name":"A"`, `"name":"A"`, replayed(`{"name":"A"}`)},
		{"same name and tag", `"name":"A","tag":"T"`, `"name":"A","tag":"T"`, replayed(`{"name":"A","tag":"T"}`)},
		{
			"same content in other form", `"name":"A","tag":""`, `"more":1, "tag" : "", "name":"\u0041"`,
			replayed(`{"name":"A","tag":""}`),
		},
		{"other name", `"name":"A"`, `"name":"B"`, refused(40041, name)},
		{"other case", `"name":"A"`, `"name":"a"`, refused(40041, name)},
		{"same appearance", `"name":"\u00e9"`, `"name":"e\u0301"`, refused(40041, name)},
		{"other tag", `"name":"A","tag":"T"`, `"name":"A","tag":"U"`, refused(40042, tag)},
		{"other name and tag", `"name":"A","tag":"T"`, `"name":"B","tag":"U"`, refused(40041, name+joined+tag)},
		{"tag instead of none", `"name":"A"`, `"name":"A","tag":"T"`, refused(40042, none)},
		{"empty tag instead of none", `"name":"A"`, `"name":"A","tag":""`, refused(40042, none)},
		{"no tag instead of one", `"name":"A","tag":"T"`, `"name":"A"`, refused(40042, some)},
		{"no tag instead of an empty one", `"name":"A","tag":""`, `"name":"A"`, refused(40042, some)},
		{
			"other name, and no tag instead of one", `"name":"A","tag":"T"`, `"name":""`,
			refused(40041, name+joined+some),
		},
		{
			"other name, and a tag instead of none", `"name":"A"`, `"name":"B","tag":"T"`,
			refused(40041, name+joined+none),
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h, id := h.withT(t), int64(i)
			a := h.send(post(fmt.Sprintf(`{"id":%d,%s}`, id, row.first)))
			if a.Status != 200 || a.Header["Idempotent-Replayed"] != nil {
				t.Fatalf("first: got %+v", a)
			}
			before := h.stored(id)
			for range 2 {
				same(t, h.send(post(fmt.Sprintf(`{"id":%d,%s}`, id, row.again))), row.want)
			}
			unchanged(t, before, h.stored(id))
		})
	}
}

// unchanged compares records with their creation time and creator.
func unchanged(t *testing.T, before, after plant.Record) {
	t.Helper()
	if diff := cmp.Diff(before, after, cmp.AllowUnexported(plant.Tag{})); diff != "" {
		t.Errorf("stored (-before +after):\n%s", diff)
	}
}

func TestSameIDAfterRestart(t *testing.T) {
	t.Parallel()
	const body = `{"id":1,"name":"A","tag":"T"}`
	first := start(t)
	same(t, first.send(post(body)), created(`{"name":"A","tag":"T"}`))
	before := first.stored(1)
	first.stop()

	second := start(t, func(s *setup) { s.path, s.token = first.path, first.token })
	same(t, second.send(post(body)), created(`{"name":"A","tag":"T"}`, "Idempotent-Replayed", "true"))
	same(
		t, second.send(post(`{"id":1,"name":"B","tag":"T"}`)),
		refused(40041, "a plant with this id is stored with a different name"),
	)
	unchanged(t, before, second.stored(1))
}

const clientsMax = 50

// sendConcurrently sends requests over connections that are open before the first request, and returns the responses in
// their order.
func sendConcurrently(h *harness, body func(i int) string) []response {
	responses := make([]response, clientsMax)
	var senders sync.WaitGroup
	begin := make(chan struct{})
	for i := range responses {
		c := h.dial(h.t, h.public)
		senders.Go(func() {
			<-begin
			c.write(h.fill(post(body(i))))
			var err error
			if responses[i], err = readResponse(c.reader, "POST"); err != nil {
				h.t.Errorf("response %d: %v", i, err)
			}
		})
	}
	close(begin)
	senders.Wait()
	return responses
}

func TestConcurrentReplays(t *testing.T) {
	t.Parallel()
	h := start(t)
	fresh := 0
	for _, a := range sendConcurrently(h, func(int) string { return `{"id":1,"name":"A"}` }) {
		if a.Header["Idempotent-Replayed"] == nil {
			fresh++
			same(t, a, created(`{"name":"A"}`))
		} else {
			same(t, a, created(`{"name":"A"}`, "Idempotent-Replayed", "true"))
		}
	}
	if fresh != 1 {
		t.Errorf("got %d responses without Idempotent-Replayed, want 1", fresh)
	}
}

func TestConcurrentConflicts(t *testing.T) {
	t.Parallel()
	h := start(t)
	var winners []string
	for i, a := range sendConcurrently(h, func(i int) string { return fmt.Sprintf(`{"id":1,"name":"plant %d"}`, i) }) {
		if a.Status == 200 {
			same(t, a, created(fmt.Sprintf(`{"name":"plant %d"}`, i)))
			winners = append(winners, fmt.Sprintf("plant %d", i))
		} else {
			same(t, a, refused(40041, "a plant with this id is stored with a different name"))
		}
	}
	if len(winners) != 1 || h.stored(1).Name != winners[0] {
		t.Errorf("got 200 for %q and the record %q, want one name and the same", winners, h.stored(1).Name)
	}
}
