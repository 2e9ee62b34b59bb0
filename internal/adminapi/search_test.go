package adminapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/admin"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/server"
	"plantstore/internal/store"
)

// line is a line of a search.
type line struct {
	Type   string
	Plant  struct{ ID int64 }
	Rows   int64
	Total  *int64
	Reason string
	Hits   int64
	Next   string
}

func parseLine(t testing.TB, text string) (l line) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return l
}

// search returns the ids of the hits and the end of a search.
func (h *harness) search(query string) (ids []int64, end line) {
	h.t.Helper()
	r := h.get("/plants/search?" + query)
	if r.status != http.StatusOK || r.contentType != ndjson {
		h.t.Fatalf("%s: got %+v", query, r)
	}
	for text := range strings.Lines(r.body) {
		switch l := parseLine(h.t, text); l.Type {
		case "hit":
			ids = append(ids, l.Plant.ID)
		case "end":
			end = l
		}
	}
	return ids, end
}

func TestSearch(t *testing.T) {
	t.Parallel()
	h := start(t, setup{plants: []store.Create{
		create(math.MinInt64, "Acer CAMPESTRE", plant.Tagged("tree")), create(-1, "Straße", plant.Tag{}),
		create(0, "水仙", plant.Tagged("")), create(7, "acer rubrum", plant.Tagged("Tree")),
		create(math.MaxInt64, "Ácer <b>", plant.Tagged("tree")),
	}})
	for query, want := range map[string][]int64{
		"name=aCER":             {math.MinInt64, 7},
		"name=%C3%81CER":        {math.MaxInt64},
		"name=STRASSE":          {-1},
		"name=%E4%BB%99":        {0},
		"name=":                 {math.MinInt64, -1, 0, 7, math.MaxInt64},
		"name=rosa":             nil,
		"tag=tree":              {math.MinInt64, math.MaxInt64},
		"tag=":                  {0},
		"name=acer&tag=Tree":    {7},
		"name=%3Cb%3E&tag=tree": {math.MaxInt64},
		"name=a&tag=none":       nil,
		"name=%00":              nil,
	} {
		ids, end := h.search(query)
		if diff := cmp.Diff(want, ids); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
		if diff := cmp.Diff(line{Type: "end", Reason: "complete", Rows: 5, Hits: int64(len(want))}, end); diff != "" {
			t.Errorf("%s: end (-want +got):\n%s", query, diff)
		}
	}
	got := h.get("/plants/search?name=rub")
	took := got.body[strings.Index(got.body, `"took_ms":`):]
	check(t, "whole response", got, response{200, ndjson, `{"type":"progress","rows":0,"total":5}
{"type":"hit","plant":{"id":7,"name":"acer rubrum","tag":"Tree",` + created + `}}
{"type":"end","reason":"complete","hits":1,"rows":5,` + took})
}

func TestSearchLimit(t *testing.T) {
	t.Parallel()
	var plants []store.Create
	for id := range int64(5000) {
		plants = append(plants, create(id, fmt.Sprint("plant ", id), plant.Tag{}))
	}
	h := start(t, setup{plants: plants})
	ids, end := h.search("name=plant&limit=3000")
	if len(ids) != 3000 || ids[2999] != 2999 || end.Reason != "limit" || end.Hits != 3000 {
		t.Errorf("got %d hits and %+v", len(ids), end)
	}
	rest, last := h.search("name=plant&limit=3000&cursor=" + end.Next)
	if len(rest) != 2000 || rest[0] != 3000 || last.Reason != "complete" || last.Next != "" || last.Rows != 2000 {
		t.Errorf("got %d further hits and %+v", len(rest), last)
	}
	if ids, end = h.search("name=PLANT+4999&limit=1"); len(ids) != 1 || end.Reason != "limit" || end.Rows != 5000 {
		t.Errorf("got %v, %+v", ids, end)
	}
}

