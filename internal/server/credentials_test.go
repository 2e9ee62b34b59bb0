package server_test

import (
	"context"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
)

// The challenges of RFC 6750 section 3 and the messages of invalid credentials.
const (
	challengeNone      = `Bearer realm="plantstore"`
	challengeMalformed = challengeNone + `, error="invalid_request", error_description="` + textMalformed + `"`
	challengeInvalid   = challengeNone + `, error="invalid_token", error_description="` + textInvalid + `"`
	challengeTwo       = challengeNone + `, error="invalid_request", error_description="` + textTwo + `"`
	challengeScope     = `Bearer realm="plantstore", error="insufficient_scope", scope="plants:create"`

	textNone = "the request has no bearer credential; send Authorization: Bearer TOKEN " +
		"with a token from the store's operator"
	textInvalid   = "invalid credential; send the whole token or request another from the store's operator"
	textMalformed = "the Authorization header is malformed; send Authorization: Bearer TOKEN"
	textTwo       = "the request has more than one Authorization header; send one"
	textScope     = "the credential lacks the scope plants:create"
)

// startWithTokens starts a server with tokens of every kind and returns their secrets by name.
func startWithTokens(t *testing.T, change ...func(*setup)) (h *harness, secrets map[string]string) {
	t.Helper()
	secrets = map[string]string{}
	h = start(t, append(change, func(s *setup) {
		s.seed = func(e *sqlite.Engine) {
			now, all := time.Now(), scopesOf(t, "plants:create plants:read admin")
			for _, token := range []auth.Token{
				{Name: "reader", Scopes: scopesOf(t, "plants:read")},
				{Name: "administrator", Scopes: scopesOf(t, "plants:read admin")},
				{Name: "without scopes"},
				{Name: "all scopes", Scopes: all},
				{Name: "expired", Scopes: all, ExpiresAt: now.Add(-time.Second)},
				{Name: "valid for an hour", Scopes: auth.ScopeCreate, ExpiresAt: now.Add(time.Hour)},
				{Name: "revoked", Scopes: all},
				{Name: "revoked and expired", Scopes: all, ExpiresAt: now.Add(-time.Second)},
				{Name: "revoked by a clock ahead", Scopes: all},
			} {
				secrets[token.Name] = mint(t, e, token)
			}
			for name, at := range map[string]time.Time{
				"revoked": now, "revoked and expired": now, "revoked by a clock ahead": now.Add(time.Hour),
			} {
				if _, err := e.RevokeTokens(t.Context(), store.Selector{Name: name}, at, audit.Origin{}); err != nil {
					t.Fatal(err)
				}
			}
		}
	})...)
	return h, secrets
}

func TestCredentialHeader(t *testing.T) { overBoth(t, testCredentialHeader) }

