package adminapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite/sqlitetest"
	"plantstore/internal/store"
)

const created = `"created_at":"2026-11-21T09:30:00.123456Z"`

func TestGetPlant(t *testing.T) {
	t.Parallel()
	byReader := create(42, "Acer <campestre> \"水\"", plant.Tagged("tree"))
	byReader.By = 1
	h := start(t, setup{plants: []store.Create{
		byReader, create(math.MinInt64, "", plant.Tagged("")), create(math.MaxInt64, "last", plant.Tag{}),
	}})
	acer := ok(`{"id":42,"name":"Acer <campestre> \"水\"","tag":"tree",` + created + `,"created_by":"reader"}`)
	for target, want := range map[string]response{
		"/plants/42":                   acer,
		"/plants/-9223372036854775808": ok(`{"id":-9223372036854775808,"name":"","tag":"",` + created + `}`),
		"/plants/9223372036854775807":  ok(`{"id":9223372036854775807,"name":"last",` + created + `}`),
		"/plants/%34%32":               acer,
		"/plants/43":                   refused(40402, "the store has no plant with the id 43"),
		"/plants/9223372036854775808":  badID("9223372036854775808"),
		"/plants/1.0":                  badID("1.0"),
		"/plants/x%22":                 badID(`x\"`),
		"/plants/42?id=1":              refused(40061, `the path has no query parameters; got "id"`),
	} {
		check(t, target, h.get(target), want)
	}
}

// TestDamagedPlant damages a row: the API never returns its content, and every page and search that could have the
// plant marks it. The others are as before.
func TestDamagedPlant(t *testing.T) {
	t.Parallel()
	h := start(t, setup{plants: []store.Create{
		create(1, "Acer", plant.Tagged("tree")), create(2, "Acer", plant.Tagged("tree")), create(3, "Rosa", plant.Tag{}),
		create(4, "Acer", plant.Tagged("tree")),
	}})
	sqlitetest.Exec(t, h.path, "UPDATE plants SET name = 'Aces', tag = NULL WHERE id = 2")
	check(t, "get", h.get("/plants/2"),
		refused(50002, "plant 2 is damaged in the store; the operator can restore it from a backup"))
	acer := func(id int) string { return fmt.Sprintf(`{"id":%d,"name":"Acer","tag":"tree",%s}`, id, created) }
	const damaged, rosa = `{"id":2,"damaged":true}`, `{"id":3,"name":"Rosa",` + created + `}`
	for query, want := range map[string][]string{
		"":                    {acer(1), damaged, rosa, acer(4)},
		"?name=acer":          {acer(1), damaged, acer(4)},
		"?tag=tree":           {acer(1), damaged, acer(4)},
		"?tag=none":           {damaged},
		"?name=rosa":          {damaged, rosa},
		"?name=acer&tag=tree": {acer(1), damaged, acer(4)},
		"?name=acer&after=2":  {acer(4)},
	} {
		check(t, query, h.get("/plants"+query), ok(`{"plants":[`+strings.Join(want, ",")+`]}`))
	}
	if ids, end := h.search("tag=tree&limit=2"); !slices.Equal(ids, []int64{1, 2}) || end.Reason != "limit" {
		t.Errorf("search: %v, %+v", ids, end)
	}
	c := h.counted(time.Now()).Counts
	if c.Plants != 4 || c.Untagged != 1 || c.OtherTags != 1 || c.OtherDays != 1 {
		t.Errorf("counts: %+v", *c)
	}
}

func badID(id string) response {
	return refused(40061, `the id in the path must be a 64-bit integer; got "`+id+`"`)
}

// refused returns an error response.
func refused(code int, message string) response {
	text := strings.ReplaceAll(strings.ReplaceAll(message, `\`, `\\`), `"`, `\"`)
	return response{code / 100, "application/json", fmt.Sprintf(`{"error":%d,"message":"%s"}`+"\n", code, text)}
}

func check(t *testing.T, name string, got, want response) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(response{})); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// page is the body of a page.
type page struct {
	Plants []struct{ ID int64 }
	Next   string
}

// pages returns the ids of every page of a query.
func (h *harness) pages(query url.Values) (pages [][]int64) {
	h.t.Helper()
	for {
		var p page
		r := h.get("/plants?" + query.Encode())
		if err := json.Unmarshal([]byte(r.body), &p); err != nil || r.status != http.StatusOK {
			h.t.Fatalf("%+v: %v", r, err)
		}
		ids := []int64{}
		for _, r := range p.Plants {
			ids = append(ids, r.ID)
		}
		pages = append(pages, ids)
		if p.Next == "" {
			return pages
		}
		query.Set("cursor", p.Next)
	}
}

func TestListPlants(t *testing.T) {
	t.Parallel()
	h := start(t, setup{plants: []store.Create{
		create(math.MinInt64, "a", plant.Tagged("tree")), create(-1, "b", plant.Tag{}), create(0, "c", plant.Tagged("")),
		create(7, "d", plant.Tagged("tree")), create(8, "e", plant.Tagged("Tree")),
		create(math.MaxInt64, "f", plant.Tagged("tree")),
	}})
	check(t, "the first page", h.get("/plants?limit=2"), ok(
		`{"plants":[{"id":-9223372036854775808,"name":"a","tag":"tree",`+created+`},`+
			`{"id":-1,"name":"b",`+created+`}],"next":"AQAAAAAAAAAA"}`))
	all := []int64{math.MinInt64, -1, 0, 7, 8, math.MaxInt64}
	for query, want := range map[string][][]int64{
		"":                      {all},
		"limit=6":               {all},
		"limit=4":               {all[:4], all[4:]},
		"limit=5":               {all[:5], all[5:]},
		"tag=tree":              {{math.MinInt64, 7, math.MaxInt64}},
		"tag=tree&limit=2":      {{math.MinInt64, 7}, {math.MaxInt64}},
		"tag=tree&limit=3":      {{math.MinInt64, 7, math.MaxInt64}},
		"tag=":                  {{0}},
		"tag=tre":               {{}},
		"name=A&tag=tree":       {{math.MinInt64}},
		"name=d&limit=1":        {{7}, {}},
		"name=&limit=6":         {all},
		"tag=none":              {{}},
		"cursor=AQAAAAAAAAAH":   {all[3:]},
		"cursor=AX__________":   {all[5:]},
		"tag=%00&limit=1":       {{}},
		"limit=1&tag=%54%72ee":  {{8}, {}},
		"limit=1000&tag=Tr%65e": {{8}},
	} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, h.pages(values)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", query, diff)
		}
	}
}

