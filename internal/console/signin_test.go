package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/console"
	"plantstore/internal/oidc"
	"plantstore/internal/oidc/oidctest"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/store/storetest"
)

// A sign-in code starts one session, with every scope of the console. Its link uses nothing up.
func TestSignInCode(t *testing.T) {
	t.Parallel()
	h := start(t)
	code := h.code(time.Now())
	c := &client{h: h}
	for range 2 {
		if res := c.get("/sign-in?code=" + code); res.status != 200 || !strings.Contains(res.body, code) {
			t.Fatalf("link: got %d, %s", res.status, res.body)
		}
	}
	res := c.post("/sign-in", url.Values{"credential": {code}})
	want := regexp.MustCompile(`^plantstore-\d+=[\w-]{43}; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict$`)
	if got := res.Header.Get("Set-Cookie"); res.status != 303 || res.Header.Get("Location") != "/" ||
		!want.MatchString(got) {
		t.Fatalf("got %d to %q with the cookie %q", res.status, res.Header.Get("Location"), got)
	}
	if res := c.get("/"); res.status != 200 || !strings.Contains(res.body, "Overview") {
		t.Errorf("overview: got %d", res.status)
	}
	if res := (&client{h: h}).post("/sign-in", url.Values{"credential": {code}}); res.status != 401 ||
		!strings.Contains(res.body, "not valid") {
		t.Errorf("second use: got %d, want 401", res.status)
	}
	h.awaitAudit(audit.SignIn, "console=code")
}

// awaitAudit waits for an entry with an action and a detail.
func (h *harness) awaitAudit(action audit.Action, detail string) {
	h.t.Helper()
	for end := time.Now().Add(wait); time.Now().Before(end); <-time.After(10 * time.Millisecond) {
		rows, err := h.engine.AuditRows(h.t.Context(), 0, 1000)
		if err != nil {
			h.t.Fatal(err)
		}
		for _, row := range rows {
			e, err := row.Entry()
			if err != nil {
				h.t.Fatal(err)
			}
			for _, d := range e.Details {
				if e.Action == action && d.Key+"="+d.Value == detail {
					return
				}
			}
		}
	}
	h.t.Errorf("no entry %s with %s", action, detail)
}

// The pages and the audit log name the person of a sign-in code, also as the creator of plants.
func TestSignInCodeOfPerson(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.codeFor("Anna Müller", time.Now()))
	c.get("/plants").want(t, 200, `Signed in as <bdi class="breaks">Anna Müller</bdi>`)
	c.post("/plants/new", url.Values{"id": {"7"}, "name": {"Rosa"}}).want(t, 303)
	c.get("/plants/7").want(t, 200, `<dt>Created by</dt><dd><bdi class="breaks">Anna Müller</bdi>`)
	c.get("/audit?actor=Anna+M%C3%BCller&action=admin.sign_in").want(t, 200, `<bdi class="breaks">Anna Müller</bdi>`)
}

// A sign-in and the requests of its session have one entry in the audit log.
func TestSignInHasOneEntry(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.code(time.Now()))
	for range 2 {
		if res := c.get("/"); res.status != http.StatusOK {
			t.Fatalf("got %d, %s", res.status, res.body)
		}
	}
	h.down()
	h.audited()
	rows, err := h.engine.AuditRows(t.Context(), 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, row := range rows {
		e, err := row.Entry()
		if err != nil {
			t.Fatal(err)
		}
		if e.Action == audit.SignIn {
			got = append(got, fmt.Sprint(e.Details))
		}
	}
	if want := []string{"[{console code}]"}; !slices.Equal(got, want) {
		t.Errorf("got the entries %v, want %v", got, want)
	}
}

// Of many sign-ins with one code at the same time, one succeeds.
func TestSignInCodeOnce(t *testing.T) {
	t.Parallel()
	h := start(t)
	code := h.code(time.Now())
	var wg sync.WaitGroup
	statuses := make([]int, 20)
	for i := range statuses {
		wg.Go(func() {
			statuses[i] = (&client{h: h}).post("/sign-in", url.Values{"credential": {code}}).status
		})
	}
	wg.Wait()
	count := map[int]int{}
	for _, status := range statuses {
		count[status]++
	}
	if count[303] != 1 || count[401] != 19 {
		t.Errorf("got %v, want 1 sign-in and 19 refusals", count)
	}
}

func TestSignInRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	revoked := h.mint("revoked", auth.ScopeAdmin)
	h.revoke(store.Selector{Name: "revoked"})
	h.awaitInvalid(revoked) // the store may have read the token before the revocation
	for name, c := range map[string]struct {
		credential string
		status     int
	}{
		"empty":         {"", 401},
		"no token":      {"x", 401},
		"unknown token": {auth.Mint(), 401},
		"revoked token": {revoked, 401},
		"expired code":  {h.code(time.Now().Add(-16 * time.Minute)), 401},
		"only metrics":  {h.mint("prometheus", auth.ScopeMetrics|auth.ScopeCreate), 403},
	} {
		res := (&client{h: h}).post("/sign-in", url.Values{"credential": {c.credential}, "next": {"/plants"}})
		if res.status != c.status || len(res.Cookies()) > 0 || !strings.Contains(res.body, `role="alert"`) ||
			!strings.Contains(res.body, `value="/plants"`) ||
			c.credential != "" && strings.Contains(res.body, ">"+c.credential) {
			t.Errorf("%s: got %d with %q, want %d and a message: %s", name, res.status, res.Cookies(), c.status, res.body)
		}
	}
}

// fullEngine is an engine with a full disk.
type fullEngine struct{ *sqlite.Engine }

func (fullEngine) RevokeTokens(context.Context, store.Selector, time.Time, audit.Origin) ([]auth.Token, error) {
	return nil, fmt.Errorf("%w: secret detail", store.ErrFull)
}

func (fullEngine) Insert(context.Context, []store.Create) ([]store.Outcome, error) {
	return nil, store.ErrFull
}

func (fullEngine) Probe(context.Context) error { return store.ErrFull }

func (fullEngine) AppendAudit(context.Context, ...audit.Event) error { return store.ErrFull }

// On a full disk a sign-in with a token works. The refusal of a code has advice.
func TestSignInFullDisk(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "plants.db")
	h := startOn(t, file, func(metrics prometheus.Registerer) (storetest.Engine, error) {
		e, err := sqlite.Open(t.Context(), sqlite.Config{Path: file, Server: true, Metrics: metrics})
		return fullEngine{e}, err
	})
	c := &client{h: h}
	res := c.post("/sign-in", url.Values{"credential": {h.code(time.Now())}})
	if res.status != 503 || strings.Contains(res.body, "secret") ||
		!strings.Contains(res.body, "the disk of the store is full; free space on it, or sign in with an admin token") {
		t.Errorf("with a code: got %d, %s", res.status, res.body)
	}
	if res := c.post("/sign-in", url.Values{"credential": {h.admin}}); res.status != 303 {
		t.Errorf("with a token: got %d, %s", res.status, res.body)
	}
	if res := c.get("/"); res.status != 200 {
		t.Errorf("overview: got %d", res.status)
	}
}

func (h *harness) revoke(s store.Selector) {
	h.t.Helper()
	if _, err := h.engine.RevokeTokens(h.t.Context(), s, time.Now(), audit.Origin{}); err != nil {
		h.t.Fatal(err)
	}
}

// The limit of failed credentials counts failed sign-ins of an address.
func TestSignInFailuresAreLimited(t *testing.T) {
	t.Parallel()
	h := start(t)
	last := response{}
	for n := 0; n < 300 && last.status != http.StatusTooManyRequests; n++ {
		last = (&client{h: h}).post("/sign-in", url.Values{"credential": {auth.Mint()}})
	}
	if last.status != http.StatusTooManyRequests || last.Header.Get("Retry-After") == "" {
		t.Errorf("got %d with Retry-After %q, want 429", last.status, last.Header.Get("Retry-After"))
	}
}

// A revocation of the credential ends its sessions.
func TestRevocationEndsSession(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.admin)
	h.revoke(store.Selector{Name: "operator"})
	h.awaitInvalid(h.admin) // a request would be cut if it lasted for so long
	res := c.get("/")
	if res.status != 303 || res.Header.Get("Location") != "/sign-in?ended=1" || c.cookie != "" {
		t.Errorf("got %d to %q, cookie %q; want the sign-in page and no cookie",
			res.status, res.Header.Get("Location"), c.cookie)
	}
}

// A sign-out ends the session, and revokes the token of a session that a code started.
func TestSignOut(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.code(time.Now()))
	cookie := c.cookie
	if res := c.post("/sign-out", url.Values{}); res.status != 303 || res.Header.Get("Location") != "/sign-in" {
		t.Fatalf("got %d to %q", res.status, res.Header.Get("Location"))
	}
	if res := (&client{h: h, cookie: cookie}).get("/"); res.Header.Get("Location") != "/sign-in?ended=1" {
		t.Errorf("the old cookie: got %d to %q", res.status, res.Header.Get("Location"))
	}
	tokens, err := h.engine.Tokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range tokens {
		if strings.HasPrefix(token.Name, "console-") && !token.Revoked() {
			t.Errorf("the token %q is valid", token.Name)
		}
	}
}