func TestSearchRefuses(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	for query, message := range map[string]string{
		"":                    "the search needs name, a part of the name, or tag",
		"limit=1":             "the search needs name, a part of the name, or tag",
		"name=a&limit=10001":  `limit must be an integer from 1 to 10000; got "10001"`,
		"name=a&limit=-1":     `limit must be an integer from 1 to 10000; got "-1"`,
		"name=a&cursor=%2B":   "cursor must be the next of an earlier page; send the request without it for the first page",
		"name=%ff":            "query parameter name must be UTF-8 with percent-encoding",
		"name=a&name=b":       "query parameter name occurs 2 times; send it once",
		"q=a":                 `unknown query parameter "q"; use name, tag, limit, cursor`,
		"name=a&cursor=&x":    "",
		"name=a&cursor=":      "cursor is empty; omit it for the first page",
		"name=a&limit=1;tag=": "the query is not of the form name=value&name=value with percent-encoding",
	} {
		if message != "" {
			check(t, query, h.get("/plants/search?"+query), refused(40061, message))
		} else if got := h.get("/plants/search?" + query).status; got != http.StatusBadRequest {
			t.Errorf("%s: got %d, want 400", query, got)
		}
	}
}

func TestSearchHead(t *testing.T) {
	t.Parallel()
	h := start(t, setup{wrap: func(e admin.Engine) admin.Engine { return failing{e, errors.New("not to be read")} }})
	res := h.open(http.MethodHead, "/plants/search?name=a")
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != ndjson {
		t.Errorf("got %d, %v", res.StatusCode, res.Header)
	}
}

// gated is an engine whose scans have one plant for each value of next.
type gated struct {
	admin.Engine
	next chan struct{}
	err  error // ends a scan after next is closed

	mu    sync.Mutex
	scans int // calls; guarded by mu
}

func (g *gated) Scan(
	ctx context.Context, from int64, _ int, visit func(*store.Scanned),
) (next int64, more bool, err error) {
	g.mu.Lock()
	g.scans++
	g.mu.Unlock()
	select {
	case _, ok := <-g.next:
		if !ok {
			return from, false, g.err
		}
		id := max(from, 1)
		visit(&store.Scanned{ID: id, Name: []byte("Acer")})
		return id + 1, true, nil
	case <-ctx.Done():
		return from, false, ctx.Err()
	}
}

func (g *gated) List(ctx context.Context, q store.Query) ([]plant.Record, error) {
	if q.From < 1 {
		return g.Engine.List(ctx, q)
	}
	return []plant.Record{{NewPlant: plant.NewPlant{ID: q.From}, CreatedAt: createdAt}}, nil
}

func startGated(t *testing.T) (*harness, *gated) {
	t.Helper()
	g := &gated{next: make(chan struct{})}
	h := start(t, setup{wrap: func(e admin.Engine) admin.Engine {
		g.Engine = e
		return g
	}})
	return h, g
}

// A client receives each hit when it is found.
func TestSearchStreams(t *testing.T) {
	t.Parallel()
	h, g := startGated(t)
	res := h.open(http.MethodGet, "/plants/search?name=acer")
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	next := func() line {
		t.Helper()
		for lines.Scan() {
			if l := parseLine(t, lines.Text()); l.Type != "progress" || l.Rows == 0 {
				return l
			}
		}
		t.Fatalf("no line: %v", lines.Err())
		return line{}
	}
	if first := next(); first.Type != "progress" || first.Total == nil || *first.Total != 0 {
		t.Errorf("the first line is %+v", first)
	}
	for id := range int64(3) {
		g.next <- struct{}{}
		l := next()
		for l.Type == "progress" {
			l = next()
		}
		if l.Type != "hit" || l.Plant.ID != id+1 {
			t.Errorf("got %+v, want the plant %d", l, id+1)
		}
	}
	close(g.next)
	l := next()
	for l.Type == "progress" {
		l = next()
	}
	if diff := cmp.Diff(line{Type: "end", Reason: "complete", Rows: 3, Hits: 3}, l); diff != "" {
		t.Error(diff)
	}
}

