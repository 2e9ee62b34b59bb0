package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
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
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, s.url+"/plants", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+credential)
	r.Header.Set("Content-Type", "application/json")
	res, err := httpClient(1).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{res.StatusCode, res.Header.Get("Www-Authenticate"), string(text)}
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

// TestBadJWTs sends bad JWTs to a server. Each receives the same response, none stores a plant, and the log has the
// reason and no part of the JWT.
func TestBadJWTs(t *testing.T) {
	t.Parallel()
	issuer, stop := oidctest.Start()
	defer stop()
	keys := oidctest.NewKeys()
	issuer.Publish(keys.Published()...)
	db := filepath.Join(t.TempDir(), "a.db")
	s := startServer(t, db, oidcFlags(issuer, "--auth-failures", "0")...)
	good := issuer.JWT(time.Now(), nil)
	s.awaitAnswer(t, good, 1, "good", created("good"))
	bad := oidctest.BadJWTs(issuer, keys, time.Now())
	for n, row := range bad {
		if got := s.createWith(t, row.JWT, 100+n, row.Name); got != invalidAnswer {
			t.Errorf("%s: got %+v, want %+v", row.Name, got, invalidAnswer)
		}
	}
	if got := s.createWith(t, "a.b.c.d.e", 2, "encrypted"); got != invalidAnswer {
		t.Errorf("five parts: got %+v, want %+v", got, invalidAnswer)
	}
	for _, where := range []string{"/" + good, "/plants/" + good, "/plants?access_token=" + good, "/plants?a=" + good} {
		get(t, s.url+where)
	}
	s.stop(t)
	if got := strings.Count(plantstore(t, "export", "--db", db, "--format", "jsonl"), "\n"); got != 1 {
		t.Errorf("the store has %d plants, want 1", got)
	}
	log := s.stderr.String()
	if strings.Contains(log, "eyJ") {
		t.Errorf("the log has a part of a JWT:\n%s", log)
	}
	for _, row := range bad {
		if !strings.Contains(log, fmt.Sprintf("reason=%q", "jwt: "+row.Reason)) {
			t.Errorf("%s: the log has no reason %q", row.Name, row.Reason)
		}
	}
}

// get sends a request and ignores the response.
func get(t *testing.T, url string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := httpClient(1).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
}

