package adminapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/webhook"
)

// kill makes URLs the webhooks of a store, creates plants, and makes their deliveries dead letters.
func kill(t *testing.T, e *sqlite.Engine, urls []string, plants ...int64) {
	t.Helper()
	ctx := t.Context()
	hooks, err := e.SetWebhooks(ctx, urls, audit.Origin{})
	if err != nil {
		t.Fatal(err)
	}
	var batch []store.Create
	for _, id := range plants {
		batch = append(batch, create(id, "Acer", plant.Tag{}))
	}
	claim := store.Claim{Most: map[int64]int{}, Lease: time.Minute}
	for _, w := range hooks {
		claim.Most[w.ID] = len(plants)
	}
	_, errInsert := e.Insert(ctx, batch)
	taken, err := e.TakeDeliveries(ctx, nil, claim)
	if err := errors.Join(errInsert, err); err != nil || len(taken) != len(urls)*len(plants) {
		t.Fatalf("%d deliveries, %v", len(taken), err)
	}
	var dead []store.DeliveryResult
	for _, d := range taken {
		dead = append(dead, store.DeliveryResult{
			Webhook: d.Webhook, Plant: d.Plant.ID, Since: d.Since, Lease: d.Lease, Dead: true, Attempts: 3, Reason: "status 503",
		})
	}
	if _, err := e.TakeDeliveries(ctx, dead, store.Claim{}); err != nil {
		t.Fatal(err)
	}
}

// TestWebhooks lists webhooks in pages, with the deliveries of this server.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 22, 9, 30, 0, 0, time.UTC)
	h := start(t, setup{deliveries: map[int64]webhook.Status{1: {
		DeliveredAt: at, FailedAt: at.Add(time.Second), Reason: "status 503", Failures: 2, PausedUntil: at,
	}}})
	check(t, "none", h.get("/webhooks?limit=1").withoutTime(t), ok(`{"webhooks":[]}`))
	kill(t, h.engine, []string{"https://a.example/e?key=secret", "https://b.example"}, 7, 8)
	if _, err := h.engine.SetWebhooks(t.Context(), []string{"https://a.example/e?key=secret", "https://c.example"},
		audit.Origin{}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.engine.Insert(t.Context(), []store.Create{create(9, "Acer", plant.Tag{})}); err != nil {
		t.Fatal(err)
	}
	// Another change of the API lets the next list count again.
	check(t, "no such plant", h.post("/webhooks/dead-letters/drop", `{"plant_id":1}`), changed(0, false))
	first := `{"id":1,"address":"https://a.example/e","active":true,"pending_events":1,` +
		`"oldest_event_at":"2026-11-21T09:30:00.123456Z","dead_letters":2,"deliveries":{` +
		`"delivered_at":"2026-11-22T09:30:00Z","failed_at":"2026-11-22T09:30:01Z","reason":"status 503","failures":2,` +
		`"gone":false}}`
	rest := `{"id":2,"address":"https://b.example","active":false,"pending_events":0,"dead_letters":2},` +
		`{"id":3,"address":"https://c.example","active":true,"pending_events":1,` +
		`"oldest_event_at":"2026-11-21T09:30:00.123456Z","dead_letters":0}`
	check(t, "all", h.get("/webhooks").withoutTime(t), ok(`{"webhooks":[`+first+`,`+rest+`]}`))
	check(t, "first page", h.get("/webhooks?limit=1").withoutTime(t),
		ok(`{"webhooks":[`+first+`],"next":"AQAAAAAAAAAC"}`))
	check(t, "second page", h.get("/webhooks?cursor=AQAAAAAAAAAC").withoutTime(t), ok(`{"webhooks":[`+rest+`]}`))
	check(t, "parameter", h.get("/webhooks?limit=0"), refused(40061, `limit must be an integer from 1 to 1000; got "0"`))
}

