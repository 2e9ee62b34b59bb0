package auth_test

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
)

const invalid = "invalid credential; send the whole token or request another from the store's operator"

// token returns a token with its name as its secret.
func token(id int64, name string, scopes auth.Scopes, expires, revoked time.Time) auth.Token {
	return auth.Token{ID: id, Name: name, Hash: auth.HashOf(name), Scopes: scopes, ExpiresAt: expires, RevokedAt: revoked}
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	var never time.Time
	var ring auth.Keyring
	ring.Replace([]auth.Token{
		token(1, "plain", auth.ScopeCreate, never, never),
		token(2, "limited", auth.ScopeRead, noon, never),
		token(3, "revoked", auth.ScopeCreate, never, noon),
		token(4, "both", 0, noon, noon),
	})
	before, after := noon.Add(-time.Microsecond), noon.Add(time.Microsecond)
	for _, row := range []struct {
		name, secret string
		now          time.Time
		want         auth.Principal
		reason       string
	}{
		{"without limits", "plain", noon, auth.Principal{TokenID: 1, Name: "plain", Scopes: auth.ScopeCreate}, ""},
		{"before it expires", "limited", before, auth.Principal{TokenID: 2, Name: "limited", Scopes: auth.ScopeRead}, ""},
		{"when it expires", "limited", noon, auth.Principal{}, auth.ReasonExpired},
		{"after it expired", "limited", after, auth.Principal{}, auth.ReasonExpired},
		{"revoked by a clock ahead", "revoked", before, auth.Principal{}, auth.ReasonRevoked},
		{"when it is revoked", "revoked", noon, auth.Principal{}, auth.ReasonRevoked},
		{"after it was revoked", "revoked", after, auth.Principal{}, auth.ReasonRevoked},
		{"revoked and not yet expired", "both", before, auth.Principal{}, auth.ReasonRevoked},
		{"revoked and expired", "both", after, auth.Principal{}, auth.ReasonRevoked},
		{"unknown", "other", noon, auth.Principal{}, auth.ReasonUnknown},
		{"other case", "Plain", noon, auth.Principal{}, auth.ReasonUnknown},
		{"empty", "", noon, auth.Principal{}, auth.ReasonUnknown},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			got, err := ring.Authenticate(row.secret, row.now)
			checkInvalid(t, err, row.reason)
			if got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
}

// checkInvalid fails the test unless err is nil for an empty reason, or an *auth.Invalid with the reason that wraps the
// one error for clients.
func checkInvalid(t *testing.T, err error, reason string) {
	t.Helper()
	if reason == "" {
		checkRefusal(t, err, 0, "")
		return
	}
	var got *auth.Invalid
	if !errors.As(err, &got) || got.Reason != reason || err.Error() != "invalid credential: "+reason {
		t.Errorf("got %v, want the reason %q", err, reason)
	}
	checkRefusal(t, errors.Unwrap(err), plant.CodeCredentialInvalid, invalid)
}

func TestEmptyKeyring(t *testing.T) {
	t.Parallel()
	var ring auth.Keyring
	_, err := ring.Authenticate("anything", noon)
	checkInvalid(t, err, auth.ReasonUnknown)
	if uses := ring.UsedSince(time.Time{}); uses != nil {
		t.Errorf("uses: got %v, want none", uses)
	}
}

func TestRequire(t *testing.T) {
	t.Parallel()
	p := auth.Principal{Scopes: auth.ScopeRead}
	checkRefusal(t, p.Require(auth.ScopeRead), 0, "")
	checkRefusal(t, p.Require(0), 0, "")
	checkRefusal(t, p.Require(auth.ScopeCreate), plant.CodeScopeMissing, "the credential lacks the scope plants:create")
	checkRefusal(t, p.Require(auth.ScopeRead|auth.ScopeAdmin), plant.CodeScopeMissing,
		"the credential lacks the scope plants:read admin")
}

func TestReplace(t *testing.T) {
	t.Parallel()
	var never time.Time
	var ring auth.Keyring
	accepts := func(secret string) bool {
		_, err := ring.Authenticate(secret, noon)
		return err == nil
	}
	ring.Replace([]auth.Token{token(1, "old", 0, never, never), token(2, "kept", 0, never, never)})
	if !accepts("old") || !accepts("kept") || accepts("new") {
		t.Error("the keyring does not have the first tokens")
	}
	ring.Replace([]auth.Token{token(2, "kept", 0, never, noon), token(3, "new", 0, never, never)})
	if accepts("old") || accepts("kept") || !accepts("new") {
		t.Error("the keyring does not have the second tokens")
	}
	ring.Replace(nil)
	if accepts("new") {
		t.Error("the keyring has a token after all were removed")
	}
}

// TestUsedSince shows that the time of last use is exact to a minute, is kept by Replace, and counts valid credentials
// only.
func TestUsedSince(t *testing.T) {
	t.Parallel()
	var never time.Time
	tokens := []auth.Token{
		token(1, "often", 0, never, never), token(2, "never", 0, never, never), token(3, "expired", 0, noon, never),
	}
	var ring auth.Keyring
	use := func(secret string, at time.Time) { _, _ = ring.Authenticate(secret, at) }
	check := func(when string, since time.Time, want ...auth.Use) {
		t.Helper()
		got := ring.UsedSince(since)
		slices.SortFunc(got, func(a, b auth.Use) int { return cmp.Compare(a.TokenID, b.TokenID) })
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	before := noon.Add(-time.Microsecond)
	ring.Replace(tokens)
	check("unused", never)
	use("often", noon)
	use("expired", noon)
	use("unknown", noon)
	check("used", before, auth.Use{TokenID: 1, At: noon})
	check("not used after that time", noon)
	ring.Replace(tokens)
	check("kept by Replace", before, auth.Use{TokenID: 1, At: noon})
	use("often", noon.Add(59*time.Second))
	check("within a minute", before, auth.Use{TokenID: 1, At: noon})
	use("often", noon.Add(time.Minute))
	check("after a minute", noon, auth.Use{TokenID: 1, At: noon.Add(time.Minute)})
	use("often", noon)
	check("an earlier use", noon, auth.Use{TokenID: 1, At: noon.Add(time.Minute)})
	use("expired", before)
	check("two tokens", before.Add(-time.Second),
		auth.Use{TokenID: 1, At: noon.Add(time.Minute)}, auth.Use{TokenID: 3, At: before})
	ring.Replace(tokens[1:2])
	check("token removed", never)
	ring.Replace(tokens)
	check("token added again", never)
}

// TestKeyringConcurrency authenticates in several goroutines while another one replaces the tokens: a token of both
// sets is always valid.
func TestKeyringConcurrency(t *testing.T) {
	t.Parallel()
	var ring auth.Keyring
	always := token(1, "always", auth.ScopeCreate, time.Time{}, time.Time{})
	ring.Replace([]auth.Token{always})
	if _, err := ring.Authenticate("always", noon); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var checkers sync.WaitGroup
	for i := range 4 {
		checkers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := ring.Authenticate("always", noon.Add(time.Duration(n)*time.Minute)); err != nil {
					t.Errorf("checker %d: %v", i, err)
					return
				}
				ring.UsedSince(noon)
			}
		})
	}
	for i := range int64(2000) {
		ring.Replace([]auth.Token{always, token(i, strconv.FormatInt(i, 10), 0, time.Time{}, time.Time{})})
	}
	close(stop)
	checkers.Wait()
	if uses := ring.UsedSince(noon.Add(-1)); len(uses) != 1 {
		t.Errorf("uses: got %v, want one", uses)
	}
}