// A search ends when its client disconnects, and releases its place.
func TestSearchEndsWithItsClient(t *testing.T) {
	t.Parallel()
	h, g := startGated(t)
	other := h.mint("other", auth.ScopeRead)
	var bodies []io.Closer
	for i := range 4 { // two for each credential
		header := "Authorization: Bearer " + []string{h.secret, other}[i/2]
		res := h.send(http.MethodGet, "/plants/search?name=acer", "", header) //nolint:bodyclose // closed below
		bodies = append(bodies, res.Body)
	}
	many := refused(42903, "this credential runs 2 searches, exports or pages of plants already; wait for the end of one")
	check(t, "a third search", h.get("/plants/search?name=acer"), many)
	h.secret = h.mint("third", auth.ScopeRead)
	busy := refused(50307, "too many searches run at the same time; send the request again")
	check(t, "a fifth search", h.get("/plants/search?name=acer"), busy)
	check(t, "a page of a tag", h.get("/plants?tag=tree"), busy)
	if got := h.open(http.MethodGet, "/plants/search?name=acer"); got.Header.Get("Retry-After") != "1" {
		t.Errorf("got the headers %v", got.Header)
	} else {
		_ = got.Body.Close()
	}
	check(t, "another read", h.get("/plants?limit=1"), ok(`{"plants":[]}`))
	for _, body := range bodies {
		_ = body.Close()
	}
	close(g.next)
	for deadline := time.Now().Add(wait); h.get("/plants/search?name=acer").status == http.StatusServiceUnavailable; {
		if time.Now().After(deadline) { // the server notices the disconnects after a while
			t.Fatal("no search has ended")
		}
	}
	if ids, end := h.search("name=acer"); len(ids) != 0 || end.Reason != "complete" {
		t.Errorf("got %v, %+v", ids, end)
	}
}

func TestSearchFails(t *testing.T) {
	t.Parallel()
	h, g := startGated(t)
	g.err = errors.New("disk on fire")
	close(g.next)
	if _, end := h.search("name=acer"); end.Reason != "failed" || end.Next == "" {
		t.Errorf("got %+v", end)
	}
	check(t, "a page of a tag", h.get("/plants?tag=tree"),
		refused(50304, "the server could not read the store; send the request again"))
	if got := strings.Count(h.log.string(), `msg="read for the operator failed" error="disk on fire"`); got != 2 {
		t.Errorf("the log has the cause %d times, want 2:\n%s", got, h.log.string())
	}
}

func TestSearchEndsWithTheService(t *testing.T) {
	t.Parallel()
	h, g := startGated(t)
	res := h.open(http.MethodGet, "/plants/search?name=acer")
	defer res.Body.Close()
	g.next <- struct{}{}
	h.service.Close()
	lines, last := bufio.NewScanner(res.Body), ""
	for lines.Scan() {
		last = lines.Text()
	}
	if end := parseLine(t, last); end.Type != "end" || end.Reason != "shutting-down" || end.Next != "AQAAAAAAAAAC" {
		t.Errorf("the last line is %s", last)
	}
	check(t, "another search", h.get("/plants/search?name=acer"),
		refused(50302, "the server is shutting down; send the request again"))
}

// A search ends when its client does not read the lines.
func TestSearchOfStalledClient(t *testing.T) {
	t.Parallel()
	var plants []store.Create
	for id := range int64(6) { // together more than the buffers of a connection
		plants = append(plants, create(id, strings.Repeat("x", store.PlantsBytes), plant.Tag{}))
	}
	h := start(t, setup{plants: plants})
	h.api.SetPartTime(100 * time.Millisecond)
	res := h.open(http.MethodGet, "/plants/search?name=x")
	defer res.Body.Close()
	for deadline := time.Now().Add(wait); !strings.Contains(h.log.string(), "path=/api/v1/plants/search"); {
		if time.Now().After(deadline) {
			t.Fatal("the search has not ended")
		}
	}
	if _, err := io.Copy(io.Discard, res.Body); err == nil {
		t.Error("the client received a complete response")
	}
}

// The response to a client that disconnects before the first line has a status, for the log and the metrics.
func TestSearchOfLostClient(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/plants/search", http.NoBody)
	for {
		w := statusWriter{ResponseWriter: httptest.NewRecorder()}
		err := h.api.SendSearch(&server.Call{Request: r, ResponseWriter: &w}, admin.SearchQuery{Limit: 1})
		if err != nil { // the search found no place before the end of the context
			continue
		}
		if w.status != http.StatusOK {
			t.Errorf("got the status %d", w.status)
		}
		return
	}
}

// statusWriter keeps the status of a response; 0 without one.
type statusWriter struct {
	http.ResponseWriter

	status int
}

func (w *statusWriter) WriteHeader(status int) { w.status = status }
