package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

func testCreateToken(t *testing.T, s Store) {
	e := s.Open(t)
	a := token("a", createdAt)
	a.Scopes = scopesOf(t, "plants:create plants:read admin")
	a.ExpiresAt = createdAt.Add(time.Hour)
	a = mustCreateToken(t, e, a)
	b := token("b", createdAt)
	b.Prefix = ""
	b = mustCreateToken(t, e, b)
	_, err := e.CreateToken(t.Context(), token("a", createdAt.Add(time.Hour-1)), operator)
	if !errors.Is(err, store.ErrNameTaken) {
		t.Errorf("a second valid token of the name: %v, want %v", err, store.ErrNameTaken)
	}
	later := mustCreateToken(t, e, token("a", createdAt.Add(time.Hour))) // the first has expired
	mustClose(t, e)

	e = open(t, s)
	equal(t, "tokens", mustTokens(t, e), []auth.Token{a, b, later})
	if a.ID == b.ID || b.ID == later.ID || a.ID == 0 {
		t.Errorf("ids %d, %d, %d: want different ones, none 0", a.ID, b.ID, later.ID)
	}
}

func testFirstTokens(t *testing.T, s Store) {
	e := open(t, s)
	first, admin := token("first", createdAt), token("first-admin", createdAt)
	admin.Scopes = auth.ScopeAdmin | auth.ScopeMetrics
	for i, want := range []bool{true, false} {
		created, err := e.CreateFirstTokens(t.Context(), []auth.Token{first, admin}, operator)
		if err != nil || created != want {
			t.Errorf("call %d: %v, %v, want %v", i, created, err, want)
		}
	}
	first.ID, admin.ID = 1, 2
	equal(t, "tokens", mustTokens(t, e), []auth.Token{first, admin})
	for _, name := range []string{"first", "first-admin"} {
		if _, err := e.RevokeTokens(t.Context(), store.Selector{Name: name}, createdAt, operator); err != nil {
			t.Fatal(err)
		}
	}
	if created, err := e.CreateFirstTokens(t.Context(), []auth.Token{first, admin}, operator); err != nil || created {
		t.Errorf("after the first were revoked: %v, %v, want false", created, err)
	}
	equal(t, "tokens", len(mustTokens(t, e)), 2)
}

func testFirstTokensRace(t *testing.T, s Store) {
	var wg sync.WaitGroup
	var createdTokens atomic.Int32
	for range 4 {
		e := open(t, s)
		wg.Go(func() {
			created, err := e.CreateFirstTokens(t.Context(), []auth.Token{token("first", createdAt)}, operator)
			if err != nil {
				t.Error(err)
			}
			if created {
				createdTokens.Add(1)
			}
		})
	}
	wg.Wait()
	equal(t, "tokens", createdTokens.Load(), 1)
}

func testRotate(t *testing.T, s Store) {
	e := open(t, s)
	old := token("a", createdAt)
	old.Scopes = scopesOf(t, "plants:read admin")
	old = mustCreateToken(t, e, old)
	other := mustCreateToken(t, e, token("b", createdAt))

	fresh := token("a", createdAt.Add(time.Minute))
	fresh.ExpiresAt = createdAt.Add(24 * time.Hour)
	stored, before, err := e.RotateToken(t.Context(), fresh, time.Hour, operator)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "the rotated token", before, old)
	tokens := mustTokens(t, e)
	if len(tokens) != 3 {
		t.Fatalf("%d tokens, want 3", len(tokens))
	}
	old.ExpiresAt = fresh.CreatedAt.Add(time.Hour)
	fresh.Scopes = old.Scopes
	fresh.ID = tokens[2].ID
	equal(t, "tokens", tokens, []auth.Token{old, other, fresh})
	equal(t, "the new token", stored, fresh)

	again := token("a", createdAt.Add(2*time.Minute))
	if stored, before, err = e.RotateToken(t.Context(), again, 24*time.Hour, operator); err != nil {
		t.Fatal(err)
	}
	equal(t, "the second rotated token", before, tokens[2])
	equal(t, "lifetime", stored.ExpiresAt.Sub(stored.CreatedAt), fresh.ExpiresAt.Sub(fresh.CreatedAt))
	tokens = mustTokens(t, e)
	equal(t, "expiry of the oldest token", tokens[0].ExpiresAt, old.ExpiresAt)
	equal(t, "expiry of the second token", tokens[2].ExpiresAt, fresh.ExpiresAt)

	for _, name := range []string{"c", ""} {
		_, _, err := e.RotateToken(t.Context(), token(name, createdAt), time.Hour, operator)
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("rotate %q: %v, want %v", name, err, store.ErrNotFound)
		}
	}
	expired := token("a", createdAt.Add(1000*time.Hour))
	if _, err := e.RevokeTokens(t.Context(), store.Selector{Name: "a"}, createdAt, operator); err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.RotateToken(t.Context(), expired, time.Hour, operator); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("rotate a revoked token: %v, want %v", err, store.ErrNotFound)
	}
}

