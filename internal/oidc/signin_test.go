package oidc_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/oidc"
	"plantstore/internal/oidc/oidctest"
)

const redirectURL = "https://console.example/sign-in/oidc/callback"

func clientConfig() oidc.ClientConfig {
	return oidc.ClientConfig{
		ID: oidctest.ClientID, Secret: oidctest.ClientSecret, RedirectURL: redirectURL, Scopes: []string{"openid", "groups"},
		Claim: "groups", Grants: map[string]auth.Scopes{"plant-admins": auth.ScopeAdmin, "staff": auth.ScopeRead},
	}
}

// newClient returns a client of an issuer without a network.
func newClient(t *testing.T, i *oidctest.Issuer, c oidc.ClientConfig) *oidc.Client {
	t.Helper()
	client := oidc.NewClient(start(t, i), c)
	return client
}

// begin begins a sign-in and returns the response of the issuer.
func begin(t *testing.T, i *oidctest.Issuer, c *oidc.Client) (oidc.Flow, url.Values) {
	t.Helper()
	address, flow, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	code := i.NewCode(q.Get("nonce"), q.Get("code_challenge"), q.Get("redirect_uri"))
	return flow, url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {i.URL}}
}

func TestAuthorizationRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, oidctest.NewIssuer(issuerURL), clientConfig())
		address, flow, err := c.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		challenge := sha256.Sum256([]byte(flow.Verifier))
		want := issuerURL + "/authorize?" + url.Values{
			"client_id": {"console"}, "code_challenge": {oidctest.Base64(challenge[:])}, "code_challenge_method": {"S256"},
			"nonce": {flow.Nonce}, "redirect_uri": {redirectURL}, "response_type": {"code"}, "scope": {"openid groups"},
			"state": {flow.State},
		}.Encode()
		if address != want {
			t.Errorf("got %s\nwant %s", address, want)
		}
		_, second, err := c.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{flow.State, flow.Nonce, flow.Verifier} {
			if len(text) != 43 || strings.Contains(fmt.Sprint(second), text) { // 256 bits
				t.Errorf("%q is short, or the same in two sign-ins", text)
			}
		}
	})
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := oidctest.NewIssuer(issuerURL)
		i.SetPerson(oidctest.Object{"jti": "a"})
		c := newClient(t, i, clientConfig())
		flow, response := begin(t, i, c)
		claims, err := c.Finish(t.Context(), flow, response, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if claims.Subject != "flora" || claims.ID != "a" || claims.Name != "flora" || claims.Issuer != issuerURL ||
			claims.Scopes != auth.ScopeAdmin|auth.ScopeRead {
			t.Errorf("got %+v", claims)
		}
		if _, err := c.Finish(t.Context(), flow, response, time.Now()); idReason(err) !=
			"sign-in: the issuer refused the code (invalid_grant)" {
			t.Errorf("the code again: got %v", err)
		}
	})
}

// idReason returns the reason of an *auth.Invalid, else the text of the error.
func idReason(err error) string {
	var invalid *auth.Invalid
	switch {
	case errors.As(err, &invalid):
		return invalid.Reason
	case err != nil:
		return "error: " + err.Error()
	}
	return ""
}