// TestAddDuringReplace adds subjects while another goroutine replaces the tokens by those of an older read: each
// principal has the ID of its subject, and each revocation has an effect.
func TestAddDuringReplace(t *testing.T) {
	t.Parallel()
	var ring auth.Keyring
	stop := make(chan struct{})
	var replacer sync.WaitGroup
	replacer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				ring.Replace(nil)
			}
		}
	})
	defer replacer.Wait()
	defer close(stop)
	for id := int64(1); id <= 20_000 && !t.Failed(); id++ {
		claims := auth.NewClaims(auth.Claims{
			Issuer: "i", Subject: strconv.FormatInt(id, 10), ID: "j", Name: "a", Scopes: auth.ScopeCreate, IssuedAt: noon,
		})
		stored := claims.Token(noon)
		stored.ID = id
		got, err := ring.Add(stored, claims, noon)
		if want := (auth.Principal{TokenID: id, Name: "a", Scopes: auth.ScopeCreate}); err != nil || got != want {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
		stored.RevokedAt = noon
		got, err = ring.Add(stored, claims, noon)
		checkInvalid(t, err, "jwt: its subject is revoked")
		if got != (auth.Principal{}) {
			t.Errorf("revoked: got %+v, want none", got)
		}
	}
}

// TestAddRevoked shows that Add returns the error of a revocation that only the keyring has.
func TestAddRevoked(t *testing.T) {
	t.Parallel()
	claims := auth.NewClaims(auth.Claims{
		Issuer: "i", Subject: "s", ID: "j", Name: "a", Scopes: auth.ScopeCreate, IssuedAt: noon,
	})
	stored, revoked := claims.Token(noon), claims.Token(noon)
	revoked.RevokedAt = noon
	for want, tokens := range map[string][]auth.Token{
		"jwt: its subject is revoked": {revoked},
		"jwt: its jti is revoked":     {auth.NewRevokedJWT("i", "j", noon)},
	} {
		var ring auth.Keyring
		ring.Replace(tokens)
		got, err := ring.Add(stored, claims, noon)
		checkInvalid(t, err, want)
		if got != (auth.Principal{}) {
			t.Errorf("%s: got %+v, want none", want, got)
		}
	}
}