// TestJWTCreator shows that the store has the name of the subject that created a plant, in a file and in PostgreSQL,
// and that a move keeps it.
func TestJWTCreator(t *testing.T) {
	t.Parallel()
	issuer, stop := oidctest.Start()
	defer stop()
	file, moved := filepath.Join(t.TempDir(), "a.db"), database(t)
	s := startServer(t, file, oidcFlags(issuer, "--oidc-name-claim", "client_name", "--oidc-scope-claim", "roles",
		"--oidc-scopes", "gardener=plants:create")...)
	now := time.Now()
	claims := oidctest.Object{"roles": []string{"gardener"}, "client_name": "Web shop"}
	s.awaitAnswer(t, issuer.JWT(now, claims), 1, "a", created("a"))
	other := oidctest.Changed(claims, oidctest.Object{"sub": "other", "client_name": "Other"})
	if got := s.createWith(t, issuer.JWT(now, other), 2, "b"); got != created("b") {
		t.Errorf("another subject: %+v", got)
	}
	renamed := oidctest.Changed(claims, oidctest.Object{"client_name": "Renamed"})
	if got := s.createWith(t, issuer.JWT(now, renamed), 3, "c"); got != created("c") {
		t.Errorf("the first subject with another name: %+v", got)
	}
	none := oidctest.Changed(claims, oidctest.Object{"sub": "third", "roles": "visitor", "client_name": "Third"})
	scope := answer{
		http.StatusForbidden, `Bearer realm="plantstore", error="insufficient_scope", scope="plants:create"`,
		`{"error":40301,"message":"the credential lacks the scope plants:create"}` + "\n",
	}
	if got := s.createWith(t, issuer.JWT(now, none), 4, "d"); got != scope {
		t.Errorf("without a scope: got %+v, want %+v", got, scope)
	}
	s.stop(t)
	for _, want := range []string{`credential="Web shop"`, "credential=Renamed", "credential=Third"} {
		if !strings.Contains(s.stderr.String(), want) {
			t.Errorf("the log has no %s", want)
		}
	}
	plantstore(t, "verify", file)
	plantstore(t, "token", "revoke", "--subject", "other", "--oidc-issuer", issuer.URL, "--db", file)
	plantstore(t, "token", "revoke", "--jwt-id", "a", "--oidc-issuer", issuer.URL, "--db", file)
	plantstore(t, "verify", file)
	plantstore(t, "move", "--from", file, "--to", moved)
	for _, db := range []string{file, moved} {
		want := []string{`"created_by":"Web shop"`, `"created_by":"Other"`, `"created_by":"Web shop"`}
		list := strings.Split(strings.TrimSpace(plantstore(t, "list", "--json", "--db", db)), "\n")
		if !slices.EqualFunc(list, want, strings.Contains) {
			t.Errorf("%s: got %q, want %q", db, list, want)
		}
		tokens := plantstore(t, "token", "list", "--json", "--db", db)
		for _, want := range []string{
			`"kind":"subject","id":4,"name":"Web shop","issuer":"` + issuer.URL + `","subject":"web-shop","state":"valid"`,
			`"kind":"subject","id":5,"name":"Other","issuer":"` + issuer.URL + `","subject":"other","state":"revoked"`,
			`"kind":"jwt","id":6,"name":"a","issuer":"` + issuer.URL + `","jwt_id":"a","state":"revoked"`,
		} {
			if !strings.Contains(tokens, want) {
				t.Errorf("%s: token list has no %s:\n%s", db, want, tokens)
			}
		}
		if strings.Contains(tokens, "Third") {
			t.Errorf("a subject without a scope is stored:\n%s", tokens)
		}
	}
}

// TestJWTRevocation shows that two servers refuse a revoked JWT, and the JWTs of a revoked subject, within a second.
func TestJWTRevocation(t *testing.T) {
	t.Parallel()
	issuer, stop := oidctest.Start()
	defer stop()
	db := database(t)
	servers := []*testServer{startServer(t, db, oidcFlags(issuer)...), startServer(t, db, oidcFlags(issuer)...)}
	now := time.Now()
	first := issuer.JWT(now, oidctest.Object{"jti": "first"})
	second := issuer.JWT(now, oidctest.Object{"jti": "second"})
	third := issuer.JWT(now, oidctest.Object{"jti": "third", "groups": strings.Repeat("g", 5000)}) // near the limit
	later := issuer.JWT(now, oidctest.Object{"jti": "later", "iat": now.Add(58 * time.Second).Unix()})
	for _, s := range servers {
		for _, jwt := range []string{first, second, third, later} {
			s.awaitAnswer(t, jwt, 1, "a", created("a"))
		}
	}
	const warning = "warning: no server has accepted a JWT of the "
	revoke := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "plantstore", append([]string{"token", "revoke", "--db", db}, args...)...)
		cmd.Env = cleanEnviron()
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
		_, warned, _ := strings.Cut(string(out), warning)
		return warned
	}
	effective := func(args ...string) {
		t.Helper()
		if warned := revoke(args...); warned != "" {
			t.Errorf("%s: unexpected warning about %s", args, warned)
		}
	}
	check := func(what string, accepted bool, jwts ...string) {
		t.Helper()
		for n, s := range servers {
			for _, jwt := range jwts {
				want := invalidAnswer
				if accepted {
					want = created("a")
				}
				if late := s.awaitAnswer(t, jwt, 1, "a", want); late > time.Second {
					t.Errorf("%s: server %d sent another response to a request after %s", what, n, late)
				}
			}
		}
	}
	effective("--jwt-id", "first", "--oidc-issuer", issuer.URL)
	check("the revoked jti", false, first)
	check("other JWTs", true, second, third)
	slash := issuer.URL + "/"
	want := fmt.Sprintf("subject %q of %s yet; compare them with the claims sub and iss\n", "web-shop", slash)
	if got := revoke("--subject", "web-shop", "--oidc-issuer", slash); got != want {
		t.Errorf("the subject of another issuer: got the warning %q, want %q", got, want)
	}
	want = "issuer " + slash + " yet; compare it with the claim iss\n"
	if got := revoke("--jwt-id", "second", "--oidc-issuer", slash); got != want {
		t.Errorf("the jti of another issuer: got the warning %q, want %q", got, want)
	}
	check("the jti and the subject of another issuer", true, second)
	file := filepath.Join(t.TempDir(), "found.token")
	writeFileText(t, file, third+"\n")
	effective("--token-file", file)
	check("the found JWT", false, first, third)
	effective("--subject", "web-shop", "--oidc-issuer", issuer.URL)
	check("the JWTs of the subject", false, first, second, third, later)
	for _, s := range servers {
		s.stop(t)
		if log := s.stderr.String(); strings.Contains(log, "eyJ") ||
			!strings.Contains(log, `reason="jwt: its jti is revoked"`) ||
			!strings.Contains(log, `reason="jwt: its subject is revoked"`) {
			t.Errorf("the log has no reason, or a JWT:\n%s", log)
		}
	}
}