// An authorization endpoint may have a query (RFC 6749 section 3.1).
func TestEndpointWithQuery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := oidctest.NewIssuer(issuerURL)
		answerMetadata(i, fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q,"authorization_endpoint":%q}`,
			issuerURL, issuerURL+"/keys", issuerURL+"/authorize?policy=a"))
		address, _, err := newClient(t, i, clientConfig()).Begin(t.Context())
		if err != nil || !strings.HasPrefix(address, issuerURL+"/authorize?policy=a&client_id=console&") {
			t.Errorf("got %s, %v", address, err)
		}
	})
}

// answerToken sets the response to token requests.
func answerToken(i *oidctest.Issuer, status int, body string) {
	own := oidctest.NewIssuer(i.URL)
	own.Publish(i.Key())
	i.Answer(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/token" {
			own.ServeHTTP(w, r)
			return
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
}

// TestBadResponses has responses to a sign-in that another site could forge.
func TestBadResponses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := oidctest.NewIssuer(issuerURL)
		c := newClient(t, i, clientConfig())
		flow, good := begin(t, i, c)
		with := func(name string, values ...string) url.Values {
			changed := url.Values{}
			for key, value := range good {
				changed[key] = value
			}
			changed[name] = values
			return changed
		}
		for name, row := range map[string]struct {
			response url.Values
			want     string
		}{
			"no state":      {with("state"), "sign-in: state is that of another sign-in"},
			"other state":   {with("state", "x"), "sign-in: state is that of another sign-in"},
			"state twice":   {with("state", flow.State, flow.State), "sign-in: state is there twice"},
			"other issuer":  {with("iss", "https://evil.example"), "sign-in: iss is missing or another issuer"},
			"no issuer":     {with("iss"), "sign-in: iss is missing or another issuer"}, // the metadata announces it
			"no code":       {with("code"), "sign-in: code is missing or too long"},
			"code twice":    {with("code", "a", "b"), "sign-in: code is there twice"},
			"long code":     {with("code", strings.Repeat("x", 5<<10)), "sign-in: code is missing or too long"},
			"refusal":       {with("error", "access_denied"), "error: the issuer refused the sign-in: access_denied"},
			"refusal, HTML": {with("error", "<b>"), "error: the issuer refused the sign-in: unknown_error"},
			"injected code": {
				with("code", i.NewCode("x", "y", redirectURL)),
				"sign-in: the issuer refused the code (invalid_grant)",
			},
		} {
			if claims, err := c.Finish(t.Context(), flow, row.response, time.Now()); idReason(err) != row.want || claims != nil {
				t.Errorf("%s: got %+v, %v, want %q", name, claims, err, row.want)
			}
		}
		empty := url.Values{"code": {"x"}, "iss": {issuerURL}}
		if _, err := c.Finish(t.Context(), oidc.Flow{}, empty, time.Now()); err == nil {
			t.Error("a flow without a state is accepted")
		}
	})
}

// TestBadTokenEndpoint has token endpoints that fail or attack.
func TestBadTokenEndpoint(t *testing.T) {
	t.Parallel()
	at := issuerURL + "/token: "
	const notJSON = "the response is incomplete, or not JSON with an access_token"
	for name, row := range map[string]struct {
		status     int
		body, want string
	}{
		"500":         {500, "", "error: " + at + "status 500"},
		"400 in HTML": {400, "<html>", "error: " + at + "status 400"},
		"no JSON":     {200, "<html>", "error: " + at + notJSON},
		"no ID token": {
			200, `{"access_token":"x"}`,
			"sign-in: the response has no ID token; the scopes must include openid",
		},
		"no access token": {200, `{"id_token":"x"}`, "error: " + at + notJSON},
		"no JWT":          {200, `{"access_token":"x","id_token":"x"}`, "id token: it does not have three parts"},
		"wrong secret":    {401, `{"error":"invalid_client"}`, "error: the issuer refused the sign-in: invalid_client"},
		"error of HTML":   {400, `{"error":"<script>"}`, "error: the issuer refused the sign-in: unknown_error"},
		"huge": {
			200, `{"access_token":"x","id_token":"` + strings.Repeat("x", 2<<20) + `"}`,
			"error: " + at + notJSON,
		},
		"outage":          {503, `{"error":"temporarily_unavailable"}`, "error: " + at + "status 503"},
		"outage and code": {500, `{"error":"invalid_grant"}`, "error: " + at + "status 500"},
		"error and 200": {
			200, `{"access_token":"x","id_token":"x","error":"invalid_grant"}`,
			"sign-in: the issuer refused the code (invalid_grant)",
		},
		"ID token number": {
			200, `{"access_token":"x","id_token":1}`,
			"sign-in: the response has no ID token; the scopes must include openid",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				i := oidctest.NewIssuer(issuerURL)
				c := newClient(t, i, clientConfig())
				flow, response := begin(t, i, c)
				answerToken(i, row.status, row.body)
				if claims, err := c.Finish(t.Context(), flow, response, time.Now()); idReason(err) != row.want || claims != nil {
					t.Errorf("got %+v, %v, want %q", claims, err, row.want)
				}
			})
		})
	}
}

// A redirect of the token endpoint would repeat the code and the secret at another address.
func TestTokenEndpointRedirects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const victim = "https://victim.example/"
		i := oidctest.NewIssuer(issuerURL)
		requests := &recorder{RoundTripper: direct{i}, urls: map[string]bool{}}
		v := oidc.NewWithTransport(config(i), requests)
		t.Cleanup(v.Close)
		c := oidc.NewClient(v, clientConfig())
		for _, status := range []int{302, 303, 307, 308} {
			i.Answer(nil)
			flow, response := begin(t, i, c)
			i.Answer(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, victim+"?code=x", status) })
			_, err := c.Finish(t.Context(), flow, response, time.Now())
			const want = "error: " + issuerURL + "/token: the token endpoint of the issuer redirects"
			if got := idReason(err); got != want { // without the address, which may have the code
				t.Errorf("%d: got %q, want %q", status, got, want)
			}
		}
		requests.mu.Lock()
		defer requests.mu.Unlock()
		if requests.urls[victim] || !requests.urls[issuerURL+"/token"] {
			t.Errorf("got requests to %v, want one to the token endpoint, and none to another host", requests.urls)
		}
	})
}

// The endpoints of an issuer with TLS have TLS, and are no addresses of another kind.
func TestBadEndpoints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, endpoint := range []string{
			"", "http://127.0.0.1/authorize", "http://login.example/a", "javascript:alert(1)", "//login.example/a",
			"https://flora:x@login.example/a", "https://login.example/a#b", "file:///etc/passwd", "/authorize",
			"https://login.example/a#",
		} {
			for _, member := range []string{"authorization_endpoint", "token_endpoint"} {
				i := oidctest.NewIssuer(issuerURL)
				endpoints := map[string]string{"authorization_endpoint": issuerURL + "/a", "token_endpoint": issuerURL + "/token"}
				endpoints[member] = endpoint
				answerMetadata(i, fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q,"authorization_endpoint":%q,"token_endpoint":%q}`,
					issuerURL, issuerURL+"/keys", endpoints["authorization_endpoint"], endpoints["token_endpoint"]))
				c := newClient(t, i, clientConfig())
				_, flow, err := c.Begin(t.Context())
				if member == "token_endpoint" {
					_, err = c.Finish(t.Context(), flow, url.Values{"state": {flow.State}, "code": {"x"}}, time.Now())
				}
				if err == nil || !strings.Contains(err.Error(), member) && !strings.Contains(err.Error(), "has no TLS") {
					t.Errorf("%s %q: got %v", member, endpoint, err)
				}
			}
		}
	})
}