func TestListPlantsOfEmptyStore(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	check(t, "all", h.get("/plants"), ok(`{"plants":[]}`))
	check(t, "tag", h.get("/plants?tag=tree"), ok(`{"plants":[]}`))
}

func TestListPlantsRefuses(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	const badCursor = "cursor must be the next of an earlier page; send the request without it for the first page"
	for query, message := range map[string]string{
		"limit=0":               `limit must be an integer from 1 to 1000; got "0"`,
		"limit=1001":            `limit must be an integer from 1 to 1000; got "1001"`,
		"limit=":                `limit must be an integer from 1 to 1000; got ""`,
		"limit=1e2":             `limit must be an integer from 1 to 1000; got "1e2"`,
		"limit=1&limit=1":       "query parameter limit occurs 2 times; send it once",
		"offset=3":              `unknown query parameter "offset"; use limit, cursor, name, tag, after`,
		"tag=%ff":               "query parameter tag must be UTF-8 with percent-encoding",
		"a;b":                   "the query is not of the form name=value&name=value with percent-encoding",
		"cursor=":               "cursor is empty; omit it for the first page",
		"cursor=x":              badCursor,
		"cursor=AgAAAAAAAAAH":   badCursor, // another version
		"cursor=AQAAAAAAAAAHAA": badCursor,
		"cursor=AQAAAAAAAAA%3D": badCursor,
	} {
		check(t, query, h.get("/plants?"+query), refused(40061, message))
	}
	secret := "pst_" + strings.Repeat("a", 49)
	if got := h.get("/plants?" + secret + "=1").body; strings.Contains(got, secret) {
		t.Errorf("the response has the secret: %s", got)
	}
}

// failing is an engine whose reads of plants fail.
type failing struct {
	admin.Engine
	err error
}

func (f failing) Get(context.Context, int64) (plant.Record, error) { return plant.Record{}, f.err }

func (f failing) CreateToken(context.Context, auth.Token, audit.Origin) (int64, error) {
	return 0, f.err
}

func (f failing) List(context.Context, store.Query) ([]plant.Record, error) { return nil, f.err }

func (f failing) Scan(context.Context, int64, int, func(*store.Scanned)) (int64, bool, error) {
	return 0, false, f.err
}

func TestUnreadableStore(t *testing.T) {
	t.Parallel()
	h := start(t, setup{wrap: func(e admin.Engine) admin.Engine { return failing{e, errors.New("disk on fire")} }})
	for _, target := range []string{"/plants/1", "/plants", "/plants?tag=tree"} {
		check(t, target, h.get(target),
			refused(50304, "the server could not read the store; send the request again"))
	}
	if got := strings.Count(h.log.string(), `msg="read for the operator failed" error="disk on fire"`); got != 3 {
		t.Errorf("the log has the cause %d times, want 3:\n%s", got, h.log.string())
	}
}

// waiting is an engine whose reads of plants wait for the end of their context.
type waiting struct {
	admin.Engine
	started chan struct{}
}

func (w waiting) Get(ctx context.Context, _ int64) (plant.Record, error) {
	close(w.started)
	<-ctx.Done()
	return plant.Record{}, ctx.Err()
}

// Close ends the running operations before it returns, and refuses further ones.
func TestClose(t *testing.T) {
	t.Parallel()
	started := make(chan struct{})
	h := start(t, setup{wrap: func(e admin.Engine) admin.Engine { return waiting{e, started} }})
	ended := make(chan response, 1)
	go func() { ended <- h.get("/plants/1") }() // the test waits for it below
	<-started
	h.service.Close()
	check(t, "running", <-ended, refused(50304, "the server could not read the store; send the request again"))
	if strings.Contains(h.log.string(), "read for the operator failed") {
		t.Errorf("the log has the end of the operation:\n%s", h.log.string())
	}
	for _, target := range []string{"/plants/1", "/plants"} {
		check(t, target, h.get(target), refused(50302, "the server is shutting down; send the request again"))
	}
}
