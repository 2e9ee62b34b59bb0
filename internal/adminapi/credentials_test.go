package adminapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/store"
)

var changing = regexp.MustCompile(`"(created_at|expires_at|revoked_at|last_used_at|old_ends_at)":"[^"]*"|pst_\w+`)

// stable replaces times and secrets in a response.
func stable(r response) response {
	r.body = changing.ReplaceAllStringFunc(r.body, func(text string) string {
		if name, _, found := strings.Cut(text, ":"); found {
			return name + `:"T"`
		}
		return text[:4]
	})
	return r
}

// authenticated returns the status of a request with a secret.
func (h *harness) authenticated(secret string) int {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.url+"/plants", http.NoBody)
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	res, err := h.client.Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	_ = res.Body.Close()
	return res.StatusCode
}

// TestCredentials mints, lists, rotates and revokes a token.
func TestCredentials(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	const shop = `"kind":"token","id":3,"name":"shop","prefix":"pst_","state":"valid","scopes":["plants:read"],` +
		`"created_at":"T","expires_at":"T"`
	minted := h.post("/credentials", `{"name":"shop","scopes":["plants:read"],"expires_in":3600}`)
	check(t, "mint", stable(minted), ok(`{`+shop+`,"secret":"pst_"}`))
	secret := secretIn(t, minted)
	if got := h.authenticated(secret); got != http.StatusOK {
		t.Errorf("the new token: got %d", got)
	}
	check(t, "list", stable(h.get("/credentials?limit=1&kind=token")), ok(`{"credentials":[{"kind":"token","id":1,`+
		`"name":"reader","state":"valid","scopes":["plants:read"],"created_at":"T"}],"next":"AQAAAAAAAAAC"}`))
	rest := stable(h.get("/credentials?cursor=AQAAAAAAAAAD"))
	if !strings.Contains(rest.body, `{`+shop) || strings.Contains(rest.body, "next") {
		t.Errorf("second page: got %s", rest.body)
	}

	rotated := h.post("/credentials/rotate", `{"name":"shop","overlap":60}`)
	check(t, "rotate", stable(rotated), ok(`{`+strings.Replace(shop, `"id":3`, `"id":4`, 1)+
		`,"secret":"pst_","old_id":3,"old_ends_at":"T"}`))
	for _, s := range []string{secret, secretIn(t, rotated)} {
		if got := h.authenticated(s); got != http.StatusOK {
			t.Errorf("during the overlap: got %d", got)
		}
	}
	revoked := h.post("/credentials/revoke", fmt.Sprintf(`{"secret_sha256":"%x"}`, auth.HashOf(secret)))
	if revoked.status != http.StatusOK {
		t.Errorf("revoke by hash: got %+v", revoked)
	}
	for deadline := time.Now().Add(wait); h.authenticated(secret) != http.StatusUnauthorized; { // within a second
		if time.Now().After(deadline) {
			t.Fatal("the revoked token is still valid")
		}
	}
	if got := h.post("/credentials/revoke", `{"name":"shop"}`); got.status != http.StatusOK {
		t.Errorf("revoke by name: got %+v", got)
	}
	check(t, "revoke again", h.post("/credentials/revoke", `{"id":4}`),
		refused(40403, "no such token, or it is already revoked; see the list of tokens"))
	check(t, "rotate a revoked one", h.post("/credentials/rotate", `{"name":"shop"}`),
		refused(40403, `no valid token has the name "shop"; see the list of tokens`))
	if log := h.log.string(); strings.Contains(log, "pst_") {
		t.Errorf("the log has a secret:\n%s", log)
	}
}

func secretIn(t *testing.T, r response) string {
	t.Helper()
	var m admin.Minted
	if err := json.Unmarshal([]byte(r.body), &m); err != nil || !auth.WellFormed(m.Secret) {
		t.Fatalf("no secret in %s: %v", r.body, err)
	}
	return m.Secret
}

// unrecording is an engine whose audit log accepts no entry.
type unrecording struct{ admin.Engine }

func (e unrecording) RevokeTokens(
	ctx context.Context, s store.Selector, at time.Time, by audit.Origin,
) ([]auth.Token, error) {
	tokens, err := e.Engine.RevokeTokens(ctx, s, at, by)
	if err == nil {
		err = &store.Unrecorded{Events: store.TokensRevoked(tokens, at, by), Cause: store.ErrAuditFault}
	}
	return tokens, err
}

// TestRevocationIsReported shows that a server revokes a token while the audit log accepts no entry, and reports the
// event.
func TestRevocationIsReported(t *testing.T) {
	t.Parallel()
	var recorded []audit.Event // by the handler, which has ended before the response is complete
	h := start(t, setup{
		wrap:       func(e admin.Engine) admin.Engine { return unrecording{e} },
		unrecorded: func(u *store.Unrecorded) { recorded = append(recorded, u.Events...) },
	})
	h.post("/credentials", `{"name":"shop","scopes":["metrics"],"no_expiry":true}`)
	revoked := h.post("/credentials/revoke", `{"name":"shop"}`)
	if revoked.status != http.StatusOK || !strings.Contains(revoked.body, `"state":"revoked"`) {
		t.Errorf("got %+v", revoked)
	}
	if len(recorded) != 1 || recorded[0].Action != audit.TokenRevoke || recorded[0].Actor.Name != "operator" {
		t.Errorf("recorded %+v", recorded)
	}
}

