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
	a := token("a", begun)
	a.Scopes = scopesOf(t, "plants:create plants:read admin")
	a.ExpiresAt = begun.Add(time.Hour)
	a = mustCreateToken(t, e, a)
	b := token("b", begun)
	b.Prefix = ""
	b = mustCreateToken(t, e, b)
	if _, err := e.CreateToken(t.Context(), token("a", begun.Add(time.Hour-1))); !errors.Is(err, store.ErrNameTaken) {
		t.Errorf("a second token of a valid name: %v, want %v", err, store.ErrNameTaken)
	}
	later := mustCreateToken(t, e, token("a", begun.Add(time.Hour))) // the first has expired
	mustClose(t, e)

	e = open(t, s)
	equal(t, "tokens", mustTokens(t, e), []auth.Token{a, b, later})
	if a.ID == b.ID || b.ID == later.ID || a.ID == 0 {
		t.Errorf("ids %d, %d, %d: want different ones, none 0", a.ID, b.ID, later.ID)
	}
}

func testFirstToken(t *testing.T, s Store) {
	e := open(t, s)
	for i, want := range []bool{true, false} {
		created, err := e.CreateFirstToken(t.Context(), token("first", begun))
		if err != nil || created != want {
			t.Errorf("call %d: %v, %v, want %v", i, created, err, want)
		}
	}
	if _, err := e.RevokeTokens(t.Context(), store.Selector{Name: "first"}, begun); err != nil {
		t.Fatal(err)
	}
	if created, err := e.CreateFirstToken(t.Context(), token("first", begun)); err != nil || created {
		t.Errorf("after the first was revoked: %v, %v, want false", created, err)
	}
	equal(t, "tokens", len(mustTokens(t, e)), 1)
}

func testFirstTokenRace(t *testing.T, s Store) {
	var wg sync.WaitGroup
	var made atomic.Int32
	for range 4 {
		e := open(t, s)
		wg.Go(func() {
			created, err := e.CreateFirstToken(t.Context(), token("first", begun))
			if err != nil {
				t.Error(err)
			}
			if created {
				made.Add(1)
			}
		})
	}
	wg.Wait()
	equal(t, "tokens made", made.Load(), 1)
}

func testRotate(t *testing.T, s Store) {
	e := open(t, s)
	old := token("a", begun)
	old.Scopes = scopesOf(t, "plants:read admin")
	old = mustCreateToken(t, e, old)
	other := mustCreateToken(t, e, token("b", begun))

	fresh := token("a", begun.Add(time.Minute))
	fresh.ExpiresAt = begun.Add(24 * time.Hour)
	stored, before, err := e.RotateToken(t.Context(), fresh, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "the token that was rotated", before, old)
	tokens := mustTokens(t, e)
	if len(tokens) != 3 {
		t.Fatalf("%d tokens, want 3", len(tokens))
	}
	old.ExpiresAt = fresh.CreatedAt.Add(time.Hour)
	fresh.Scopes = old.Scopes
	fresh.ID = tokens[2].ID
	equal(t, "tokens", tokens, []auth.Token{old, other, fresh})
	equal(t, "what was stored", stored, fresh)

	again := token("a", begun.Add(2*time.Minute))
	if stored, before, err = e.RotateToken(t.Context(), again, 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	equal(t, "the newer token, which was rotated", before, tokens[2])
	equal(t, "valid for as long as the one before", stored.ExpiresAt.Sub(stored.CreatedAt), fresh.ExpiresAt.Sub(fresh.CreatedAt))
	tokens = mustTokens(t, e)
	equal(t, "the end of the oldest stays as it was", tokens[0].ExpiresAt, old.ExpiresAt)
	equal(t, "the end of the newer stays as it was", tokens[2].ExpiresAt, fresh.ExpiresAt)

	for _, name := range []string{"c", ""} {
		if _, _, err := e.RotateToken(t.Context(), token(name, begun), time.Hour); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("rotate %q: %v, want %v", name, err, store.ErrNotFound)
		}
	}
	expired := token("a", begun.Add(1000*time.Hour))
	if _, err := e.RevokeTokens(t.Context(), store.Selector{Name: "a"}, begun); err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.RotateToken(t.Context(), expired, time.Hour); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("rotate a revoked token: %v, want %v", err, store.ErrNotFound)
	}
}

