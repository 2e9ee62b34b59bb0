package oidc_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/oidc"
	"plantstore/internal/oidc/oidctest"
)

// TestIssuers verifies access tokens with the header and the claims that the documentation of common issuers shows. See
// docs/reference/tokens.md.
func TestIssuers(t *testing.T) {
	t.Parallel()
	type object = oidctest.Object
	const noScope = "none of its values grants a scope"
	aud := oidctest.Audience
	for name, c := range map[string]struct {
		typ        any // nil: none
		claims     object
		scopeClaim string
		value      string // that grants the scope
		refused    string // the reason; empty: accepted; noScope: accepted without a scope
	}{
		"RFC 9068": {
			"at+jwt",
			object{"aud": aud, "sub": "web", "client_id": "web", "jti": "a", "scope": "plants:create"},
			"scope", "plants:create", "",
		},
		"Auth0, default profile": {
			"JWT", object{
				"aud": []any{aud, "https://nursery.auth0.example/userinfo"}, "sub": "web@clients", "azp": "web",
				"gty": "client-credentials", "scope": "plants:create",
			}, "scope", "plants:create", "",
		},
		"Microsoft Entra ID, roles of an application": {
			"JWT", object{
				"aud": aud, "sub": "9b2", "azp": "5c1", "oid": "9b2", "tid": "77d", "uti": "x", "ver": "2.0",
				"roles": []any{"Plants.Create"},
			}, "roles", "Plants.Create", "",
		},
		"Microsoft Entra ID, scopes of a person": {
			"JWT",
			object{"aud": aud, "sub": "AAA", "azp": "5c1", "uti": "x", "ver": "2.0", "scp": "Plants.Create Plants.Read"},
			"scp", "Plants.Create", "",
		},
		"Okta": {
			nil,
			object{"aud": aud, "sub": "web", "cid": "web", "jti": "AT.1", "ver": 1, "scp": []any{"plants:create"}},
			"scp", "plants:create", "",
		},
		"Keycloak": {
			"JWT", object{
				"aud": []any{aud, "account"}, "sub": "f81", "azp": "web", "jti": "trrtcc:1", "typ": "Bearer",
				"realm_access": object{"roles": []any{"offline_access"}}, "scope": "email plants:create",
			}, "scope", "plants:create", "",
		},
		"Google service account": {
			"JWT",
			object{"aud": aud, "sub": "1093", "azp": "1093", "email": "web@nursery.iam.example", "email_verified": true},
			"email", "web@nursery.iam.example", "",
		},
		"Google, email not verified": {
			"JWT",
			object{"aud": aud, "sub": "1093", "email": "web@nursery.iam.example", "email_verified": false},
			"email", "web@nursery.iam.example", "the issuer has not verified the email address (email_verified)",
		},
		"Google, another address with the address as a word": {
			"JWT",
			object{
				"aud": aud, "sub": "1093", "email": `"a web@nursery.iam.example b"@evil.example`, "email_verified": true,
			},
			"email", "web@nursery.iam.example", noScope,
		},
		"Auth0, a subject with the subject of a pod as a word": {
			"JWT",
			object{"aud": aud, "sub": "custom|a system:serviceaccount:shop:web"},
			"sub", "system:serviceaccount:shop:web", noScope,
		},
		"GitHub Actions": {
			"JWT", object{
				"aud": aud, "sub": "repo:nursery/catalogue:ref:refs/heads/main", "jti": "6c2", "repository": "nursery/catalogue",
				"ref": "refs/heads/main",
			}, "sub", "repo:nursery/catalogue:ref:refs/heads/main", "",
		},
		"Kubernetes service account": {
			nil, object{
				"aud": []any{aud}, "sub": "system:serviceaccount:shop:web", "jti": "aed",
				"kubernetes.io": object{"namespace": "shop", "serviceaccount": object{"name": "web", "uid": "14e"}},
			}, "sub", "system:serviceaccount:shop:web", "",
		},
		"Amazon Cognito, without a resource": {
			nil,
			object{"sub": "aaa", "client_id": "web", "token_use": "access", "jti": "b", "scope": "plants/create"},
			"scope", "plants/create", "aud does not have the audience of this store",
		},
		"Amazon Cognito, with a resource": {
			nil,
			object{"aud": aud, "sub": "aaa", "client_id": "web", "token_use": "access", "jti": "b", "scope": "plants/create"},
			"scope", "plants/create", "",
		},
		"dex": {
			nil,
			object{"aud": aud, "sub": "CgQ", "at_hash": "h", "email": "flora@nursery.example", "groups": []any{"gardeners"}},
			"groups", "gardeners", "it has the claim at_hash of an ID token",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				i := oidctest.NewIssuer(issuerURL)
				v := oidc.NewWithTransport(oidc.Config{
					Issuer: i.URL, Audience: aud, ClientID: oidctest.ClientID,
					ScopeClaim: c.scopeClaim, Scopes: map[string]auth.Scopes{c.value: auth.ScopeCreate},
				}, direct{i})
				defer v.Close()
				now, key := time.Now(), i.Key()
				times := object{
					"iss": i.URL, "iat": now.Unix(), "nbf": now.Add(-time.Minute).Unix(), "exp": now.Add(time.Hour).Unix(),
				}
				token := key.Sign(oidctest.Changed(key.Header(), object{"typ": c.typ}), oidctest.Changed(times, c.claims))
				claims, err := v.Verify(t.Context(), token, now, true)
				var invalid *auth.Invalid
				switch {
				case c.refused == noScope && err == nil && claims.Scopes == 0:
				case c.refused != "":
					if !errors.As(err, &invalid) || reasonOf(err) != c.refused {
						t.Errorf("got %v, want the reason %q", err, c.refused)
					}
				case err != nil:
					t.Error(err)
				case claims.Subject != c.claims["sub"] || claims.Scopes != auth.ScopeCreate:
					t.Errorf("got %+v", claims)
				}
			})
		})
	}
}

// TestIDs reads the claims of a JWT that an operator has found. Without a jti only its subject can be revoked.
func TestIDs(t *testing.T) {
	t.Parallel()
	i := oidctest.NewIssuer(issuerURL)
	issuer, id, err := oidc.IDs(i.JWT(time.Now(), oidctest.Object{"jti": "a"}))
	if issuer != i.URL || id != "a" || err != nil {
		t.Errorf("got %q, %q, %v; want the issuer and a", issuer, id, err)
	}
	const want = "it has no jti, so it cannot be revoked alone; revoke its subject with --subject"
	if _, _, err := oidc.IDs(i.JWT(time.Now(), oidctest.Object{"jti": nil})); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
