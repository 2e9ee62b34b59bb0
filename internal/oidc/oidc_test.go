package oidc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/auth"
	"plantstore/internal/oidc"
	"plantstore/internal/oidc/oidctest"
)

const issuerURL = "https://login.example/realm"

// direct sends requests to a handler without a network, so that synctest can be used.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	rec := httptest.NewRecorder()
	inner := r.Clone(r.Context())
	if path, ok := trimRealm(r.URL.Path); ok {
		inner.URL.Path = path
	}
	d.ServeHTTP(rec, inner)
	res := rec.Result()
	res.Request = r
	return res, nil
}

func trimRealm(path string) (string, bool) {
	const realm = "/realm"
	if len(path) > len(realm) && path[:len(realm)] == realm {
		return path[len(realm):], true
	}
	return path, false
}

func config(i *oidctest.Issuer) oidc.Config {
	return oidc.Config{
		Issuer: i.URL, Audience: oidctest.Audience, ClientID: oidctest.ClientID,
		Scopes: map[string]auth.Scopes{"plants:create": auth.ScopeCreate},
	}
}

// start starts a verifier of an issuer without a network.
func start(t *testing.T, i *oidctest.Issuer) *oidc.Verifier {
	t.Helper()
	v := oidc.NewWithTransport(config(i), direct{i})
	t.Cleanup(v.Close)
	return v
}

// reasonOf returns the reason of an *auth.Invalid without its prefix, else the text of the error.
func reasonOf(err error) string {
	var invalid *auth.Invalid
	switch {
	case errors.As(err, &invalid):
		return invalid.Reason[len("jwt: "):]
	case err != nil:
		return "error: " + err.Error()
	}
	return ""
}

// recorder records the URLs of requests.
type recorder struct {
	http.RoundTripper

	mu   sync.Mutex
	urls map[string]bool // guarded by mu
}

func (r *recorder) RoundTrip(req *http.Request) (*http.Response, error) {
	r.mu.Lock()
	r.urls[req.URL.String()] = true
	r.mu.Unlock()
	return r.RoundTripper.RoundTrip(req)
}

// TestBadJWTs shows that a verifier refuses bad JWTs, and requests no URL that one of them names.
func TestBadJWTs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i, keys := oidctest.NewIssuer(issuerURL), oidctest.NewKeys()
		i.Publish(keys.Published()...)
		requests := &recorder{RoundTripper: direct{i}, urls: map[string]bool{}}
		v := oidc.NewWithTransport(config(i), requests)
		now := time.Now()
		if _, err := v.Verify(t.Context(), i.JWT(now, nil), now, true); err != nil {
			t.Fatalf("the good JWT: %v", err)
		}
		bad := oidctest.BadJWTs(i, keys, now)
		if len(bad) < 100 {
			t.Errorf("only %d bad JWTs", len(bad))
		}
		for _, row := range bad {
			claims, err := v.Verify(t.Context(), row.JWT, now, true)
			if reasonOf(err) != row.Reason || claims != nil {
				t.Errorf("%s: got %+v, %v, want the reason %q", row.Name, claims, err, row.Reason)
			}
		}
		v.Close()
		want := map[string]bool{issuerURL + "/.well-known/openid-configuration": true, issuerURL + "/keys": true}
		if diff := cmp.Diff(want, requests.urls); diff != "" {
			t.Errorf("requested URLs (-want +got):\n%s", diff)
		}
	})
}

// TestUntrustedIssuer shows that an issuer needs a certificate of a trusted authority.
func TestUntrustedIssuer(t *testing.T) {
	t.Parallel()
	i := oidctest.NewIssuer("")
	server := httptest.NewUnstartedServer(i)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)
	server.StartTLS()
	defer server.Close()
	i.URL = server.URL
	lines := make(lineWriter, 100)
	c := config(i)
	c.Log = slog.New(slog.NewTextHandler(lines, nil))
	v := oidc.New(c)
	defer v.Close()
	if line := <-lines; !strings.Contains(line, "failed to verify certificate") {
		t.Errorf("the log has no cause:\n%s", line)
	}
	_, err := v.Verify(t.Context(), i.JWT(time.Now(), nil), time.Now(), true)
	if !errors.Is(err, oidc.ErrNoKeys) || i.Fetches() != 0 {
		t.Errorf("got %v after %d fetches, want %v", err, i.Fetches(), oidc.ErrNoKeys)
	}
}

// lineWriter sends the lines of a log.
type lineWriter chan string

func (w lineWriter) Write(line []byte) (int, error) {
	w <- string(line)
	return len(line), nil
}

