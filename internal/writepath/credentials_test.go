package writepath_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/store"
	"plantstore/internal/writepath"
)

func newToken(id int64) (secret string, t auth.Token) {
	secret = auth.Mint()
	return secret, auth.Token{ID: id, Name: "a", Hash: auth.HashOf(secret), Scopes: auth.ScopeCreate}
}

// TestTokenChange shows that a change of the tokens takes effect within a second.
func TestTokenChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &stub{}
		s := mustNew(t, e, limits)
		defer s.Close()
		secret, token := newToken(7)
		if _, err := s.Authenticate(t.Context(), secret); codeOf(err) != plant.CodeCredentialInvalid {
			t.Errorf("before the token exists: %v", err)
		}
		e.change(func(e *stub) { e.tokens = []auth.Token{token} })
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		got, err := s.Authenticate(t.Context(), secret)
		if want := (auth.Principal{TokenID: 7, Name: "a", Scopes: auth.ScopeCreate}); err != nil || got != want {
			t.Errorf("a second after its creation: %+v, %v, want %+v", got, err, want)
		}
		token.RevokedAt = time.Now()
		e.change(func(e *stub) { e.tokens = []auth.Token{token} })
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		if _, err := s.Authenticate(t.Context(), secret); codeOf(err) != plant.CodeCredentialInvalid {
			t.Errorf("a second after its revocation: %v", err)
		}
	})
}

// TestStaleTokens has the engine fail until the last poll is too old: a request then polls itself, and is refused if
// that fails.
func TestStaleTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &stub{}
		secret, token := newToken(7)
		e.tokens = []auth.Token{token}
		s := mustNew(t, e, limits)
		defer s.Close()
		e.change(func(e *stub) { e.err = errors.New("disk") })
		if _, err := s.Authenticate(t.Context(), secret); err != nil {
			t.Errorf("while the last poll is recent: %v", err)
		}
		time.Sleep(2 * time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		if _, err := s.Authenticate(t.Context(), secret); codeOf(err) != plant.CodeStoreUnavailable {
			t.Errorf("when the last poll is too old: %v", err)
		}
		token.RevokedAt = time.Now()
		e.change(func(e *stub) { e.err, e.tokens = nil, []auth.Token{token} })
		if _, err := s.Authenticate(t.Context(), secret); codeOf(err) != plant.CodeCredentialInvalid {
			t.Errorf("as soon as the engine works again: %v", err)
		}
	})
}

// TestStaleAfterKeys has the engine fail while a JWT waits for the keys of its issuer.
func TestStaleAfterKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claims := auth.NewClaims(auth.Claims{Issuer: "i", Subject: "s", ID: "j", Name: "a", Scopes: auth.ScopeCreate})
		e := &stub{tokens: []auth.Token{claims.Token(time.Now())}}
		verify := func(context.Context, string, time.Time, bool) (*auth.Claims, error) {
			e.change(func(e *stub) { e.err = errors.New("disk") })
			time.Sleep(5 * time.Second) //nolint:forbidigo // the bubble's clock, not a wait
			return claims, nil
		}
		s, err := writepath.New(t.Context(), writepath.Config{Engine: e, JWT: verify, Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Authenticate(t.Context(), "a.b.c"); codeOf(err) != plant.CodeStoreUnavailable {
			t.Errorf("got %v, although a revocation cannot be read", err)
		}
	})
}

// hungSubjects is an engine that does not respond to PutSubject before its context ends, or for a minute.
type hungSubjects struct{ stub }

func (*hungSubjects) PutSubject(ctx context.Context, t auth.Token, _ int) (auth.Token, error) {
	select {
	case <-ctx.Done():
		return t, ctx.Err()
	case <-time.After(time.Minute):
		return t, errors.New("no deadline")
	}
}

