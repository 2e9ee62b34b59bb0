package store_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

func newToken(id int64) (secret string, t auth.Token) {
	secret = auth.Mint()
	return secret, auth.Token{ID: id, Name: "a", Hash: auth.HashOf(secret), Scopes: auth.ScopeCreate}
}

// TestCredentialsAreFresh shows that a change of the tokens holds within a
// second, and that tokens are read only after a change.
func TestCredentialsAreFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &stub{}
		s := mustNew(t, e, limits)
		defer s.Close()
		secret, token := newToken(7)
		if _, err := s.Authenticate(t.Context(), secret); codeOf(err) != plant.CodeCredentialUnknown {
			t.Errorf("before it is made: %v", err)
		}
		e.change(func(e *stub) { e.tokens = []auth.Token{token} })
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		who, err := s.Authenticate(t.Context(), secret)
		if want := (auth.Principal{TokenID: 7, Name: "a", Scopes: auth.ScopeCreate}); err != nil || who != want {
			t.Errorf("a second after it was made: %+v, %v, want %+v", who, err, want)
		}
		token.RevokedAt = time.Now()
		e.change(func(e *stub) { e.tokens = []auth.Token{token} })
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		if _, err := s.Authenticate(t.Context(), secret); codeOf(err) != plant.CodeCredentialRevoked {
			t.Errorf("a second after it was revoked: %v", err)
		}
	})
}

// TestStaleCredentials has the engine fail, so that the tokens grow old: a
// request then looks itself, and is refused as long as nobody can tell.
func TestStaleCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &stub{}
		secret, token := newToken(7)
		e.tokens = []auth.Token{token}
		s := mustNew(t, e, limits)
		defer s.Close()
		e.change(func(e *stub) { e.err = errors.New("disk") })
		if _, err := s.Authenticate(t.Context(), secret); err != nil {
			t.Errorf("while the last look is young: %v", err)
		}
		time.Sleep(2 * time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		if _, err := s.Authenticate(t.Context(), secret); codeOf(err) != plant.CodeStoreUnavailable {
			t.Errorf("when it is old: %v", err)
		}
		token.RevokedAt = time.Now()
		e.change(func(e *stub) { e.err, e.tokens = nil, []auth.Token{token} })
		if _, err := s.Authenticate(t.Context(), secret); codeOf(err) != plant.CodeCredentialRevoked {
			t.Errorf("as soon as it can be told: %v", err)
		}
	})
}

// TestClockSetBack shows that a revocation holds also when the last look at the
// tokens seems to be in the future.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &stub{}
		secret, token := newToken(7)
		e.tokens = []auth.Token{token}
		s := mustNew(t, e, limits)
		defer s.Close()
		s.SetLookAt(time.Now().Add(time.Hour))
		token.RevokedAt = time.Now()
		e.change(func(e *stub) { e.tokens = []auth.Token{token} })
		if _, err := s.Authenticate(t.Context(), secret); codeOf(err) != plant.CodeCredentialRevoked {
			t.Errorf("got %v, want that it was revoked", err)
		}
	})
}

// TestNewTokenWorksAtOnce shows that nobody has to wait for the next look.
func TestNewTokenWorksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &stub{}
		s := mustNew(t, e, limits)
		defer s.Close()
		secret, token := newToken(7)
		time.Sleep(time.Millisecond) //nolint:forbidigo // the bubble's clock, not a wait
		e.change(func(e *stub) { e.tokens = []auth.Token{token} })
		if _, err := s.Authenticate(t.Context(), secret); err != nil {
			t.Error(err)
		}
		before := 0
		e.change(func(e *stub) { before = e.looks })
		for range 1000 { // guesses
			if _, err := s.Authenticate(t.Context(), auth.Mint()); codeOf(err) != plant.CodeCredentialUnknown {
				t.Fatal(err)
			}
		}
		e.change(func(e *stub) {
			if e.looks != before {
				t.Errorf("%d looks for guesses that came at once, want none", e.looks-before)
			}
		})
	})
}

// TestSlowEngine has many requests whose tokens must be looked at while the
// engine takes longer for that than they stay fresh: all share a look.
func TestSlowEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &stub{}
		secret, token := newToken(7)
		e.tokens = []auth.Token{token}
		s := mustNew(t, e, limits)
		defer s.Close()
		e.change(func(e *stub) { e.lookTime = 2 * time.Second })
		time.Sleep(10 * time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		begun := time.Now()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if _, err := s.Authenticate(t.Context(), secret); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(begun); took > 4*time.Second {
			t.Errorf("100 requests waited for up to %s: want the rest of a look and another one", took)
		}
		e.change(func(e *stub) { e.lookTime = time.Hour })
		time.Sleep(time.Minute) //nolint:forbidigo // the bubble's clock, not a wait
		if _, err := s.Authenticate(t.Context(), secret); codeOf(err) != plant.CodeStoreUnavailable {
			t.Errorf("an engine that hangs: %v", err)
		}
	})
}

func TestLastUseIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &stub{}
		secret, token := newToken(7)
		e.tokens = []auth.Token{token}
		s := mustNew(t, e, limits)
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		used := time.Now().UTC()
		for range 3 {
			if _, err := s.Authenticate(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
		}
		e.change(func(e *stub) { e.useErr = errors.New("disk") })
		time.Sleep(3 * time.Minute) //nolint:forbidigo // the bubble's clock, not a wait
		e.change(func(e *stub) {
			if n := len(e.uses); n < 2 || n > 3 {
				t.Errorf("%d tries in 3 minutes, want one a minute", n)
			}
			e.useErr, e.uses = nil, nil
		})
		s.Close()
		if want := (auth.Use{TokenID: 7, At: used}); len(e.uses) != 1 || e.uses[0] != want {
			t.Errorf("saved %v, want %v once, though it failed before", e.uses, want)
		}
	})
}

func TestNewFails(t *testing.T) {
	t.Parallel()
	disk := errors.New("disk")
	_, err := store.New(context.Background(), store.Config{Engine: &stub{err: disk}, Limits: limits, Log: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, disk) {
		t.Errorf("got %v, want %v", err, disk)
	}
}