// TestRevokedSubject shows that the revocation of a subject counts for the JWTs that were issued until then, also by a
// clock that is ahead.
func TestRevokedSubject(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]string{
		-time.Hour: "jwt: its subject is revoked", auth.JWTLeeway: "jwt: its subject is revoked",
		auth.JWTLeeway + time.Second: "",
	} {
		claims := auth.NewClaims(auth.Claims{Issuer: "i", Subject: "s", ID: "j", IssuedAt: noon.Add(after)})
		revoked := claims.Token(noon)
		revoked.RevokedAt = noon
		var ring auth.Keyring
		ring.Replace([]auth.Token{revoked})
		_, err := ring.AuthenticateJWT(claims, noon.Add(time.Hour))
		if want == "" {
			if err != nil {
				t.Errorf("issued %s after the revocation: %v", after, err)
			}
			continue
		}
		checkInvalid(t, err, want)
	}
}

func TestKeyringExpiring(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	const week = 7 * 24 * time.Hour
	var k auth.Keyring
	if got := k.Expiring(now, week); got != 0 {
		t.Errorf("no token: got %d", got)
	}
	var tokens []auth.Token
	for _, token := range []auth.Token{
		{}, // without expiry
		{ExpiresAt: now.Add(week + time.Microsecond)},
		{ExpiresAt: now.Add(week)},
		{ExpiresAt: now.Add(time.Microsecond)},
		{ExpiresAt: now},
		{ExpiresAt: now.Add(-time.Hour)},
		{ExpiresAt: now.Add(time.Hour), RevokedAt: now.Add(-time.Hour)},
		{CreatedAt: now.Add(-time.Hour), ExpiresAt: now.Add(23 * time.Hour)}, // a session of the console
	} {
		if token.CreatedAt.IsZero() {
			token.CreatedAt = now.Add(-week)
		}
		token.ID, token.Hash = int64(len(tokens)+1), auth.HashOf(auth.Mint())
		token.Name = strconv.FormatInt(token.ID, 10)
		tokens = append(tokens, token)
	}
	named := func(name string, expires, revoked time.Time) {
		tokens = append(tokens, auth.Token{
			ID: int64(len(tokens) + 1), Name: name, Hash: auth.HashOf(auth.Mint()),
			CreatedAt: now.Add(-week), ExpiresAt: expires, RevokedAt: revoked,
		})
	}
	named("rotated", now.Add(time.Hour), time.Time{})
	named("rotated", now.Add(2*week), time.Time{})
	named("revoked successor", now.Add(time.Hour), time.Time{}) // counts
	named("revoked successor", now.Add(2*week), now)
	named("expiring successor", now.Add(time.Hour), time.Time{})
	named("expiring successor", now.Add(2*time.Hour), time.Time{}) // counts
	k.Replace(tokens)
	if got := k.Expiring(now, week); got != 4 {
		t.Errorf("got %d, want 4", got)
	}
}