// TestChangesAreAudited shows that an entry has the credential, the address and the id of the request, and no secret.
func TestChangesAreAudited(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	minted := h.post("/credentials", `{"name":"shop","scopes":["metrics"],"no_expiry":true}`, "X-Request-Id: mint-1")
	rows, err := h.engine.AuditRows(t.Context(), 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	last := rows[len(rows)-1]
	entry, err := last.Entry()
	if err != nil {
		t.Fatal(err)
	}
	want := audit.Origin{
		Actor: audit.Actor{Kind: audit.Token, ID: "2", Name: "operator"}, Address: "127.0.0.1", RequestID: "mint-1",
	}
	if diff := cmp.Diff(want, entry.Origin); diff != "" || entry.Action != audit.TokenCreate {
		t.Errorf("entry %s (-want +got):\n%s", last.Text, diff)
	}
	if secret := secretIn(t, minted); strings.Contains(last.Text, secret[:12]) {
		t.Errorf("the audit log has the secret: %s", last.Text)
	}
}

// A token expires in 90 days if the request chooses nothing else.
func TestTokenExpiresByDefault(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	h.post("/credentials", `{"name":"shop","scopes":["metrics"]}`)
	tokens, err := h.engine.Tokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	last := tokens[len(tokens)-1]
	if got := last.ExpiresAt.Sub(last.CreatedAt); last.Name != "shop" || got != 90*24*time.Hour {
		t.Errorf("%s expires after %s", last.Name, got)
	}
}

func TestSubjectsAreRevoked(t *testing.T) {
	t.Parallel()
	const issuer = "https://login.example"
	h := start(t, setup{issuer: issuer})
	got := h.post("/credentials/revoke", `{"subject":"bot"}`)
	want := ok(`{"revoked":[{"kind":"subject","id":3,"name":"bot","issuer":"` + issuer +
		`","subject":"bot","state":"revoked","scopes":[],"created_at":"T","revoked_at":"T"}]}`)
	check(t, "subject", stable(got), want)
	got = h.post("/credentials/revoke", `{"jwt_id":"a81f","issuer":"`+issuer+`"}`)
	if got.status != http.StatusOK || !strings.Contains(got.body, `"jwt_id":"a81f"`) {
		t.Errorf("jwt: got %+v", got)
	}
	if got := h.get("/credentials?kind=jwt"); !strings.Contains(got.body, `"jwt_id":"a81f"`) ||
		strings.Contains(got.body, `"subject"`) {
		t.Errorf("list of JWTs: got %s", got.body)
	}
	other := h.post("/credentials/revoke", `{"subject":"bot","issuer":"https://other.example"}`)
	check(t, "other issuer", other,
		refused(40062, `issuer must be "`+issuer+`", the issuer of the server, which refuses other JWTs`))
}

// TestBadChanges sends bodies that the API must refuse. None changes the store.
func TestBadChanges(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	secret := auth.Mint()
	for _, test := range []struct {
		path, body, message string
		code                int
	}{
		{"", "", "the body is empty; send a JSON object", 40001},
		{"", "{", "the body must be one JSON object (RFC 8259)", 40002},
		{"", `{"name":"a"} {}`, "the body must be one JSON object (RFC 8259)", 40002},
		{"", `{"name":}`, "the body must be one JSON object (RFC 8259)", 40002},
		{"", "{\"name\":\"\xff\"}", "the body must be UTF-8", 40003},
		{"", `[]`, "the body must be a JSON object", 40005},
		{"", `{"name":"a","name":"b"}`, "member name occurs twice; send it once", 40006},
		{"", `{"Name":"a"}`, `unknown member "Name"; use expires_in, name, no_expiry, scopes`, 40062},
		{"", `{"name":7}`, "name must be a string; got 7", 40062},
		{"", `{"name":null}`, "name must be a string; got null", 40062},
		{"", `{"expires_in":1.5}`, "expires_in must be a 64-bit integer; got 1.5", 40062},
		{
			"", `{"name":"a","scopes":["metrics"],"expires_in":5,"no_expiry":true}`,
			"send expires_in or no_expiry, not both", 40062,
		},
		{
			"", `{"name":"a","scopes":["metrics"],"expires_in":0}`,
			"expires_in must be a number of seconds from 1 to 3153600000; got 0", 40062,
		},
		{
			"", `{"name":"a","scopes":["metrics"],"expires_in":3153600001}`,
			"expires_in must be a number of seconds from 1 to 3153600000; got 3153600001", 40062,
		},
		{
			"", `{"name":"a","scopes":["all"],"no_expiry":true}`,
			`scopes: unknown scope "all"; known scopes are plants:create, plants:read, admin, metrics`, 40062,
		},
		{
			"", `{"name":"a","scopes":[],"no_expiry":true}`,
			"a token needs one or more of the scopes plants:create, plants:read, admin, metrics", 40062,
		},
		{
			"", `{"name":"a  b","scopes":["metrics"],"no_expiry":true}`,
			`name: "a  b" is not a valid name; use ` + auth.NameForm, 40062,
		},
		{"", `{"name":"` + secret + `","scopes":["metrics"],"no_expiry":true}`, "the name has the form of a secret", 40062},
		{
			"", `{"name":"reader","scopes":["metrics"],"no_expiry":true}`,
			`a valid token has the name "reader"; use another name, or rotate the token`, 40902,
		},
		{"/rotate", `{"name":"` + secret + `"}`, "the name has the form of a secret", 40062},
		{
			"/rotate", `{"name":"reader","overlap":-1}`,
			"overlap must be a number of seconds from 0 to 3153600000; got -1", 40062,
		},
		{
			"/revoke", `{}`,
			"send one of id, name, secret_sha256, subject and jwt_id; issuer only with the last two", 40062,
		},
		{
			"/revoke", `{"id":1,"issuer":"https://a.example"}`,
			"send one of id, name, secret_sha256, subject and jwt_id; issuer only with the last two", 40062,
		},
		{"/revoke", `{"id":0}`, "id must be at least 1; got 0", 40062},
		{"/revoke", `{"name":""}`, "name is empty", 40062},
		{
			"/revoke", `{"secret_sha256":"ab"}`,
			`secret_sha256 must be the SHA-256 of a secret in 64 hexadecimal digits; got "ab"`, 40062,
		},
		{
			"/revoke", `{"subject":"bot"}`, "issuer is missing, and the server accepts no JWTs (--oidc-issuer)", 40062,
		},
		{
			"", `{"name":"` + strings.Repeat("a", 20<<10) + `"}`,
			"the body is larger than 16384 bytes; nothing was stored", 41301,
		},
	} {
		check(t, fmt.Sprintf("%s %.60s", test.path, test.body), h.post("/credentials"+test.path, test.body),
			refused(test.code, test.message))
	}
	for _, target := range []string{"/credentials?cursor=x", "/credentials?kind=", "/credentials?kind=x", "/state?x=1"} {
		if got := h.get(target); got.status != http.StatusBadRequest {
			t.Errorf("%s: got %+v", target, got)
		}
	}
	tokens, err := h.engine.Tokens(t.Context())
	if err != nil || len(tokens) != 2 {
		t.Errorf("got %d tokens, want 2 (%v)", len(tokens), err)
	}
	if log := h.log.string(); strings.Contains(log, secret) {
		t.Errorf("the log has a secret:\n%s", log)
	}
}

func TestChangeWithoutStore(t *testing.T) {
	t.Parallel()
	h := start(t, setup{wrap: func(e admin.Engine) admin.Engine { return failing{e, errors.New("disk on fire")} }})
	got := h.post("/credentials", `{"name":"a","scopes":["metrics"],"no_expiry":true}`)
	want := refused(50304, "nothing was changed because the store cannot write now; send it again")
	check(t, "mint", got, want)
	if log := h.log.string(); !strings.Contains(log, `msg="change for the operator failed" error="disk on fire"`) {
		t.Errorf("the log lacks the cause:\n%s", log)
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	h := start(t, setup{})
	var st admin.State
	got := h.get("/state")
	if err := json.Unmarshal([]byte(got.body), &st); err != nil {
		t.Fatal(err)
	}
	if time.Since(st.StartedAt) > time.Hour || st.Plants == nil || st.StoreBytes == nil || *st.StoreBytes == 0 {
		t.Errorf("got %s", got.body)
	}
	if len(st.Warnings) != 1 || st.Warnings[0].ID != "backup-missing" || time.Since(st.Warnings[0].Since) > time.Hour {
		t.Errorf("got the warnings %+v, want one about backups", st.Warnings)
	}
	st.Warnings, st.StartedAt, st.Connections = nil, time.Time{}, nil
	st.StoreBytes, st.WALBytes, st.DiskFreeBytes = nil, nil, nil
	none := int64(0)
	want := admin.State{
		Version: "test", DB: "plants.db", Ready: true, Guarantee: h.engine.Durability().Guarantee,
		Gauges: admin.Gauges{Plants: &none},
	}
	if diff := cmp.Diff(want, st); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	h := start(t, setup{settings: []admin.Setting{
		{Name: "listen", Value: "127.0.0.1:1", Source: "default", Group: "Common settings", Usage: "address"},
		{Name: "body-max", Value: "64KiB", Source: "--body-max", Reloadable: true, Group: "Limits"},
	}})
	want := ok(`{"settings":[` +
		`{"name":"listen","value":"127.0.0.1:1","source":"default","reloadable":false,` +
		`"group":"Common settings","usage":"address"},` +
		`{"name":"body-max","value":"64KiB","source":"--body-max","reloadable":true,"group":"Limits","usage":""}]}`)
	check(t, "settings", h.get("/settings"), want)
}
