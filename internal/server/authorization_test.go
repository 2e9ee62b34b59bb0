package server_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/oidc"
	"plantstore/internal/oidc/oidctest"
	"plantstore/internal/plant"
	"plantstore/internal/server"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/writepath"
)

// The kinds of credentials on docs/reference/authorization.md.
const (
	kindNone = iota
	kindMalformed
	kindInvalid
	kindOtherScope
	kindRightScope
	kindJWT // with the scope
	kinds
)

// authorizationRow is a row of the page.
type authorizationRow struct {
	method, target, scope string
}

// wanted returns the status for each kind of credential.
func (r authorizationRow) wanted() [kinds]int {
	if r.scope == "" {
		return [kinds]int{200, 200, 200, 200, 200, 200}
	}
	return [kinds]int{401, 400, 401, 403, 200, 200}
}

// authorizationPage returns the rows of docs/reference/authorization.md by listener.
func authorizationPage(t *testing.T) map[string][]authorizationRow {
	t.Helper()
	text, err := os.ReadFile("../../docs/reference/authorization.md")
	if err != nil {
		t.Fatal(err)
	}
	rows, listener := map[string][]authorizationRow{}, ""
	listeners, _, _ := strings.Cut(string(text), "\n## Console\n")
	for line := range strings.Lines(listeners) {
		if name, ok := strings.CutPrefix(line, "## "); ok {
			listener = strings.ToLower(strings.Fields(name)[0])
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.Trim(cells[i], " `–")
		}
		if len(cells) < 3 || !slices.Contains([]string{"GET", "POST", "PUT", "DELETE"}, cells[0]) {
			continue
		}
		row := authorizationRow{method: cells[0], target: cells[1], scope: strings.ReplaceAll(cells[2], "`", "")}
		rows[listener] = append(rows[listener], row)
	}
	return rows
}

// The page has the routes of both listeners, with their scopes, and no others.
func TestAuthorizationPage(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.pprof, s.api = true, true })
	public, err := server.PublicRoutes(h.config)
	if err != nil {
		t.Fatal(err)
	}
	page := authorizationPage(t)
	for listener, routes := range map[string][]server.RouteInfo{
		"public": public, "admin": server.AdminRoutes(h.config),
	} {
		want := map[string]string{} // scopes by method and target
		for _, r := range routes {
			if r.Method == http.MethodHead { // like GET
				continue
			}
			want[r.Method+" "+r.Path] = r.Scope
			if r.Verbose != "" {
				want[r.Method+" "+r.Path+"?verbose"] = r.Verbose
			}
		}
		for _, row := range page[listener] {
			name := row.method + " " + row.target
			if scope, ok := want[name]; !ok || scope != row.scope {
				t.Errorf("%s listener: %s: the page has the scope %q, the route %q (exists: %t)",
					listener, name, row.scope, scope, ok)
			}
			delete(want, name)
		}
		for name := range want {
			t.Errorf("%s listener: the page has no row for %s", listener, name)
		}
	}
}

// everyScope are all scopes.
var everyScope = []string{"plants:create", "plants:read", "admin", "metrics"}

// credentials are the headers of requests by kind. Those of the last three kinds depend on the scope.
type credentials struct {
	fixed   [kindOtherScope][]string
	secrets map[string]string // secrets of tokens, by scopes
	jwts    map[string]string // by scopes
}

// of returns the headers of a kind for a route with a scope; empty: it is open.
func (c credentials) of(kind int, scope string) (headers []string) {
	if kind < kindOtherScope {
		return c.fixed[kind]
	}
	add := func(byScopes map[string]string, hasScope bool) {
		for scopes, secret := range byScopes {
			has := scope == ""
			for one := range strings.SplitSeq(scope, " or ") {
				has = has || slices.Contains(strings.Fields(scopes), one)
			}
			if has == hasScope {
				headers = append(headers, "Authorization: Bearer "+secret)
			}
		}
	}
	switch kind {
	case kindOtherScope:
		add(c.secrets, false)
		add(c.jwts, false)
	case kindRightScope:
		add(c.secrets, true)
	default:
		add(c.jwts, true)
	}
	return headers
}

