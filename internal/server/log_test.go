package server_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/auth"
	"plantstore/internal/oidc/oidctest"
	"plantstore/internal/server"
	"plantstore/internal/sqlite"
)

// The log has one line per request, with the client, the request and the response.
func TestLog(t *testing.T) {
	t.Parallel()
	secret := ""
	h := start(t, func(s *setup) {
		s.seed = func(e *sqlite.Engine) {
			secret = mint(t, e, auth.Token{Name: "reader", Scopes: scopesOf(t, "plants:read")})
		}
	})
	const body = `{"id":1,"name":"A"}`
	get := func(target string) string { return message("GET "+target+" HTTP/1.1", "") }
	var want []line
	for _, row := range []struct {
		in, method, path, credential string
		status, code                 int
	}{
		{post(body), "POST", "/plants", "gardener", 200, 0},
		{post(body), "POST", "/plants", "gardener", 200, 0},
		{post(`{"id":1,"name":"B"}`), "POST", "/plants", "gardener", 400, 40041},
		{message("POST /plants?a=b HTTP/1.1", "{"), "POST", "/plants", "gardener", 400, 40002},
		{post(body, "-Authorization"), "POST", "/plants", "", 401, 40101},
		{post(body, "Authorization: Bearer "+secret), "POST", "/plants", "reader", 403, 40301},
		{get("/nothing?a=b"), "GET", "/nothing", "", 404, 40401},
		{get("/nothing%0a%22"), "GET", "… (10 bytes)", "", 404, 40401},
		{get("/" + strings.Repeat("é", 60)), "GET", "… (121 bytes)", "", 404, 40401},
		{get("/plants/7159/leaves"), "GET", "/plants/… (19 bytes)", "", 404, 40401},
		{get("/"), "GET", "/", "", 404, 40401},
		{get("/a23456789012345678901"), "GET", "… (22 bytes)", "", 404, 40401},
		{get("/healthz"), "GET", "/healthz", "", 200, 0},
		{message(strings.Repeat("G", 101)+" /plants HTTP/1.1", ""), "(unknown)", "/plants", "", 405, 40501},
		{message("PURGE /plants HTTP/1.1", ""), "(unknown)", "/plants", "", 405, 40501},
		{message("OPTIONS * HTTP/1.1", ""), "OPTIONS", "*", "", 404, 40401},
	} {
		a := h.send(row.in)
		l := requestLine("public", row.method, row.path, row.status, a)
		if row.credential != "" {
			l["credential"] = row.credential
		}
		if row.code != 0 {
			l["error_code"] = float64(row.code)
		}
		want = append(want, l)
	}
	a := h.sendTo(h.admin, get("/livez"))
	want = append(want, requestLine("admin", "GET", "/livez", 200, a))
	got, _ := h.log.lines(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// The log has the reason for which a credential is invalid, and the name and the id of an ended token. The response has
// neither.
func TestLogHasReasonOfInvalidCredential(t *testing.T) {
	t.Parallel()
	h, secrets := startWithTokens(t)
	var want []line
	for _, row := range []struct {
		secret, reason, name string
		id                   float64
	}{
		{auth.Mint(), "unknown", "", 0},
		{"00aa11", "unknown", "", 0},
		{secrets["expired"], "expired", "expired", 7},
		{secrets["revoked"], "revoked", "revoked", 9},
		{secrets["revoked and expired"], "revoked", "revoked and expired", 10},
	} {
		a := h.send(post("", "Authorization: Bearer "+row.secret))
		same(t, a, refused(40102, textInvalid, "WWW-Authenticate", challengeInvalid))
		l := requestLine("public", "POST", "/plants", 401, a)
		l["reason"], l["error_code"] = row.reason, 40102.0
		if row.name != "" {
			l["credential"], l["credential_id"] = row.name, row.id
		}
		want = append(want, l)
	}
	got, _ := h.log.lines(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	uses := map[string]string{}
	for _, u := range h.writePath.EndedUses() {
		uses[u.Name] = fmt.Sprint(u.Count, " from ", u.Network)
	}
	const once = "1 from 127.0.0.1"
	wantUses := map[string]string{"expired": once, "revoked": once, "revoked and expired": once}
	if diff := cmp.Diff(wantUses, uses); diff != "" {
		t.Errorf("uses of ended credentials (-want +got):\n%s", diff)
	}
}

// The log has the reason for which a JWT is invalid, and no part of the JWT.
func TestLogHasReasonOfInvalidJWT(t *testing.T) {
	t.Parallel()
	issuer, verify := startIssuer(t)
	h := start(t, func(s *setup) { s.jwt = verify })
	now := time.Now()
	old := now.Add(-2 * time.Hour)
	var want []line
	for _, row := range []struct{ jwt, reason string }{
		{issuer.JWT(old, oidctest.Object{"exp": old.Add(time.Hour).Unix()}), "jwt: exp is in the past"},
		{
			issuer.JWT(now, oidctest.Object{"aud": "https://other.example"}),
			"jwt: aud does not have the audience of this store",
		},
		{"a.b.c.d.e", "unknown"},
	} {
		a := h.send(post("", "Authorization: Bearer "+row.jwt))
		same(t, a, refused(40102, textInvalid, "WWW-Authenticate", challengeInvalid))
		l := requestLine("public", "POST", "/plants", 401, a)
		l["reason"], l["error_code"] = row.reason, 40102.0
		want = append(want, l)
	}
	got, _ := h.log.lines(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// requestLine returns the line about a request, without credential and error.
func requestLine(listener, method, path string, status int, a response) line {
	return line{
		"level": "INFO", "msg": "request", "listener": listener, "request_id": sentID, "client": "127.0.0.1",
		"method": method, "path": path, "status": float64(status), "bytes": float64(len(a.Body)),
	}
}

// The log has no token from a path or a method, in any encoding.
func TestLogHasNoEncodedToken(t *testing.T) {
	t.Parallel()
	h := start(t)
	percent := func(s string) string {
		var out strings.Builder
		for i := range len(s) {
			fmt.Fprintf(&out, "%%%02x", s[i])
		}
		return out.String()
	}
	for name, encode := range map[string]func(string) string{
		"plain":               func(s string) string { return s },
		"without its prefix":  func(s string) string { return s[len("pst_"):] },
		"upper case":          strings.ToUpper,
		"lower case":          strings.ToLower,
		"percent-encoded":     percent,
		"twice":               func(s string) string { return strings.ReplaceAll(percent(s), "%", "%25") },
		"prefix encoded once": func(s string) string { return "%70st_" + s[len("pst_"):] },
		"base64":              func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"base64 for URLs": func(s string) string {
			return base64.RawURLEncoding.EncodeToString([]byte("user:" + s))
		},
		"hexadecimal": func(s string) string { return hex.EncodeToString([]byte(s)) },
		"in quotes":   func(s string) string { return "%22" + s + "%22" },
		"shortened":   func(s string) string { return s[:20] },
	} {
		text := encode(h.token)
		before := len(h.log.string())
		for _, raw := range []string{
			message("GET /"+text+" HTTP/1.1", ""),
			message("GET /"+text+"/plants HTTP/1.1", ""),
			message("GET /plants/"+text+" HTTP/1.1", ""),
			message("GET //"+text+" HTTP/1.1", ""),
			message("GET /plants;"+text+" HTTP/1.1", ""),
			message(text+" /plants HTTP/1.1", ""),
			message(text+" /nothing HTTP/1.1", ""),
		} {
			h.send(raw)
		}
		got := strings.ToLower(h.log.string()[before:])
		const part = 12 // bytes that may be in the log: 62^31 possible tokens remain
		for _, secret := range []string{text, h.token} {
			for i := 0; i+part <= len(secret); i++ {
				if strings.Contains(got, strings.ToLower(secret[i:i+part])) {
					t.Errorf("%s: a part of the token is in the log:\n%s", name, got)
					break
				}
			}
		}
	}
}

// The log has no part of a token, a body or a query, wherever the client sends it.
func TestLogHasNoSecrets(t *testing.T) {
	t.Parallel()
	h := start(t)
	const in = "ImpatiensNoliTangere" // confidential text of a client
	for _, raw := range []string{
		post(`{"id":1,"name":"` + in + `","tag":"` + in + `"}`),
		post(`{"id":1,"name":"` + in + `","tag":"other"}`),
		post(`{"id":"` + in + `","` + in + `":1,"` + in + `":2}`),
		post(in),
		post(`{"id":1,"name":"` + in),
		post(in, "Content-Type: "+in), post(
			"", "Content-Type: application/json; "+in+"="+in,
		), post("", "Content-Encoding: "+in),
		message("POST /plants?access_token={token}&name="+in+" HTTP/1.1", "{}", "-Authorization"),
		message("GET /nothing?access_token={token}&name="+in+" HTTP/1.1", ""),
		message("GET /nothing?"+in+";"+in+" HTTP/1.1", ""),
		message("POST /plants/{token} HTTP/1.1", ""),
		message("POST /plants/pst%5f"+"{token} HTTP/1.1", ""),
		message("POST /{token}/"+strings.Repeat("x", 200)+" HTTP/1.1", ""),
		message("POST http://{token}@plants.example/nothing HTTP/1.1", ""),
		message("CONNECT {token}:80 HTTP/1.1", ""),
		message("GET http:{token} HTTP/1.1", ""),
		message("{token} /plants HTTP/1.1", ""),
		message("{token} /nothing HTTP/1.1", ""),
		message("POST /plants {token}", ""),
		message("GET {token} HTTP/1.1", ""),
		post("", "X-Request-Id: {token}"), post("", "X-Request-Id: run/{token}"), post("", "X-Request-Id: "+in+" "+in),
		post("", "Authorization: {token}"), post(
			"", "Authorization: Bearer {token} {token}",
		), post("", "Authorization: Token {token}"),
		post("", "Authorization: Bearer {token}x"), post("", `Authorization: Bearer "{token}"`),
		post("", "+Authorization: Bearer {token}"),
		post("", "Authorization: Basic "+in), post("", "Cookie: "+in+"={token}"), post("", "Origin: {token}"),
		post("", "User-Agent: "+in),
		post("", "Host: {token} "+in), post("", "Host: {token}"), post("", "X Y: {token}"), post("", "{token}"),
		post("", "X-Y: {token}\x01"),
		post("", "Expect: {token}"), post(
			"", "-Content-Length", "Transfer-Encoding: {token}",
		), post("", "Content-Length: {token}"),
		post("", "X-Large: "+strings.Repeat("{token}", 1000)),
	} {
		h.send(raw)
	}
	got := h.log.string()
	if n := strings.Count(got, "\n"); n < 33 {
		t.Errorf("got %d lines, want one for each request that reaches the handler", n)
	}
	for _, secret := range []string{h.token, h.token[4:20], h.token[20:40], in} {
		for line := range strings.Lines(got) {
			if strings.Contains(strings.ToLower(line), strings.ToLower(secret)) {
				t.Errorf("%q is in the line %s", secret, line)
			}
		}
	}
}

// A log of level error has no line about successful or refused requests.
func TestQuietLog(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.level = slog.LevelError })
	same(t, h.send(post(`{"id":1,"name":"A"}`)), created(`{"name":"A"}`))
	same(t, h.send(post(``)), refused(40001, textNoBody))
	if got := h.log.string(); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}

// Only a log of level debug has the successful requests that pages send by themselves. Every log has those that failed.
func TestLogOfBackgroundRequests(t *testing.T) {
	t.Parallel()
	for level, want := range map[slog.Level][]float64{server.LevelAccess: {401}, slog.LevelDebug: {200, 401}} {
		h := start(t, func(s *setup) {
			s.level = level
			s.routes = []server.Route{{
				Method: "GET", Path: "/live", Scope: auth.ScopeMetrics, Background: true,
				Handle: func(c *server.Call) error {
					c.WriteHeader(http.StatusOK)
					return nil
				},
			}}
		})
		h.sendTo(h.admin, message("GET /live HTTP/1.1", ""))
		h.sendTo(h.admin, message("GET /live HTTP/1.1", "", "-Authorization"))
		lines, _ := h.log.lines(t)
		var got []float64
		for _, l := range lines {
			if l["msg"] == "request" {
				got = append(got, l["status"].(float64))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got lines of the statuses %v, want %v", level, got, want)
		}
	}
}

// A log of level info has no line about successful requests.
func TestLogWithoutSuccesses(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.level = slog.LevelInfo })
	same(t, h.send(post(`{"id":1,"name":"A"}`)), created(`{"name":"A"}`))
	h.sendTo(h.admin, message("GET /livez HTTP/1.1", ""))
	refusal := refused(40001, textNoBody)
	same(t, h.send(post(``)), refusal)
	want := []line{{
		"level": "INFO", "msg": "request", "listener": "public", "request_id": sentID, "client": "127.0.0.1",
		"method": "POST",
		"path":   "/plants", "status": 400.0, "bytes": float64(len(refusal.Body)), "credential": "gardener",
		"error_code": 40001.0,
	}}
	got, _ := h.log.lines(t)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}