// answerMetadata sets the metadata of an issuer.
func answerMetadata(i *oidctest.Issuer, text string) {
	own := oidctest.NewIssuer(i.URL)
	own.Publish(i.Key())
	i.Answer(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration") {
			_, _ = w.Write([]byte(text))
			return
		}
		own.ServeHTTP(w, r)
	})
}

// The client sends its secret in the way that the issuer supports, and proves itself by PKCE alone without a secret.
func TestClientAuthentication(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, row := range map[string]struct {
			secret, methods string
			header          bool
			form            url.Values
		}{
			"no list": {"a:b", ``, true, url.Values{}},
			"basic": {
				"a:b",
				`,"token_endpoint_auth_methods_supported":["client_secret_post","client_secret_basic"]`, true,
				url.Values{},
			},
			"post": {
				"a:b", `,"token_endpoint_auth_methods_supported":["client_secret_post"]`, false,
				url.Values{"client_id": {"console"}, "client_secret": {"a:b"}},
			},
			"public": {"", ``, false, url.Values{"client_id": {"console"}}},
		} {
			i := oidctest.NewIssuer(issuerURL)
			answerMetadata(i, fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q,"authorization_endpoint":%q,"token_endpoint":%q%s}`,
				issuerURL, issuerURL+"/keys", issuerURL+"/authorize", issuerURL+"/token", row.methods))
			config := clientConfig()
			config.Secret = row.secret
			c := newClient(t, i, config)
			flow, response := begin(t, i, c)
			var got http.Header
			var form url.Values
			i.Answer(func(w http.ResponseWriter, r *http.Request) {
				_ = r.ParseForm()
				got, form = r.Header, r.PostForm
				w.WriteHeader(http.StatusInternalServerError)
			})
			_, _ = c.Finish(t.Context(), flow, response, time.Now())
			want := ""
			if row.header {
				want = "Basic Y29uc29sZTphJTNBYg==" // console:a%3Ab
			}
			if got.Get("Authorization") != want || form.Get("client_id") != row.form.Get("client_id") ||
				form.Get("client_secret") != row.form.Get("client_secret") || form.Get("code_verifier") != flow.Verifier {
				t.Errorf("%s: got %q and %v", name, got.Get("Authorization"), form)
			}
		}
	})
}

// An issuer that supports PKCE without S256 is refused: a plain challenge protects nothing.
func TestPKCEIsRequired(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := oidctest.NewIssuer(issuerURL)
		answerMetadata(i, fmt.Sprintf(
			`{"issuer":%q,"jwks_uri":%q,"authorization_endpoint":%q,"code_challenge_methods_supported":["plain"]}`,
			issuerURL, issuerURL+"/keys", issuerURL+"/authorize"))
		if _, _, err := newClient(t, i, clientConfig()).Begin(t.Context()); err == nil ||
			!strings.Contains(err.Error(), "PKCE") {
			t.Errorf("got %v", err)
		}
	})
}

// A sign-in waits at most 10 s for a token endpoint.
func TestSlowTokenEndpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := oidctest.NewIssuer(issuerURL)
		c := newClient(t, i, clientConfig())
		flow, response := begin(t, i, c)
		i.Answer(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		began := time.Now()
		_, err := c.Finish(t.Context(), flow, response, began)
		if took := time.Since(began); err == nil || took != 10*time.Second {
			t.Errorf("got %v after %s, want an error after 10 s", err, took)
		}
	})
}

// An issuer that has not responded since the start is no reason to wait for longer than 5 s.
func TestSignInWithoutIssuer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := oidctest.NewIssuer(issuerURL)
		i.Answer(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		c := newClient(t, i, clientConfig())
		began := time.Now()
		_, _, err := c.Begin(context.Background())
		if took := time.Since(began); !errors.Is(err, oidc.ErrNoKeys) || took != 5*time.Second {
			t.Errorf("got %v after %s", err, took)
		}
	})
}

// An email address grants access only if the issuer has verified it, and a string is one value.
func TestGrants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for name, row := range map[string]struct {
			claim   string
			changes oidctest.Object
			want    auth.Scopes
			reason  string
		}{
			"verified": {"email", oidctest.Object{"email_verified": true}, auth.ScopeAdmin, ""},
			"not verified": {
				"email",
				oidctest.Object{"email_verified": false},
				0,
				"id token: the issuer has not verified the email address (email_verified)",
			},
			"not stated": {"email", nil, 0, "id token: the issuer has not verified the email address (email_verified)"},
			"as a string": {
				"email",
				oidctest.Object{"email_verified": "true"},
				0,
				"id token: the issuer has not verified the email address (email_verified)",
			},
			"other address": {"email", oidctest.Object{"email": "x@plants.example"}, 0, ""},
			"other case":    {"email", oidctest.Object{"email": "Flora@plants.example", "email_verified": true}, 0, ""},
			"hosted domain": {"hd", oidctest.Object{"hd": "plants.example"}, auth.ScopeRead, ""},
			"words":         {"name", oidctest.Object{"name": "x plants.example"}, 0, ""},
			"no claim":      {"roles", nil, 0, ""},
			"null":          {"roles", oidctest.Object{"roles": []any{}}, 0, ""},
		} {
			i := oidctest.NewIssuer(issuerURL)
			config := clientConfig()
			config.Claim = row.claim
			config.Grants = map[string]auth.Scopes{"flora@plants.example": auth.ScopeAdmin, "plants.example": auth.ScopeRead}
			c := newClient(t, i, config)
			i.SetPerson(row.changes)
			flow, response := begin(t, i, c)
			claims, err := c.Finish(t.Context(), flow, response, time.Now())
			if idReason(err) != row.reason || err == nil && claims.Scopes != row.want {
				t.Errorf("%s: got %+v, %v, want %s, %q", name, claims, err, row.want, row.reason)
			}
		}
	})
}