// withoutTime removes the time of the count of a list of webhooks.
func (r response) withoutTime(t *testing.T) response {
	t.Helper()
	var page struct {
		CountedAt time.Time `json:"counted_at"`
	}
	err := json.Unmarshal([]byte(r.body), &page)
	if err != nil || time.Since(page.CountedAt).Abs() > time.Minute {
		t.Errorf("counted_at %v, %v: %s", page.CountedAt, err, r.body)
	}
	_, rest, _ := strings.Cut(r.body, `,`)
	r.body = "{" + rest
	return r
}

// changed is the response to a change of dead letters.
func changed(n int, more bool) response {
	return ok(fmt.Sprintf(`{"dead_letters":%d,"more":%t}`, n, more))
}

// TestDeadLetters lists dead letters in pages, and retries and drops them.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	const letters = "/webhooks/dead-letters"
	check(t, "none", h.get(letters), ok(`{"dead_letters":[]}`))
	kill(t, h.engine, []string{"https://a.example/e?key=secret", "https://b.example"}, -9, 7)
	var found []string
	for cursor := ""; ; {
		got := h.get(letters + "?limit=1" + cursor)
		var page admin.DeadLetterPage
		if err := json.Unmarshal([]byte(got.body), &page); err != nil || len(page.DeadLetters) != 1 {
			t.Fatalf("%+v: %v", got, err)
		}
		d := page.DeadLetters[0]
		if d.Attempts != 3 || d.Reason != "status 503" || !d.Since.Equal(createdAt) || d.DeadAt.IsZero() {
			t.Errorf("got %+v", d)
		}
		found = append(found, d.Address)
		if cursor = "&cursor=" + page.Next; page.Next == "" {
			break
		}
	}
	const a, b = "https://a.example/e ", "https://b.example "
	if got := strings.Join(found, " ") + " "; got != a+a+b+b {
		t.Errorf("got the addresses %s", got)
	}
	check(t, "retry one", h.post(letters+"/retry", `{"webhook_id":1,"plant_id":-9}`), changed(1, false))
	check(t, "again", h.post(letters+"/retry", `{"webhook_id":1,"plant_id":-9}`), changed(0, false))
	check(t, "drop of a plant", h.post(letters+"/drop", `{"plant_id":7}`), changed(2, false))
	check(t, "drop of a webhook", h.post(letters+"/drop", `{"webhook_id":1}`), changed(0, false))
	check(t, "retry all", h.post(letters+"/retry", `{"all":true}`), changed(1, false))
	if got, _ := h.sequencesOf("actor=operator"); len(got) != 3 { // only for changes that changed something
		t.Errorf("got %d entries in the audit log", len(got))
	}
	const selection = "send webhook_id, plant_id or both, or all with the value true alone"
	for body, want := range map[string]response{
		``:                            refused(40001, "the body is empty; send a JSON object"),
		`{}`:                          refused(40062, selection),
		`{"all":false}`:               refused(40062, selection),
		`{"all":true,"plant_id":1}`:   refused(40062, selection),
		`{"webhook_id":0}`:            refused(40062, "webhook_id must be at least 1; got 0"),
		`{"plant_id":"7"}`:            refused(40062, `plant_id must be a 64-bit integer; got "7"`),
		`{"plant":7}`:                 refused(40062, `unknown member "plant"; use all, plant_id, webhook_id`),
		`{"plant_id":1,"plant_id":2}`: refused(40006, "member plant_id occurs twice; send it once"),
	} {
		check(t, body, h.post(letters+"/drop", body), want)
	}
	for _, cursor := range []string{"AQ", "x", "AQAAAAAAAAAB"} {
		if got := h.get(letters + "?cursor=" + cursor); got.status != http.StatusBadRequest {
			t.Errorf("cursor %s: got %+v", cursor, got)
		}
	}
}

// TestManyDeadLetters changes at most store.ChangeMax dead letters in a request.
func TestManyDeadLetters(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	var ids []int64
	for id := range int64(store.ChangeMax + 1) {
		ids = append(ids, id)
	}
	kill(t, h.engine, []string{"https://a.example"}, ids...)
	check(t, "first", h.post("/webhooks/dead-letters/drop", `{"all":true}`), changed(store.ChangeMax, true))
	check(t, "second", h.post("/webhooks/dead-letters/drop", `{"all":true}`), changed(1, false))
}