// startIssuer starts an issuer of JWTs, and returns the function that verifies them.
func startIssuer(t testing.TB) (*oidctest.Issuer, writepath.VerifyJWT) {
	t.Helper()
	issuer, stop := oidctest.Start()
	t.Cleanup(stop)
	config := oidc.Config{Issuer: issuer.URL, Audience: oidctest.Audience, Scopes: map[string]auth.Scopes{}}
	for _, scope := range everyScope {
		config.Scopes[scope] = scopesOf(t, scope)
	}
	verifier := oidc.New(config)
	t.Cleanup(verifier.Close)
	return issuer, verifier.Verify
}

// scopeSets returns no scope, every scope, all scopes, and all but one.
func scopeSets() []string {
	all := strings.Join(everyScope, " ")
	sets := append([]string{"", all}, everyScope...)
	for _, scope := range everyScope {
		rest := strings.Fields(strings.Replace(all, scope, "", 1))
		sets = append(sets, strings.Join(rest, " "))
	}
	return sets
}

// startWithCredentials starts a server with profiles, and with tokens and JWTs of the scopes of scopeSets.
func startWithCredentials(t *testing.T) (*harness, credentials) {
	t.Helper()
	c := credentials{secrets: map[string]string{}, jwts: map[string]string{}}
	expired, revoked, now := "", "", time.Now()
	issuer, verify := startIssuer(t)
	h := start(t, func(s *setup) {
		s.pprof, s.api, s.jwt = true, true, verify
		s.seed = func(e *sqlite.Engine) {
			plantOne := store.Create{Plant: plant.NewPlant{ID: 1, Plant: plant.Plant{Name: "A"}}, At: now}
			if _, err := e.Insert(t.Context(), []store.Create{plantOne}); err != nil {
				t.Fatal(err)
			}
			mint(t, e, auth.Token{Name: "new0", Scopes: scopesOf(t, "metrics")}) // for the rotations
			for i, scopes := range scopeSets() {
				c.secrets[scopes] = mint(t, e, auth.Token{Name: fmt.Sprint("scopes", i), Scopes: scopesOf(t, scopes)})
				c.jwts[scopes] = issuer.JWT(now, oidctest.Object{"scope": scopes, "jti": fmt.Sprint(i)})
			}
			every := scopesOf(t, strings.Join(everyScope, " "))
			expired = mint(t, e, auth.Token{Name: "ended", Scopes: every, ExpiresAt: now.Add(-time.Second)})
			revoked = mint(t, e, auth.Token{Name: "revoked", Scopes: every})
			_, err := e.RevokeTokens(t.Context(), store.Selector{Name: "revoked"}, now, audit.Origin{})
			_, errJWT := e.RevokeIdentity(t.Context(), auth.NewRevokedJWT(issuer.URL, "revoked", now), 1, audit.Origin{})
			if err := errors.Join(err, errJWT); err != nil {
				t.Fatal(err)
			}
		}
	})
	// A listener limits the requests of an address only until one of them has a valid credential.
	for address, line := range map[string]string{
		h.public: "POST /plants HTTP/1.1", h.admin: "POST /api/v1/credentials/revoke HTTP/1.1",
	} {
		if a := h.sendTo(address, message(line, `{"id":1,"name":"A"}`)); a.Status == http.StatusUnauthorized {
			t.Fatalf("%s: %d", line, a.Status)
		}
	}
	c.fixed[kindNone] = []string{"-Authorization", "Authorization: Basic cGxhbnQ6c3RvcmU=", "Authorization: "}
	c.fixed[kindMalformed] = []string{"Authorization: Bearer", "+Authorization: Bearer x", "Authorization: Bearer a b"}
	for _, secret := range []string{
		auth.Mint(), expired, revoked, h.token + "0", h.token[:20], "x", strings.Repeat("x", 4000),
		"eyJhbGciOiJub25lIn0.eyJzY29wZSI6ImFkbWluIG1ldHJpY3MifQ.", // unsigned
		issuer.JWT(now, oidctest.Object{"scope": "admin metrics plants:create", "jti": "revoked"}),
		issuer.JWT(now, oidctest.Object{"scope": "admin metrics plants:create", "exp": now.Add(-time.Hour).Unix()}),
		issuer.JWT(now, oidctest.Object{"scope": "admin metrics plants:create", "aud": "https://other.example"}),
	} {
		c.fixed[kindInvalid] = append(c.fixed[kindInvalid], "Authorization: Bearer "+secret)
	}
	return h, c
}