func testCredentialHeader(t *testing.T, over func(*setup)) {
	h := start(t, over)
	const body = `{"id":1,"name":"A"}`
	none := refused(40101, textNone, "WWW-Authenticate", challengeNone)
	malformed := refused(40051, textMalformed, "WWW-Authenticate", challengeMalformed)
	two := refused(40051, textTwo, "WWW-Authenticate", challengeTwo)
	runCases(t, h, []requestCase{
		{"none", post(body, "-Authorization"), none},
		{"empty header", post(body, "Authorization: "), none},
		{"other scheme", post(body, "Authorization: Basic cGxhbnQ6c3RvcmU="), none},
		{"token without a scheme", post(body, "Authorization: {token}"), none},
		{"in the query", message("POST /plants?access_token={token} HTTP/1.1", body, "-Authorization"), none},
		{"in the body", post(`{"id":1,"name":"A","access_token":"`+h.token+`"}`, "-Authorization"), none},
		{"in a cookie", post(body, "-Authorization", "Cookie: access_token={token}"), none},
		{"for a proxy", post(body, "-Authorization", "Proxy-Authorization: Bearer {token}"), none},
		{"no token", post(body, "Authorization: Bearer"), malformed},
		{"space for a token", post(body, "Authorization: Bearer   "), malformed},
		{"two tokens", post(body, "Authorization: Bearer {token} {token}"), malformed},
		{"comma", post(body, "Authorization: Bearer {token}, Bearer {token}"), malformed},
		{"quotes", post(body, `Authorization: Bearer "{token}"`), malformed},
		{"beyond ASCII", post(body, "Authorization: Bearer café"), malformed},
		{"two headers", post(body, "+Authorization: Bearer {token}"), two},
		{"two headers of other schemes", post(body, "+Authorization: Basic cGxhbnQ6c3RvcmU="), two},
		{"before the media type", post(body, "-Authorization", "-Content-Type"), none},
		{"before the body", post(`{`, "-Authorization"), none},
		{
			"before the size of the body", post("", "-Authorization", "Content-Length: 100000", "Expect: 100-continue"),
			closing(none),
		},
	})
	h.notStored(1)
	valid := func(id, header string) string { return post(`{"id":`+id+`,"name":"A"}`, header) }
	query := message("POST /plants?access_token=x HTTP/1.1", `{"id":5,"name":"A"}`)
	runCases(t, h, []requestCase{
		{"scheme in lower case", valid("2", "Authorization: bearer {token}"), created(`{"name":"A"}`)},
		{"scheme in upper case", valid("3", "Authorization: BEARER {token}"), created(`{"name":"A"}`)},
		{"several spaces", valid("4", "Authorization: Bearer    {token}   "), created(`{"name":"A"}`)},
		{"another in the query", query, created(`{"name":"A"}`)},
	})
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	h, secrets := startWithTokens(t)
	bearer := func(secret string) string { return post(`{"id":1,"name":"A"}`, "Authorization: Bearer "+secret) }
	with := func(name string) string { return bearer(secrets[name]) }
	invalid := refused(40102, textInvalid, "WWW-Authenticate", challengeInvalid)
	scope := refused(40301, textScope, "WWW-Authenticate", challengeScope)
	changed := []byte(h.token)
	changed[10]++ // the next digit
	if changed[10] == 'z'+1 || changed[10] == 'Z'+1 || changed[10] == '9'+1 {
		changed[10] = '0'
	}
	runCases(t, h, []requestCase{
		{"unknown", bearer(auth.Mint()), invalid},
		{"changed", bearer(string(changed)), invalid},
		{"shortened", bearer(h.token[:20]), invalid},
		{"other case", bearer(swapCase(h.token)), invalid},
		{"not a token", bearer("00aa11"), invalid},
		{"expired", with("expired"), invalid},
		{"revoked", with("revoked"), invalid},
		{"revoked and expired", with("revoked and expired"), invalid},
		{"revoked by a clock ahead", with("revoked by a clock ahead"), invalid},
		{"may read", with("reader"), scope},
		{"may administer", with("administrator"), scope},
		{"may do nothing", with("without scopes"), scope},
	})
	h.notStored(1)
	same(t, h.send(with("all scopes")), created(`{"name":"A"}`))
	if got := h.stored(1).CreatedBy; got != "all scopes" {
		t.Errorf("created by: got %q, want all scopes", got)
	}
	same(t, h.send(with("valid for an hour")), created(`{"name":"A"}`, "Idempotent-Replayed", "true"))
}

func swapCase(text string) string {
	out := []byte(text)
	for i, c := range out {
		if 'a' <= c|0x20 && c|0x20 <= 'z' {
			out[i] ^= 0x20
		}
	}
	return string(out)
}

// The server checks the credential before it sends 100 Continue.
func TestCredentialIsCheckedBeforeTheBody(t *testing.T) {
	overBoth(t, testCredentialIsCheckedBeforeTheBody)
}