// TestStartWithoutIssuer shows that a server starts without its issuer, responds 503 to JWTs, accepts tokens, and
// accepts JWTs when the issuer is reachable.
func TestStartWithoutIssuer(t *testing.T) {
	t.Parallel()
	issuer, stop := oidctest.Start()
	defer stop()
	issuer.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	s := startServer(t, filepath.Join(t.TempDir(), "a.db"), oidcFlags(issuer)...)
	jwt := issuer.JWT(time.Now(), nil)
	want := answer{status: http.StatusServiceUnavailable, body: `{"error":50304,"message":"` + noKeysText + `"}` + "\n"}
	if got := s.createWith(t, jwt, 1, "a"); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := s.createWith(t, "..", 1, "a"); got != invalidAnswer {
		t.Errorf("a bad JWT: got %+v, want %+v", got, invalidAnswer)
	}
	match, err := s.await(s.stdout, `^(pst_\w+)$`)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.createWith(t, match[1], 2, "b"); got != created("b") {
		t.Errorf("a token: %+v", got)
	}
	issuer.Answer(nil)
	s.awaitAnswer(t, jwt, 1, "a", created("a"))
	if _, err := s.await(s.stderr, "could not fetch the keys of the issuer"); err != nil {
		t.Error(err)
	}
	s.stop(t)
}

func TestOIDCSettingsRefused(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ args, want string }{
		{"--oidc-issuer https://a.example", "oidc-audience (default): it must not be empty with oidc-issuer"},
		{"--oidc-audience a", "oidc-audience (--oidc-audience): it has no effect without an issuer; set oidc-issuer"},
		{"--oidc-name-claim a", "oidc-name-claim (--oidc-name-claim): it has no effect without an issuer; set oidc-issuer"},
		{
			"--oidc-issuer http://a.example --oidc-audience a",
			`oidc-issuer (--oidc-issuer): "http://a.example" has no TLS; use https, or http with a loopback address`,
		},
		{
			"--oidc-issuer https://a.example --oidc-audience a --oidc-scopes a",
			`"a" is not a grant; use the form plants.write=plants:create`,
		},
		{
			"--oidc-issuer https://a.example --oidc-audience a --oidc-scopes a=b",
			`"a=b" grants no scope; after the equals sign use one of plants:create, plants:read, admin, metrics`,
		},
	} {
		args := append([]string{"serve", "--db", filepath.Join(t.TempDir(), "a.db")}, strings.Fields(row.args)...)
		p, err := startProcess(t.TempDir(), cleanEnviron(), args...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		code, err := p.wait()
		if err != nil || code != 2 || !strings.Contains(p.stderr.String(), row.want) {
			t.Errorf("%s: exit code %d, %v:\n%s\nwant %s", row.args, code, err, p.stderr, row.want)
		}
	}
}