// TestAuthorization sends requests with each kind of credential to each route of docs/reference/authorization.md.
func TestAuthorization(t *testing.T) {
	t.Parallel()
	page := authorizationPage(t)
	h, c := startWithCredentials(t)
	for listener, address := range map[string]string{"public": h.public, "admin": h.admin} {
		for _, row := range page[listener] {
			checkAuthorization(t, h, address, row, row.wanted(), c)
		}
	}
}

// checkAuthorization sends the requests of a row.
func checkAuthorization(
	t *testing.T, h *harness, address string, row authorizationRow, statuses [kinds]int, c credentials,
) {
	t.Helper()
	codes := [kinds]int{kindNone: 40101, kindMalformed: 40051, kindInvalid: 40102, kindOtherScope: 40301}
	methods := []string{row.method}
	if row.method == "GET" {
		methods = append(methods, "HEAD")
	}
	for kind, want := range statuses {
		for _, header := range c.of(kind, row.scope) {
			for _, method := range methods {
				body, target := "", quick(row.target)
				if method == "PUT" {
					target += "?format=json"
				}
				if method == "POST" || method == "PUT" {
					body = validBody(row.target)
				}
				a := h.sendTo(address, message(method+" "+target+" HTTP/1.1", body, header))
				name := fmt.Sprintf("%s %s with %.40s", method, row.target, header)
				if a.Status != want && !(want == 200 && isAuthorized(row, a)) {
					t.Errorf("%s: got %d, want %d", name, a.Status, want)
				}
				challenge := a.Header.Get("WWW-Authenticate")
				if want == 200 && challenge != "" || want != 200 && !strings.HasPrefix(challenge, challengeNone) ||
					want == 403 && !strings.HasSuffix(challenge, ` scope="`+strings.Fields(row.scope)[0]+`"`) {
					t.Errorf("%s: got the challenge %q", name, challenge)
				}
				if method != "HEAD" && want != 200 && int(a.code(t)) != codes[kind] {
					t.Errorf("%s: got %s, want %d", name, a.Body, codes[kind])
				}
			}
		}
	}
}

// isAuthorized reports whether a response shows that a request with a valid credential reached a route of the
// backups, of an import or of a profile. The server of the test makes no backups and has no other import, and quick
// makes profiles fail.
func isAuthorized(row authorizationRow, a response) bool {
	return strings.Contains(row.target, "/backup") && a.Status == plant.CodeBackupsOff.Status() ||
		strings.Contains(row.target, "/debug/pprof/") && a.Status == plant.CodeQueryInvalid.Status() ||
		strings.Contains(row.target, "/imports/") && a.Status == plant.CodeImportNotFound.Status()
}

// tokenNames makes the names of new tokens different.
var tokenNames atomic.Int64

// validBody returns a body with which each POST request to a target succeeds, also after others.
func validBody(target string) string {
	switch {
	case strings.HasSuffix(target, "/credentials"):
		return fmt.Sprintf(`{"name":"new%d","scopes":["metrics"],"no_expiry":true}`, tokenNames.Add(1))
	case strings.HasSuffix(target, "/rotate"):
		return `{"name":"new0"}`
	case strings.Contains(target, "/imports/"):
		return `[]`
	case strings.HasSuffix(target, "/revoke"):
		return `{"jwt_id":"a","issuer":"https://login.example"}`
	case strings.Contains(target, "/dead-letters/"):
		return `{"all":true}`
	case strings.HasSuffix(target, "/correct"):
		return `{"name":"A"}` // changes nothing
	case strings.HasSuffix(target, "/erase"):
		return `{"ids":[2]}`
	}
	return `{"id":1,"name":"A"}`
}

