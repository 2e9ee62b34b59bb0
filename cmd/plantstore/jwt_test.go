package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"plantstore/internal/oidc/oidctest"
)

// answer is a response without the headers that vary.
type answer struct {
	status          int
	challenge, body string
}

const (
	invalidText = "invalid credential; send the whole token or request another from the store's operator"
	noKeysText  = "nothing was stored because the server has no keys of the issuer of this token yet; " +
		"send the request again"
)

var invalidAnswer = answer{
	http.StatusUnauthorized,
	`Bearer realm="plantstore", error="invalid_token", error_description="` + invalidText + `"`,
	`{"error":40102,"message":"` + invalidText + `"}` + "\n",
}

func created(name string) answer {
	return answer{status: http.StatusOK, body: `{"name":"` + name + `"}` + "\n"}
}

// createWith creates a plant with a credential.
func (s *testServer) createWith(t *testing.T, credential string, id int, name string) answer {
	t.Helper()
	body := fmt.Sprintf(`{"id":%d,"name":%q}`, id, name)
	r, err := newCreate(context.Background(), s.url, credential, body)
	if err != nil {
		t.Fatal(err)
	}
	got, err := send(httpClient(1), r)
	if err != nil {
		t.Fatal(err)
	}
	return answer{got.status, got.header.Get("Www-Authenticate"), got.body}
}

// awaitAnswer repeats a create until its response is the wanted one, and returns the time on a stopwatch until the last
// request with another response began.
func (s *testServer) awaitAnswer(t *testing.T, credential string, id int, name string, want answer) time.Duration {
	t.Helper()
	watch := newStopwatch()
	var got answer
	var last time.Duration
	err := poll("response", func() bool {
		began := watch.step()
		if got = s.createWith(t, credential, id, name); got == want {
			return true
		}
		last = began
		return false
	})
	if err != nil {
		t.Fatalf("%v: got %+v, want %+v", err, got, want)
	}
	return last
}

func oidcFlags(i *oidctest.Issuer, more ...string) []string {
	return append([]string{"--oidc-issuer", i.URL, "--oidc-audience", oidctest.Audience}, more...)
}