func testCredentialIsCheckedBeforeTheBody(t *testing.T, over func(*setup)) {
	h := start(t, over)
	const body = `{"id":1,"name":"A"}`
	head := post("", "Content-Length: 19", "Expect: 100-continue")

	bad := h.dial(t, h.public)
	bad.write(head) // {token} is not a token68
	same(t, bad.read("POST"), closing(refused(40051, textMalformed, "WWW-Authenticate", challengeMalformed)))
	bad.closeWrite()
	bad.expectClosed()

	good := h.dial(t, h.public)
	good.write(h.fill(head))
	if a := good.read("POST"); a.Status != 100 || len(a.Header) != 0 {
		t.Fatalf("got %+v, want 100 Continue", a)
	}
	good.write(body)
	same(t, good.read("POST"), created(`{"name":"A"}`))
	good.write(h.fill(post(body))) // on the same connection
	same(t, good.read("POST"), created(`{"name":"A"}`, "Idempotent-Replayed", "true"))
}

// A client that sends its body without waiting receives 401 and can reuse the connection.
func TestRefusedCredentialKeepsConnection(t *testing.T) {
	overBoth(t, testRefusedCredentialKeepsConnection)
}

func testRefusedCredentialKeepsConnection(t *testing.T, over func(*setup)) {
	h := start(t, over)
	c := h.dial(t, h.public)
	c.write(post(`{"id":1,"name":"A"}`, "-Authorization"))
	same(t, c.read("POST"), refused(40101, textNone, "WWW-Authenticate", challengeNone))
	c.write(h.fill(post(`{"id":1,"name":"A"}`)))
	same(t, c.read("POST"), created(`{"name":"A"}`))
}

// Every request that starts a second after a change of a token uses the change.
func TestTokenChangesApplyWithinASecond(t *testing.T) {
	t.Parallel()
	h := start(t)
	operator, err := sqlite.Open(t.Context(), sqlite.Config{Path: h.path, MustExist: true, Log: h.config.Log})
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Close()

	t.Run("created", func(t *testing.T) {
		secret := mint(t, operator, auth.Token{Name: "second", Scopes: auth.ScopeCreate})
		awaitCode(t, h, secret, plant.CodeBodyMissing, plant.CodeCredentialInvalid)
	})
	t.Run("revoked", func(t *testing.T) {
		if _, err := operator.RevokeTokens(
			context.Background(), store.Selector{Name: "gardener"}, time.Now(), audit.Origin{},
		); err != nil {
			t.Fatal(err)
		}
		awaitCode(t, h, h.token, plant.CodeCredentialInvalid, plant.CodeBodyMissing)
	})
	t.Run("revoked by hash", func(t *testing.T) {
		secret := mint(t, operator, auth.Token{Name: "third", Scopes: auth.ScopeCreate})
		awaitCode(t, h, secret, plant.CodeBodyMissing, plant.CodeCredentialInvalid)
		if _, err := operator.RevokeTokens(
			context.Background(), store.Selector{Hash: auth.HashOf(secret)}, time.Now(), audit.Origin{},
		); err != nil {
			t.Fatal(err)
		}
		awaitCode(t, h, secret, plant.CodeCredentialInvalid, plant.CodeBodyMissing)
	})
}

// awaitCode sends requests without a body until a response has the code want. Until then, responses may have the code
// before; the store's tests measure for how long. A valid credential without a body gives CodeBodyMissing.
func awaitCode(t *testing.T, h *harness, secret string, want, before plant.Code) {
	t.Helper()
	late := time.Now().Add(wait)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	c := h.dial(t, h.public)
	for {
		c.write(post("", "Authorization: Bearer "+secret))
		switch code := c.read("POST").code(t); {
		case code == want:
			return
		case code != before:
			t.Fatalf("got code %d, want %d or, before, %d", code, want, before)
		case time.Now().After(late):
			t.Fatalf("got code %d for %s after the change, want %d", code, wait, want)
		}
		<-tick.C
	}
}