// quick returns a target with the id of a stored plant and the required parameters. A profile has an invalid one,
// because a valid one takes at least a second.
func quick(target string) string {
	if strings.HasSuffix(target, "/imports/{id}") {
		return fmt.Sprintf("/api/v1/imports/i%d", tokenNames.Add(1))
	}
	target = strings.ReplaceAll(target, "/help/{id}", "/help/down")
	target = strings.NewReplacer("{id}", "1", "{name}", "plants-20261122T020000Z.db").Replace(target)
	if strings.HasSuffix(target, "/profile") || strings.HasSuffix(target, "/trace") {
		return target + "?seconds=0"
	}
	if strings.HasSuffix(target, "/search") {
		return target + "?name=a"
	}
	return target
}

// Another method receives 405, and no spelling of a path opens a route without its credential.
func TestAuthorizationIsNotBypassed(t *testing.T) {
	t.Parallel()
	h, _ := startWithCredentials(t)
	for listener, rows := range authorizationPage(t) {
		for _, row := range rows {
			for _, method := range []string{"DELETE", "PUT", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "HEADER"} {
				address := map[string]string{"public": h.public, "admin": h.admin}[listener]
				a := h.sendTo(address, message(method+" "+quick(row.target)+" HTTP/1.1", "", "-Authorization"))
				if a.Status != 405 && !slices.ContainsFunc(rows, func(r authorizationRow) bool {
					return r.method == method && r.target == row.target
				}) {
					t.Errorf("%s %s: got %d, want 405", method, row.target, a.Status)
				}
			}
		}
	}
	for target, want := range map[string]int{
		"//metrics": 404, "/metrics/": 404, "/./metrics": 404, "/livez/../metrics": 404, "/METRICS": 404,
		"/metrics;x": 404, "/metrics%00": 404, "/metrics%2f": 404, "/%2fmetrics": 404, "/livez/metrics": 404,
		"/metrics%20": 404, "metrics": 400, "/readyz/?verbose": 404, "//debug/pprof/heap": 404,
		"/debug/pprof": 404, "/debug//pprof/heap": 404, "/debug/pprof/heap/": 404, "/debug/pprof/none": 404,
		"/%6detrics": 401, "/%6Detrics?x": 401, "/metrics?livez": 401, "/metrics#/livez": 404,
		"http://localhost/metrics": 401, "HTTP://127.0.0.1//metrics": 404, "/debug/pprof/%68eap": 401,
		"/api/v1/plants/1": 401, "/api/v1/plants/%31": 401, "/api/v1/plants/{id}": 401, "/api/v1/plants/x": 401,
		"/api/v1/plants/": 404, "/api/v1/plants/1/": 404, "/api/v1//plants/1": 404, "/api/v1/plants//1": 404,
		"/api/v1/plants/a%2fb": 404, "/api/v1/plants/../plants": 404, "/api/V1/plants/1": 404, "/api/v1/plants/1%2f": 404,
		"/api/v1/{id}/1":    404,
		"/readyz?%76erbose": 401, "/readyz?verbose=": 401, "/readyz?verbose=false": 401, "/readyz?a&verbose": 401,
		"/read%79z?verbose": 401, "/readyz?verbose&verbose": 401,
		"/readyz?a;verbose": 200, "/readyz?%2576erbose": 200, "/readyz?Verbose": 200, "/readyz?%zz": 200,
	} {
		a := h.sendTo(h.admin, message("GET "+target+" HTTP/1.1", "", "-Authorization"))
		if a.Status != want {
			t.Errorf("%s: got %d, want %d", target, a.Status, want)
		}
		if a.Status == 200 {
			same(t, a, jsonResponse(200, `{"status":"ready"}`+"\n"))
		}
	}
}

// The listener checks Host, Origin and Sec-Fetch-Site before the credential.
func TestGuardBeforeCredential(t *testing.T) {
	t.Parallel()
	h, c := startWithCredentials(t)
	for _, row := range authorizationPage(t)["admin"] {
		for _, header := range append(c.of(kindRightScope, row.scope), "-Authorization") {
			for change, want := range map[string]int{
				"Host: evil.example": 42101, "Origin: http://evil.example": 40302, "Sec-Fetch-Site: cross-site": 40302,
			} {
				a := h.sendTo(h.admin, message("GET "+quick(row.target)+" HTTP/1.1", "", header, change))
				if got := int(a.code(t)); got != want {
					t.Errorf("%s with %s and %.30s: got %d, want %d", row.target, change, header, got, want)
				}
			}
		}
	}
}