func testRevoke(t *testing.T, s Store) {
	e := open(t, s)
	a := mustCreateToken(t, e, token("a", createdAt))
	b := mustCreateToken(t, e, token("b", createdAt))
	at := createdAt.Add(time.Second)

	c := mustCreateToken(t, e, token("c", createdAt))
	fresh, _, err := e.RotateToken(t.Context(), token("c", createdAt), time.Hour, operator)
	if err != nil {
		t.Fatal(err)
	}
	c.ExpiresAt = createdAt.Add(time.Hour)

	for _, row := range []struct {
		what  string
		which store.Selector
		want  *auth.Token
	}{
		{"name", store.Selector{Name: "a"}, &a},
		{"hash", store.Selector{Hash: b.Hash}, &b},
		{"id", store.Selector{ID: c.ID}, &c},
		{"id before name", store.Selector{ID: fresh.ID, Name: "a"}, &fresh},
	} {
		revoked, err := e.RevokeTokens(t.Context(), row.which, at, operator)
		if err != nil {
			t.Fatal(err)
		}
		row.want.RevokedAt = at
		equal(t, "revoked by "+row.what, revoked, []auth.Token{*row.want})
	}
	equal(t, "tokens", mustTokens(t, e), []auth.Token{a, b, c, fresh})

	for _, which := range []store.Selector{
		{Name: "a"}, {Name: "d"}, {ID: a.ID}, {ID: 99}, {ID: -1}, {Hash: b.Hash}, {Hash: auth.HashOf("")}, {},
	} {
		if _, err := e.RevokeTokens(t.Context(), which, at.Add(time.Hour), operator); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("revoke %+v: %v, want %v", which, err, store.ErrNotFound)
		}
	}
	equal(t, "tokens with their times of revocation", mustTokens(t, e), []auth.Token{a, b, c, fresh})
	mustCreateToken(t, e, token("a", at)) // the name is free again
}

// testRevokeAhead revokes with a clock that is ahead of the clock that creates and rotates.
func testRevokeAhead(t *testing.T, s Store) {
	e := open(t, s)
	old := mustCreateToken(t, e, token("a", createdAt))
	old.RevokedAt = createdAt.Add(1000 * time.Hour)
	if _, err := e.RevokeTokens(t.Context(), store.Selector{Name: "a"}, old.RevokedAt, operator); err != nil {
		t.Fatal(err)
	}
	_, _, err := e.RotateToken(t.Context(), token("a", createdAt), time.Hour, operator)
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("rotate: %v, want %v", err, store.ErrNotFound)
	}
	fresh := mustCreateToken(t, e, token("a", createdAt)) // the name is free at once
	equal(t, "tokens", mustTokens(t, e), []auth.Token{old, fresh})
	for _, token := range mustTokens(t, e) {
		if got, want := token.ValidAt(createdAt), token.ID == fresh.ID; got != want {
			t.Errorf("token %d: ValidAt is %t, want %t", token.ID, got, want)
		}
	}
}

// testTokenChanges shows that State of another engine reports each change of the tokens, and no change otherwise.
func testTokenChanges(t *testing.T, s Store) {
	e, watcher := open(t, s), open(t, s)
	last := int64(-1)
	expect := func(what string, change bool) {
		t.Helper()
		now, err := watcher.State(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		version := now.TokenChanges
		if (version != last) != change {
			t.Errorf("%s: version %d after %d, want a change: %v", what, version, last, change)
		}
		last = version
	}
	expect("a new store", true)
	expect("nothing", false)
	a := mustCreateToken(t, e, token("a", createdAt))
	expect("create", true)
	mustInsert(t, e, create(1, "Rosa", plant.Tag{}))
	expect("a plant", false)
	if err := e.MarkUsed(t.Context(), []auth.Use{{TokenID: a.ID, At: createdAt}}); err != nil {
		t.Fatal(err)
	}
	expect("a last use", false)
	if _, _, err := e.RotateToken(t.Context(), token("a", createdAt), 0, operator); err != nil {
		t.Fatal(err)
	}
	expect("rotate", true)
	if _, err := e.RevokeTokens(t.Context(), store.Selector{Name: "a"}, createdAt, operator); err != nil {
		t.Fatal(err)
	}
	expect("revoke", true)
}

func testMarkUsed(t *testing.T, s Store) {
	e := open(t, s)
	a := mustCreateToken(t, e, token("a", createdAt))
	b := mustCreateToken(t, e, token("b", createdAt))
	for _, uses := range [][]auth.Use{
		nil,
		{{TokenID: a.ID, At: createdAt.Add(time.Hour)}, {TokenID: 999, At: createdAt}},
		{{TokenID: a.ID, At: createdAt}}, // an earlier use, reported late
	} {
		if err := e.MarkUsed(t.Context(), uses); err != nil {
			t.Fatal(err)
		}
	}
	a.LastUsedAt = createdAt.Add(time.Hour)
	equal(t, "tokens", mustTokens(t, e), []auth.Token{a, b})
}