// TestHungSubject shows that the registration of a subject has a deadline, which a disconnect of the client does not
// change.
func TestHungSubject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		claims := auth.NewClaims(auth.Claims{Issuer: "i", Subject: "s", ID: "j", Name: "a", Scopes: auth.ScopeCreate})
		verify := func(context.Context, string, time.Time, bool) (*auth.Claims, error) { return claims, nil }
		s, err := writepath.New(t.Context(), writepath.Config{Engine: &hungSubjects{}, JWT: verify, Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		ctx, disconnect := context.WithTimeout(t.Context(), time.Second)
		defer disconnect()
		started := time.Now()
		if _, err := s.Authenticate(ctx, "a.b.c"); codeOf(err) != plant.CodeStoreUnavailable {
			t.Errorf("got %v, want that the store is unavailable", err)
		}
		if took, want := time.Since(started), 5*time.Second; took != want {
			t.Errorf("the registration took %s, want %s", took, want)
		}
	})
}

// standbySubjects is the engine of a standby, which stores no subject.
type standbySubjects struct{ stub }

func (*standbySubjects) PutSubject(_ context.Context, t auth.Token, _ int) (auth.Token, error) {
	return t, fmt.Errorf("%w of the server on host-a", store.ErrStandby)
}

// TestSubjectAtStandby shows that a subject which the owner has not seen learns where it has to sign in.
func TestSubjectAtStandby(t *testing.T) {
	t.Parallel()
	claims := auth.NewClaims(auth.Claims{Issuer: "i", Subject: "s", ID: "j", Name: "a", Scopes: auth.ScopeCreate})
	s, err := writepath.New(t.Context(), writepath.Config{Engine: &standbySubjects{}, Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const want = "nothing was stored because this server is a standby; make changes at the server that accepts plants"
	if _, err := s.AuthenticateClaims(t.Context(), claims); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestManyUses shows that one transaction stores few uses of tokens, however many were used.
func TestManyUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tokens, most = 2500, 1000
		e := &stub{}
		secrets := make([]string, tokens)
		for i := range secrets {
			secret, token := newToken(int64(i) + 1)
			secrets[i], e.tokens = secret, append(e.tokens, token)
		}
		s := mustNew(t, e, limits)
		defer s.Close()
		time.Sleep(time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		for _, secret := range secrets {
			if _, err := s.Authenticate(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Minute) //nolint:forbidigo // the bubble's clock, not a wait
		e.mu.Lock()
		defer e.mu.Unlock()
		if len(e.uses) != tokens || e.usesMost > most {
			t.Errorf("stored %d uses, at most %d at once; want %d, at most %d", len(e.uses), e.usesMost, tokens, most)
		}
	})
}

// TestInvalidJWTIsVerifiedOnce shows that an invalid JWT costs one verification of its signature.
func TestInvalidJWTIsVerifiedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		verify := func(context.Context, string, time.Time, bool) (*auth.Claims, error) {
			calls++
			return nil, &auth.Invalid{Reason: "jwt: a"}
		}
		s, err := writepath.New(t.Context(), writepath.Config{Engine: &stub{}, JWT: verify, Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if _, err := s.Authenticate(t.Context(), "a.b.c"); codeOf(err) != plant.CodeCredentialInvalid || calls != 1 {
			t.Errorf("got %v after %d verifications, want an invalid credential after one", err, calls)
		}
	})
}

// TestClockSetBack shows that a revocation takes effect even when the last poll seems to be in the future.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &stub{}
		secret, token := newToken(7)
		e.tokens = []auth.Token{token}
		s := mustNew(t, e, limits)
		defer s.Close()
		s.SetPolledAt(time.Now().Add(time.Hour))
		token.RevokedAt = time.Now()
		e.change(func(e *stub) { e.tokens = []auth.Token{token} })
		if _, err := s.Authenticate(t.Context(), secret); codeOf(err) != plant.CodeCredentialInvalid {
			t.Errorf("got %v, want credential revoked", err)
		}
	})
}

// TestNewToken shows that a new token is valid at once, and that guessed tokens cause no polls.
func TestNewToken(t *testing.T) {
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
		e.change(func(e *stub) { before = e.polls })
		for range 1000 { // guesses
			if _, err := s.Authenticate(t.Context(), auth.Mint()); codeOf(err) != plant.CodeCredentialInvalid {
				t.Fatal(err)
			}
		}
		e.change(func(e *stub) {
			if e.polls != before {
				t.Errorf("%d polls for guesses at the same time, want none", e.polls-before)
			}
		})
	})
}