// A session ends after 12 hours.
func TestSessionExpires(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.admin)
	h.console.SetClock(func() time.Time { return time.Now().Add(12*time.Hour - time.Minute) })
	if res := c.get("/"); res.status != 200 {
		t.Errorf("before the end: got %d", res.status)
	}
	h.console.SetClock(func() time.Time { return time.Now().Add(12*time.Hour + time.Second) })
	if res := c.get("/live"); res.Header.Get("Location") != "/sign-in?ended=1" {
		t.Errorf("after 12 h: got %d to %q", res.status, res.Header.Get("Location"))
	}
}

// A credential has at most 20 sessions: another sign-in ends the oldest one.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	h := start(t)
	first := h.signIn(h.admin)
	second := h.signIn(h.admin)
	for range 19 {
		h.signIn(h.admin)
	}
	if got := h.console.Sessions(); got != 20 {
		t.Errorf("got %d sessions, want 20", got)
	}
	if a, b := first.get("/").status, second.get("/").status; a != 303 || b != 200 {
		t.Errorf("first session: got %d, want 303; second session: got %d, want 200", a, b)
	}
}

// An operator signs in although others have many sessions: all JWTs of a subject are of one owner, and beyond the limit
// the owner with the most sessions loses one.
func TestSignInWithManySessions(t *testing.T) {
	t.Parallel()
	h := start(t)
	i, stop := oidctest.Start()
	t.Cleanup(stop)
	verifier := oidc.New(oidc.Config{
		Issuer: i.URL, Audience: oidctest.Audience, Scopes: map[string]auth.Scopes{"plants:read": auth.ScopeRead},
	})
	t.Cleanup(verifier.Close)
	h.verifier.Store(verifier)
	operator := h.signIn(h.code(time.Now()))
	for n := range 21 {
		h.signIn(i.JWT(time.Now(), oidctest.Object{"scope": "plants:read", "jti": fmt.Sprint(n)}))
	}
	if got := h.console.Sessions(); got != 21 {
		t.Errorf("got %d sessions of an operator and a subject, want 21", got)
	}
	for n := range 50 {
		reader := h.mint(fmt.Sprint("reader", n), auth.ScopeRead)
		for range 20 {
			h.signIn(reader)
		}
	}
	h.signIn(h.code(time.Now()))
	if got := h.console.Sessions(); got != 1000 {
		t.Errorf("got %d sessions, want 1000", got)
	}
	if res := operator.get("/"); res.status != http.StatusOK {
		t.Errorf("the operator: got %d", res.status)
	}
}

// The page after the sign-in is one of this console.
func TestNextPage(t *testing.T) {
	t.Parallel()
	h := start(t)
	for next, want := range map[string]string{
		"":                        "/",
		"/?range=24h":             "/?range=24h",
		"https://evil.example/":   "/",
		"//evil.example/":         "/",
		`/\evil.example`:          "/",
		"/\t/evil.example":        "/",
		"javascript:alert(1)":     "/",
		"/sign-in?next=/sign-in":  "/",
		"/?a=1\r\nX-Header: evil": "/",
	} {
		res := (&client{h: h}).post("/sign-in", url.Values{"credential": {h.admin}, "next": {next}})
		if got := res.Header.Get("Location"); res.status != 303 || got != want {
			t.Errorf("%q: got %d to %q, want %q", next, res.status, got, want)
		}
	}
}

// A form that a page of another site sends is refused, also with a valid cookie.
func TestCrossSiteForms(t *testing.T) {
	t.Parallel()
	h := start(t)
	c := h.signIn(h.admin)
	for _, header := range []http.Header{
		{"Sec-Fetch-Site": {"cross-site"}},
		{"Sec-Fetch-Site": {"same-site"}},
		{"Origin": {"https://evil.example"}},
		{"Origin": {"null"}},
	} {
		c.header = header
		for _, r := range h.routes {
			if r.Method != http.MethodPost {
				continue
			}
			if res := c.post(r.Path, url.Values{}); res.status != 403 {
				t.Errorf("%s with %v: got %d, want 403", r.Path, header, res.status)
			}
		}
	}
}

// With TLS, browsers send the cookie over TLS only, and accept it from this host only.
func TestCookieWithTLS(t *testing.T) {
	t.Parallel()
	cookie := console.CookieWithTLS()
	if !cookie.Secure || !strings.HasPrefix(cookie.Name, "__Host-") || cookie.Path != "/" || cookie.Domain != "" {
		t.Errorf("got %v", cookie)
	}
}