// TestGoodJWTs shows variants that RFC 9068 allows.
func TestGoodJWTs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := oidctest.NewIssuer(issuerURL)
		var keys []oidctest.Key
		for alg := range strings.FieldsSeq("RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA") {
			keys = append(keys, oidctest.NewKey("key "+alg, alg))
		}
		i.Publish(keys...)
		v := start(t, i)
		now := time.Now()
		at := func(d time.Duration) int64 { return now.Add(d).Unix() }
		fraction := func(d time.Duration) json.Number { return json.Number(fmt.Sprintf("%d.845412969589233", at(d))) }
		for _, k := range keys {
			for range 2 { // the second time from the cache
				claims, err := v.Verify(t.Context(), k.Sign(k.Header(), i.Claims(now)), now, true)
				if err != nil || claims.Subject != "web-shop" || claims.Name != "web-shop" || claims.Scopes != auth.ScopeCreate ||
					claims.Issuer != issuerURL || claims.IssuedAt != now.UTC().Truncate(time.Second) {
					t.Errorf("%s: %+v, %v", k.Alg, claims, err)
				}
			}
		}
		k := keys[6]
		for _, row := range []struct {
			name            string
			header, changes oidctest.Object
			scopes          auth.Scopes
		}{
			{"typ in other case", oidctest.Object{"typ": "AT+JWT"}, nil, auth.ScopeCreate},
			{"whole media type", oidctest.Object{"typ": "Application/at+jwt"}, nil, auth.ScopeCreate},
			{"without kid", oidctest.Object{"kid": nil}, nil, auth.ScopeCreate},
			{"unknown header", oidctest.Object{"x": 1, "jku": "https://evil.example"}, nil, auth.ScopeCreate},
			{"several audiences", nil, oidctest.Object{"aud": []string{"a", oidctest.Audience}}, auth.ScopeCreate},
			{"several scopes", nil, oidctest.Object{"scope": "a  plants:create b"}, auth.ScopeCreate},
			{"array of scopes", nil, oidctest.Object{"scope": []string{"a", "plants:create"}}, auth.ScopeCreate},
			{"other scopes", nil, oidctest.Object{"scope": "plants:create2 xplants:create admin"}, 0},
			{"two scopes in an entry", nil, oidctest.Object{"scope": []string{"plants:create a"}}, 0},
			{"without scope", nil, oidctest.Object{"scope": nil}, 0},
			{"issued by a clock ahead", nil, oidctest.Object{"iat": at(59 * time.Second)}, auth.ScopeCreate},
			{"expired 58 s ago", nil, oidctest.Object{"iat": at(-time.Hour), "exp": at(-58 * time.Second)}, auth.ScopeCreate},
			{
				"fractions of a second", nil, // as Laravel Passport sends them
				oidctest.Object{"iat": fraction(0), "nbf": fraction(0), "exp": fraction(time.Hour)}, auth.ScopeCreate,
			},
			{"nbf in the past", nil, oidctest.Object{"nbf": at(-time.Hour)}, auth.ScopeCreate},
			{"unknown claims", nil, oidctest.Object{"a": []any{nil, true, 1.5, oidctest.Object{}}}, auth.ScopeCreate},
			{"brackets in a text", nil, oidctest.Object{"a": `[[[[[[[[[["{{\`}, auth.ScopeCreate},
			{"sub in another script", nil, oidctest.Object{"sub": "Gärtnerei 園芸"}, auth.ScopeCreate},
		} {
			claims, err := v.Verify(t.Context(), k.Sign(oidctest.Changed(k.Header(), row.header),
				oidctest.Changed(i.Claims(now), row.changes)), now, true)
			if err != nil || claims.Scopes != row.scopes {
				t.Errorf("%s: %+v, %v, want the scopes %q", row.name, claims, err, row.scopes)
			}
		}
	})
}

// TestCachedJWTExpires shows that a JWT in the cache is not accepted after its time.
func TestCachedJWTExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := oidctest.NewIssuer(issuerURL)
		v := start(t, i)
		now := time.Now().Truncate(time.Second)
		jwt := i.JWT(now, nil)
		for d, want := range map[time.Duration]string{
			0: "", time.Hour + 59*time.Second: "", time.Hour + time.Minute: "exp is in the past",
			-time.Minute: "", -61 * time.Second: "nbf or iat is in the future",
		} {
			if _, err := v.Verify(t.Context(), jwt, now, true); err != nil {
				t.Fatal(err)
			}
			if _, err := v.Verify(t.Context(), jwt, now.Add(d), true); reasonOf(err) != want {
				t.Errorf("%s later: %v, want %q", d, err, want)
			}
		}
	})
}

// TestFullCache shows that the cache keeps the latest tokens, and not more than its limit.
func TestFullCache(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, oidc.VerifiedMax, oidc.VerifiedMax + 1000} {
		if kept, last := oidc.Verified(n); kept != min(n, oidc.VerifiedMax) || !last {
			t.Errorf("%d tokens: kept %d, the last one: %t", n, kept, last)
		}
	}
}

// TestIssuerAway shows that the last good keys stay in use after each kind of bad response of the issuer.
func TestIssuerAway(t *testing.T) {
	t.Parallel()
	weak := oidctest.NewKeys().Weak
	for name, answer := range map[string]http.HandlerFunc{
		"503":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"garbage": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"empty":   func(http.ResponseWriter, *http.Request) {},
		"huge":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://evil.example/", http.StatusFound)
		},
		"loop": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
		},
		"other issuer":   answerWith(`{"issuer":"https://evil.example","jwks_uri":"https://evil.example/keys"}`),
		"no keys URI":    answerWith(`{"issuer":"` + issuerURL + `"}`),
		"plain keys URI": answerWith(`{"issuer":"` + issuerURL + `","jwks_uri":"http://evil.example/keys"}`),
		"slow":           func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"no usable key": func(w http.ResponseWriter, r *http.Request) {
			i := oidctest.NewIssuer(issuerURL)
			i.Publish(weak)
			i.ServeHTTP(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				i := oidctest.NewIssuer(issuerURL)
				v := start(t, i)
				synctest.Wait()
				i.Answer(answer)
				time.Sleep(time.Hour) //nolint:forbidigo // the bubble's clock, not a wait
				if _, err := v.Verify(t.Context(), i.JWT(time.Now(), nil), time.Now(), true); err != nil {
					t.Errorf("a good JWT: %v", err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				foreign := oidctest.NewKey("foreign", "ES256")
				_, err := v.Verify(ctx, foreign.Sign(foreign.Header(), i.Claims(time.Now())), time.Now(), true)
				if want := "the issuer has no key with this kid for this alg"; reasonOf(err) != want || ctx.Err() != nil {
					t.Errorf("an unknown key: %v, want %q", err, want)
				}
			})
		})
	}
}

func answerWith(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
}

// TestAuthorizationServerMetadata shows the address of RFC 8414 section 3.1.
func TestAuthorizationServerMetadata(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		i := oidctest.NewIssuer(issuerURL)
		own := oidctest.NewIssuer(issuerURL)
		own.Publish(i.Key())
		i.Answer(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/.well-known/oauth-authorization-server/realm":
				answerWith(`{"issuer":"`+issuerURL+`","jwks_uri":"https://keys.example/keys"}`)(w, r)
			case "/keys":
				own.ServeHTTP(w, r)
			default:
				http.NotFound(w, r)
			}
		})
		v := start(t, i)
		if _, err := v.Verify(t.Context(), i.JWT(time.Now(), nil), time.Now(), true); err != nil {
			t.Error(err)
		}
	})
}

// TestKeysURI shows from which addresses a server reads the keys of an issuer with https.
func TestKeysURI(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]error{
		"https://keys.example/keys": nil, "http://keys.example/keys": oidc.ErrNoKeys, "http://127.0.0.1/keys": oidc.ErrNoKeys,
		"http://localhost:8080/keys": oidc.ErrNoKeys, "https://a@keys.example/keys": oidc.ErrNoKeys, "/keys": oidc.ErrNoKeys,
	} {
		synctest.Test(t, func(t *testing.T) {
			i := oidctest.NewIssuer(issuerURL)
			own := oidctest.NewIssuer(issuerURL)
			own.Publish(i.Key())
			i.Answer(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/keys" {
					own.ServeHTTP(w, r)
					return
				}
				answerWith(`{"issuer":"`+issuerURL+`","jwks_uri":"`+address+`"}`)(w, r)
			})
			v := start(t, i)
			if _, err := v.Verify(t.Context(), i.JWT(time.Now(), nil), time.Now(), true); !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", address, err, want)
			}
		})
	}
}

func TestCheckIssuer(t *testing.T) {
	t.Parallel()
	for issuer, ok := range map[string]bool{
		"https://login.example": true, "https://login.example/realms/a": true, "http://127.0.0.1:8080": true,
		"http://[::1]:8080/a": true, "http://localhost": true, "": false, "login.example": false,
		"http://login.example": false, "https://": false, "https://a@b": false, "https://a?b": false, "https://a?": false,
		"https://a#b": false, "https://a#": false, "ftp://a": false, "https:a": false, "file:///a": false,
		"https://a\x00": false, "http://127.0.0.1.example": false,
	} {
		if err := oidc.CheckIssuer(issuer); (err == nil) != ok {
			t.Errorf("%q: %v, want valid: %t", issuer, err, ok)
		}
	}
}