// TestJWTs is the path of JWTs through the program: a start without the issuer, the settings about claims, the creators
// of plants, revocations by command with their warnings, and the log.
func TestJWTs(t *testing.T) {
	t.Parallel()
	issuer, stop := oidctest.Start()
	defer stop()
	issuer.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	db := filepath.Join(t.TempDir(), "a.db")
	s := startServer(t, db, oidcFlags(issuer, "--oidc-name-claim", "client_name", "--oidc-scope-claim", "roles",
		"--oidc-scopes", "gardener=plants:create", "--auth-failures", "0")...)
	now := time.Now()
	claims := oidctest.Object{"roles": []string{"gardener"}, "client_name": "Web shop", "jti": "first"}
	jwt := func(changes oidctest.Object) string { return issuer.JWT(now, oidctest.Changed(claims, changes)) }
	want := func(what, credential string, id int, want answer) {
		t.Helper()
		if got := s.createWith(t, credential, id, "a"); got != want {
			t.Errorf("%s: got %+v, want %+v", what, got, want)
		}
	}
	first := jwt(nil)
	want("no keys", first, 1, answer{
		status: http.StatusServiceUnavailable, body: `{"error":50304,"message":"` + noKeysText + `"}` + "\n",
	})
	want("no JWT", "..", 1, invalidAnswer)
	want("a token", s.creator(t), 1, created("a"))
	issuer.Answer(nil)
	s.awaitAnswer(t, first, 2, "a", created("a"))

	want("another subject", jwt(oidctest.Object{"sub": "other", "client_name": "Other"}), 3, created("a"))
	third := jwt(oidctest.Object{"jti": "third", "client_name": "Renamed", "groups": strings.Repeat("g", 5000)})
	want("the first subject with another name, near the limit", third, 4, created("a"))
	later := jwt(oidctest.Object{"jti": "later", "iat": now.Add(58 * time.Second).Unix()})
	want("issued by a clock ahead", later, 5, created("a"))
	want("without a scope", jwt(oidctest.Object{"sub": "visitor", "roles": "visitor"}), 6, answer{
		http.StatusForbidden, `Bearer realm="plantstore", error="insufficient_scope", scope="plants:create"`,
		`{"error":40301,"message":"the credential lacks the scope plants:create"}` + "\n",
	})

	slash, file := issuer.URL+"/", filepath.Join(t.TempDir(), "found.token")
	writeFileText(t, file, third+"\n")
	for _, row := range []struct {
		args    string
		warning string
		refused map[string]string
	}{
		{
			"--subject web-shop --oidc-issuer " + slash,
			fmt.Sprintf("subject %q of %s yet; compare them with the claims sub and iss\n", "web-shop", slash), nil,
		},
		{"--jwt-id third --oidc-issuer " + slash, "issuer " + slash + " yet; compare it with the claim iss\n", nil},
		{"--jwt-id first --oidc-issuer " + issuer.URL, "", map[string]string{"the revoked jti": first}},
		{"--token-file " + file, "", map[string]string{"the found JWT": third}},
		{"--subject web-shop --oidc-issuer " + issuer.URL, "", map[string]string{
			"a JWT of the subject": jwt(oidctest.Object{"jti": "new"}), "a JWT of the subject, issued by a clock ahead": later,
		}},
	} {
		code, _, message := inProcess(t, nil, append(strings.Fields("token revoke --db "+db), strings.Fields(row.args)...))
		_, warned, _ := strings.Cut(message, "warning: no server has accepted a JWT of the ")
		if code != exitOK || warned != row.warning {
			t.Errorf("revoke %s: got %d and the warning %q, want %q; %s", row.args, code, warned, row.warning, message)
		}
		for what, jwt := range row.refused {
			if late := s.awaitAnswer(t, jwt, 2, "a", invalidAnswer); late > time.Second {
				t.Errorf("%s: another response to a request after %s", what, late)
			}
		}
		if row.refused == nil {
			want("revoked for another issuer", third, 4, created("a"))
		}
	}
	s.stop(t)
	log := s.stderr.String()
	for _, want := range []string{
		"could not fetch the keys of the issuer", `credential="Web shop"`, "credential=Renamed",
		`reason="jwt: its jti is revoked"`, `reason="jwt: its subject is revoked"`,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %s", want)
		}
	}
	if strings.Contains(log, "eyJ") {
		t.Errorf("the log has a part of a JWT:\n%s", log)
	}
	plantstore(t, "verify", db)
	list := plantstore(t, "list", "--json", "--db", db)
	var creators []string
	for _, match := range regexp.MustCompile(`"created_by":"([^"]*)"`).FindAllStringSubmatch(list, -1) {
		creators = append(creators, match[1])
	}
	if want := []string{"first", "Web shop", "Other", "Web shop", "Web shop"}; !slices.Equal(creators, want) {
		t.Errorf("creators: got %q, want %q", creators, want)
	}
	tokens := plantstore(t, "token", "list", "--json", "--db", db)
	for _, want := range []string{
		`"name":"Web shop","issuer":"` + issuer.URL + `","subject":"web-shop","state":"revoked"`,
		`"name":"Other","issuer":"` + issuer.URL + `","subject":"other","state":"valid"`,
		`"name":"first","issuer":"` + issuer.URL + `","jwt_id":"first","state":"revoked"`,
	} {
		if !strings.Contains(tokens, want) {
			t.Errorf("token list has no %s:\n%s", want, tokens)
		}
	}
	if strings.Contains(tokens, `"subject":"visitor"`) {
		t.Errorf("a subject without a scope is stored:\n%s", tokens)
	}
}