// TestInvalidTokensWaitAlike shows that unknown, expired and revoked tokens wait for the same poll, so that the time of
// a response does not tell them apart. A text that is no token waits for none.
func TestInvalidTokensWaitAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &stub{}
		expiredSecret, expired := newToken(7)
		expired.ExpiresAt = time.Now().Add(-time.Second)
		revokedSecret, revoked := newToken(8)
		revoked.RevokedAt = time.Now()
		e.tokens = []auth.Token{expired, revoked}
		s := mustNew(t, e, limits)
		defer s.Close()
		unknownSecret := auth.Mint()
		for _, row := range []struct {
			name, secret, reason string
			waits                time.Duration
		}{
			{"unknown", unknownSecret, auth.ReasonUnknown, 10 * time.Millisecond},
			{"expired", expiredSecret, auth.ReasonExpired, 10 * time.Millisecond},
			{"revoked", revokedSecret, auth.ReasonRevoked, 10 * time.Millisecond},
			{"no token", unknownSecret + "0", auth.ReasonUnknown, 0},
		} {
			just := time.Now().Truncate(time.Second).Add(time.Second + 1) // just after a poll
			time.Sleep(time.Until(just))                                  //nolint:forbidigo // the bubble's clock, not a wait
			started := time.Now()
			_, err := s.Authenticate(t.Context(), row.secret)
			var invalid *auth.Invalid
			if !errors.As(err, &invalid) || invalid.Reason != row.reason {
				t.Errorf("%s: got %v, want the reason %s", row.name, err, row.reason)
			}
			if took := time.Since(started).Round(time.Microsecond); took != row.waits {
				t.Errorf("%s: waited for %s, want %s", row.name, took, row.waits)
			}
		}
	})
}

// TestSlowEngine has an engine whose polls take longer than staleAfter: all waiting requests share a poll.
func TestSlowEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &stub{}
		secret, token := newToken(7)
		e.tokens = []auth.Token{token}
		s := mustNew(t, e, limits)
		defer s.Close()
		e.change(func(e *stub) { e.pollTime = 2 * time.Second })
		time.Sleep(10 * time.Second) //nolint:forbidigo // the bubble's clock, not a wait
		start := time.Now()
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if _, err := s.Authenticate(t.Context(), secret); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took > 4*time.Second {
			t.Errorf("100 requests waited for up to %s, want at most two polls", took)
		}
		e.change(func(e *stub) { e.pollTime = time.Hour })
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
				t.Errorf("%d attempts in 3 minutes, want one in each minute", n)
			}
			e.useErr, e.uses = nil, nil
		})
		s.Close()
		if want := (auth.Use{TokenID: 7, At: used}); len(e.uses) != 1 || e.uses[0] != want {
			t.Errorf("saved %v, want %v once, after the failures", e.uses, want)
		}
	})
}

// TestLateUseIsSaved uses tokens by requests that wait for the engine while the store saves other uses.
func TestLateUseIsSaved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tokens = 140 // one each half a second
		e := &stub{pollTime: 2 * time.Second}
		secrets := make([]string, tokens)
		for i := range secrets {
			secret, token := newToken(int64(i) + 1)
			secrets[i], e.tokens = secret, append(e.tokens, token)
		}
		s := mustNew(t, e, limits)
		var requests sync.WaitGroup
		for _, secret := range secrets {
			requests.Go(func() {
				if _, err := s.Authenticate(t.Context(), secret); err != nil {
					t.Error(err)
				}
			})
			time.Sleep(time.Second / 2) //nolint:forbidigo // the bubble's clock, not a wait
		}
		requests.Wait()
		s.Close()
		unsaved := make(map[int64]bool)
		for i := range secrets {
			unsaved[int64(i)+1] = true
		}
		for _, use := range e.uses {
			delete(unsaved, use.TokenID)
		}
		if len(unsaved) > 0 {
			t.Errorf("the uses of these tokens are not saved: %v", unsaved)
		}
	})
}

func TestNewFails(t *testing.T) {
	t.Parallel()
	disk := errors.New("disk")
	_, err := writepath.New(context.Background(), writepath.Config{Engine: &stub{err: disk}, Limits: limits})
	if !errors.Is(err, disk) {
		t.Errorf("got %v, want %v", err, disk)
	}
}
