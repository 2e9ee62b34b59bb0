package server_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
)

// TestRefusedScopeIsRecorded sends requests with a token that lacks the scope, with a valid token, and with no token.
func TestRefusedScopeIsRecorded(t *testing.T) {
	t.Parallel()
	var events []audit.Event
	appended := func(_ context.Context, more ...audit.Event) error {
		events = append(events, more...)
		return nil
	}
	recorder := audit.NewRecorder(appended, slog.New(slog.DiscardHandler))
	h := start(t, func(s *setup) { s.recorder = recorder })
	reader, err := auth.ParseScopes("plants:read")
	if err != nil {
		t.Fatal(err)
	}
	secret := mint(t, h.engine, auth.Token{Name: "reader", Scopes: reader})
	const post, body = "POST /plants HTTP/1.1", `{"id": 1, "name": "Rosa"}`
	for _, request := range []struct {
		id, secret string
		want       int
	}{
		{"first", secret, 403},
		{"second", secret, 403},
		{"last", secret, 403},
		{"valid", h.token, 200},
		{"unknown", auth.Mint(), 401},
	} {
		got := h.send(message(post, body, "Authorization: Bearer "+request.secret, "X-Request-Id: "+request.id,
			"Content-Type: application/json"))
		if got.Status != request.want {
			t.Errorf("%s: status %d, want %d", request.id, got.Status, request.want)
		}
	}
	h.stop()
	recorder.Close()
	refused := func(id string, count ...audit.Detail) audit.Event {
		return audit.Event{
			Action: audit.ScopeRefused,
			Origin: audit.Origin{
				Actor:   audit.Actor{Kind: audit.Token, ID: "3", Name: "reader"},
				Address: "127.0.0.1", RequestID: id,
			},
			Details: append([]audit.Detail{{Key: "scope", Value: "plants:create"}}, count...),
		}
	}
	want := []audit.Event{refused("first"), refused("last", audit.Detail{Key: "count", Value: "2"})}
	ignored := cmpopts.IgnoreFields(audit.Event{}, "Time")
	since := cmpopts.IgnoreSliceElements(func(d audit.Detail) bool { return d.Key == "since" })
	if diff := cmp.Diff(want, events, ignored, since); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestSignInIsRecorded uses credentials on the admin listener, several times and for routes without a scope.
func TestSignInIsRecorded(t *testing.T) {
	t.Parallel()
	var events []string
	appended := func(_ context.Context, more ...audit.Event) error {
		for _, e := range more {
			events = append(events, string(e.Action)+" "+e.Actor.Name+" "+e.Address+" "+e.RequestID)
		}
		return nil
	}
	recorder := audit.NewRecorder(appended, slog.New(slog.DiscardHandler))
	h := start(t, func(s *setup) { s.recorder = recorder })
	scraper := mint(t, h.engine, auth.Token{Name: "scraper", Scopes: auth.ScopeMetrics})
	for _, request := range []struct {
		id, path, secret string
		want             int
	}{
		{"open", "/livez", scraper, 200},
		{"first", "/metrics", scraper, 200},
		{"again", "/metrics", scraper, 200},
		{"unknown", "/metrics", auth.Mint(), 401},
		{"scope", "/metrics", h.token, 403},
	} {
		got := h.sendTo(h.admin, message("GET "+request.path+" HTTP/1.1", "", "Authorization: Bearer "+request.secret,
			"X-Request-Id: "+request.id))
		if got.Status != request.want {
			t.Errorf("%s: status %d, want %d", request.id, got.Status, request.want)
		}
	}
	h.stop()
	recorder.Close()
	want := []string{"admin.sign_in scraper 127.0.0.1 first", "scope.refused gardener 127.0.0.1 scope"}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}