func testRevoke(t *testing.T, s Store) {
	e := open(t, s)
	a := mustCreateToken(t, e, token("a", begun))
	b := mustCreateToken(t, e, token("b", begun))
	at := begun.Add(time.Second)

	c := mustCreateToken(t, e, token("c", begun))
	fresh, _, err := e.RotateToken(t.Context(), token("c", begun), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	c.ExpiresAt = begun.Add(time.Hour)

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
		revoked, err := e.RevokeTokens(t.Context(), row.which, at)
		if err != nil {
			t.Fatal(err)
		}
		row.want.RevokedAt = at
		equal(t, "revoked by "+row.what, revoked, []auth.Token{*row.want})
	}
	equal(t, "tokens", mustTokens(t, e), []auth.Token{a, b, c, fresh})

	for _, which := range []store.Selector{{Name: "a"}, {Name: "d"}, {ID: a.ID}, {ID: 99}, {ID: -1}, {Hash: b.Hash}, {Hash: auth.HashOf("")}, {}} {
		if _, err := e.RevokeTokens(t.Context(), which, at.Add(time.Hour)); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("revoke %+v: %v, want %v", which, err, store.ErrNotFound)
		}
	}
	equal(t, "tokens, the time of revocation unchanged", mustTokens(t, e), []auth.Token{a, b, c, fresh})
	mustCreateToken(t, e, token("a", at)) // the name is free again
}

// testRevokeAhead revokes with a clock that is ahead of the one that creates and rotates.
func testRevokeAhead(t *testing.T, s Store) {
	e := open(t, s)
	old := mustCreateToken(t, e, token("a", begun))
	old.RevokedAt = begun.Add(1000 * time.Hour)
	if _, err := e.RevokeTokens(t.Context(), store.Selector{Name: "a"}, old.RevokedAt); err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.RotateToken(t.Context(), token("a", begun), time.Hour); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("rotate: %v, want %v", err, store.ErrNotFound)
	}
	fresh := mustCreateToken(t, e, token("a", begun)) // the name is free at once
	equal(t, "tokens", mustTokens(t, e), []auth.Token{old, fresh})
	for _, token := range mustTokens(t, e) {
		if got, want := token.ValidAt(begun), token.ID == fresh.ID; got != want {
			t.Errorf("token %d is valid: %t, want %t", token.ID, got, want)
		}
	}
}

// testTokenChanges shows that a change made through one engine is seen by
// another, and that nothing else looks like one.
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
	a := mustCreateToken(t, e, token("a", begun))
	expect("create", true)
	mustInsert(t, e, create(1, "Rosa", plant.Tag{}))
	expect("a plant", false)
	if err := e.MarkUsed(t.Context(), []auth.Use{{TokenID: a.ID, At: begun}}); err != nil {
		t.Fatal(err)
	}
	expect("a last use", false)
	if _, _, err := e.RotateToken(t.Context(), token("a", begun), 0); err != nil {
		t.Fatal(err)
	}
	expect("rotate", true)
	if _, err := e.RevokeTokens(t.Context(), store.Selector{Name: "a"}, begun); err != nil {
		t.Fatal(err)
	}
	expect("revoke", true)
}

func testMarkUsed(t *testing.T, s Store) {
	e := open(t, s)
	a := mustCreateToken(t, e, token("a", begun))
	b := mustCreateToken(t, e, token("b", begun))
	for _, uses := range [][]auth.Use{
		nil,
		{{TokenID: a.ID, At: begun.Add(time.Hour)}, {TokenID: 999, At: begun}},
		{{TokenID: a.ID, At: begun}}, // an earlier use that came late
	} {
		if err := e.MarkUsed(t.Context(), uses); err != nil {
			t.Fatal(err)
		}
	}
	a.LastUsedAt = begun.Add(time.Hour)
	equal(t, "tokens", mustTokens(t, e), []auth.Token{a, b})
}
