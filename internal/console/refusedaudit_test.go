package console_test

import (
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

// refusedSignIns are the entries of one actor about refused sign-ins.
type refusedSignIns struct {
	Actor     audit.Actor
	Address   string
	RequestID string // the last sign-in's
	Count     int
}

// The audit log has the refused sign-ins: those with an unknown credential have no actor, and those of a token without
// the scopes of the console have the token.
func TestRefusedSignInsInAudit(t *testing.T) {
	t.Parallel()
	began := time.Now().Truncate(time.Second)
	h := start(t)
	metrics := h.mint("prometheus", auth.ScopeMetrics)
	last := map[string]string{} // request by name of the token
	for _, row := range []struct {
		name, credential string
		status           int
	}{
		{"", auth.Mint(), 401},
		{"prometheus", metrics, 403},
		{"", "x", 401},
		{"prometheus", metrics, 403},
		{"", auth.Mint(), 401},
	} {
		res := (&client{h: h}).post("/sign-in", url.Values{"credential": {row.credential}})
		if last[row.name] = res.Header.Get("X-Request-Id"); res.status != row.status || last[row.name] == "" {
			t.Errorf("%s: got %d, request %q", row.name, res.status, last[row.name])
		}
	}
	h.down()
	h.audited()
	got := h.refusedSignIns(began)
	want := map[string]refusedSignIns{
		"":           {audit.Actor{Kind: audit.Token}, "127.0.0.1", last[""], 3},
		"prometheus": {audit.Actor{Kind: audit.Token, Name: "prometheus"}, "127.0.0.1", last["prometheus"], 2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// refusedSignIns returns the entries about refused sign-ins by name of the token, without its id.
func (h *harness) refusedSignIns(began time.Time) map[string]refusedSignIns {
	h.t.Helper()
	rows, err := h.engine.AuditRows(h.t.Context(), 0, 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	all := map[string]refusedSignIns{}
	for _, row := range rows {
		e, err := row.Entry()
		if err != nil {
			h.t.Fatal(err)
		}
		if e.Action != audit.SignInRefused {
			continue
		}
		count := 1 // the first one
		if len(e.Details) == 3 && e.Details[1].Key == "count" && e.Details[2].Key == "since" {
			var errCount error
			count, errCount = strconv.Atoi(e.Details[1].Value)
			since, err := time.Parse(audit.TimeFormat, e.Details[2].Value)
			if errCount != nil || err != nil || since.Before(began) || since.After(e.Time) {
				h.t.Errorf("details: got %+v at %s, want a count, and a time from %s on", e.Details, e.Time, began)
			}
		} else if len(e.Details) != 1 || e.Details[0] != (audit.Detail{Key: "console", Value: "token"}) {
			h.t.Fatalf("details: got %+v", e.Details)
		}
		if (e.Actor.ID == "") != (e.Actor.Name == "") {
			h.t.Errorf("actor: got %+v, want an id for a name", e.Actor)
		}
		e.Actor.ID = ""
		count += all[e.Actor.Name].Count // an entry each minute
		all[e.Actor.Name] = refusedSignIns{e.Actor, e.Address, e.RequestID, count}
	}
	return all
}

// A reader that downloads again and again does not fill the audit log: it has the first export, and an entry each
// minute with the number of the others and their plants.
func TestExportsAreCollected(t *testing.T) {
	t.Parallel()
	h := start(t, stored(1, "Rosa", plant.Tag{}))
	c := h.signIn(h.mint("reader", auth.ScopeRead))
	const exports = 50
	for range exports {
		c.get("/plants/export?format=csv").want(t, 200, "1,Rosa")
	}
	h.down()
	h.audited()
	rows, err := h.engine.AuditRows(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	entries, sums := 0, map[string]int{}
	for _, row := range rows {
		e, err := row.Entry()
		if err != nil || e.Action != audit.PlantsExport {
			continue
		}
		entries++
		for _, d := range e.Details {
			if n, err := strconv.Atoi(d.Value); err == nil {
				sums[d.Key] += n
			}
		}
	}
	want := map[string]int{"count": exports - 1, "plants": exports}
	if diff := cmp.Diff(want, sums); diff != "" || entries < 2 || entries > 10 { // two, or more after minutes
		t.Errorf("got %d entries, -want +got:\n%s", entries, diff)
	}
}
