package oidc_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/oidc/oidctest"
)

// TestBadIDTokens changes one claim of a good ID token each.
func TestBadIDTokens(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	for name, row := range map[string]struct {
		changes oidctest.Object
		want    string
	}{
		"other issuer":    {oidctest.Object{"iss": "https://evil.example"}, "iss is another issuer"},
		"no issuer":       {oidctest.Object{"iss": nil}, "iss is another issuer"},
		"other client":    {oidctest.Object{"aud": "web-shop"}, "aud does not have the client id of the console"},
		"no audience":     {oidctest.Object{"aud": nil}, "aud does not have the client id of the console"},
		"audience of API": {oidctest.Object{"aud": oidctest.Audience}, "aud does not have the client id of the console"},
		"nested audience": {
			oidctest.Object{"aud": []any{[]any{"console"}}},
			"aud has an entry that is not a string",
		},
		"two audiences": {
			oidctest.Object{"aud": []any{"console", "web-shop"}},
			"azp is not the client id of the console",
		},
		"other azp":       {oidctest.Object{"azp": "web-shop"}, "azp is not the client id of the console"},
		"null azp":        {oidctest.Object{"azp": []any{"console"}}, "azp is not the client id of the console"},
		"other nonce":     {oidctest.Object{"nonce": "x"}, "nonce is that of another sign-in"},
		"no nonce":        {oidctest.Object{"nonce": nil}, "nonce is that of another sign-in"},
		"nonce as a list": {oidctest.Object{"nonce": []any{"x"}}, "nonce is that of another sign-in"},
		"expired":         {oidctest.Object{"iat": at(-time.Hour), "exp": at(-2 * time.Minute)}, "exp is in the past"},
		"of the future":   {oidctest.Object{"iat": at(2 * time.Minute)}, "nbf or iat is in the future"},
		"not before":      {oidctest.Object{"nbf": at(2 * time.Minute)}, "nbf or iat is in the future"},
		"no exp":          {oidctest.Object{"exp": nil}, "exp is missing or not a number of seconds since 1970"},
		"no iat":          {oidctest.Object{"iat": nil}, "iat is missing or not a number of seconds since 1970"},
		"a year": {
			oidctest.Object{"exp": at(365 * 24 * time.Hour)},
			"the time from iat to exp is not between 0 and 30 days",
		},
		"no subject": {oidctest.Object{"sub": nil}, "sub is missing, not a string, empty or longer than 255 bytes"},
		"long subject": {
			oidctest.Object{"sub": strings.Repeat("x", 256)},
			"sub is missing, not a string, empty or longer than 255 bytes",
		},
		"jti is a number":   {oidctest.Object{"jti": 7}, "jti is missing, not a string, empty or longer than 255 bytes"},
		"invisible subject": {oidctest.Object{"sub": "a\u202eb"}, "sub has an invisible character"},
		"secret subject":    {oidctest.Object{"sub": auth.Mint()}, "sub looks like a secret"},
		"group is a number": {oidctest.Object{"groups": []any{1}}, "groups has an entry that is not a string"},
		"groups an object": {
			oidctest.Object{"groups": oidctest.Object{"plant-admins": true}},
			"groups is not a string and not an array",
		},
		"large": {oidctest.Object{"padding": strings.Repeat("x", 70<<10)}, "it is longer than 65536 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(now)) //nolint:forbidigo // the bubble begins in the year 2000
				i := oidctest.NewIssuer(issuerURL)
				c := newClient(t, i, clientConfig())
				i.SetPerson(row.changes)
				flow, response := begin(t, i, c)
				claims, err := c.Finish(t.Context(), flow, response, now)
				if got := idReason(err); got != "id token: "+row.want || claims != nil {
					t.Errorf("got %+v, %q, want %q", claims, got, row.want)
				}
			})
		})
	}
}

// TestForgedIDTokens has ID tokens with another header or signature.
func TestForgedIDTokens(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, row := range map[string]struct {
		sign func(k oidctest.Key, header, claims oidctest.Object) string
		want string
	}{
		"access token": {func(k oidctest.Key, header, claims oidctest.Object) string {
			return k.Sign(oidctest.Changed(header, oidctest.Object{"typ": "at+jwt"}), claims)
		}, "typ is not jwt"},
		"logout token": {func(k oidctest.Key, header, claims oidctest.Object) string {
			return k.Sign(oidctest.Changed(header, oidctest.Object{"typ": "logout+jwt"}), claims)
		}, "typ is not jwt"},
		"critical": {func(k oidctest.Key, header, claims oidctest.Object) string {
			return k.Sign(oidctest.Changed(header, oidctest.Object{"crit": []any{"exp"}}), claims)
		}, "the header has crit, which is not supported"},
		"other key": {func(_ oidctest.Key, header, claims oidctest.Object) string {
			return oidctest.NewKey("key-1", "ES256").Sign(header, claims)
		}, "the signature is invalid"},
		"unknown key": {func(_ oidctest.Key, header, claims oidctest.Object) string {
			return oidctest.NewKey("key-9", "ES256").Sign(oidctest.Changed(header, oidctest.Object{"kid": "key-9"}), claims)
		}, "the issuer has no key with this kid for this alg"},
		"none": {func(_ oidctest.Key, _, claims oidctest.Object) string {
			token := oidctest.NewKey("", "ES256").Sign(oidctest.Object{"alg": "none"}, claims)
			return token
		}, "alg is not an accepted algorithm"},
		"HMAC": {func(_ oidctest.Key, header, claims oidctest.Object) string {
			return oidctest.NewKey("", "ES256").Sign(oidctest.Changed(header, oidctest.Object{"alg": "HS256"}), claims)
		}, "alg is not an accepted algorithm"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				i := oidctest.NewIssuer(issuerURL)
				c := newClient(t, i, clientConfig())
				flow, response := begin(t, i, c)
				claims := oidctest.Changed(i.IDClaims(now), oidctest.Object{"nonce": flow.Nonce})
				header := oidctest.Changed(i.Key().Header(), oidctest.Object{"typ": "JWT"})
				answerToken(i, http.StatusOK, fmt.Sprintf(`{"access_token":"x","id_token":%q}`, row.sign(i.Key(), header, claims)))
				got, err := c.Finish(t.Context(), flow, response, now)
				if idReason(err) != "id token: "+row.want || got != nil {
					t.Errorf("got %+v, %v, want %q", got, err, row.want)
				}
			})
		})
	}
}
