package console_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/console"
	"plantstore/internal/oidc"
	"plantstore/internal/oidc/oidctest"
	"plantstore/internal/plant"
	"plantstore/internal/store"
)

// offerIssuer makes the console of a harness offer the sign-in at an issuer.
func (h *harness) offerIssuer(t *testing.T, issuer string, secret string) *oidc.Client {
	t.Helper()
	v := oidc.New(oidc.Config{Issuer: issuer})
	t.Cleanup(v.Close)
	c := oidc.NewClient(v, oidc.ClientConfig{
		ID: oidctest.ClientID, Secret: secret, Scopes: []string{"openid", "groups"}, Claim: "groups",
		RedirectURL: console.RedirectURL(&url.URL{Scheme: "http", Host: h.host}),
		Grants: map[string]auth.Scopes{
			"plant-admins": auth.ScopeAdmin | auth.ScopeRead | auth.ScopeCreate, "staff": auth.ScopeRead,
			"makers": auth.ScopeCreate,
		},
	})
	h.console.SetIssuer(c)
	return c
}

// startWithIssuer starts a server whose console offers the sign-in at an issuer.
func startWithIssuer(t *testing.T, plants ...store.Create) (*harness, *oidctest.Issuer) {
	t.Helper()
	i, stop := oidctest.Start()
	t.Cleanup(stop)
	h := start(t, plants...)
	h.offerIssuer(t, i.URL, oidctest.ClientSecret)
	return h, i
}

// surfer is a browser without scripts that keeps cookies. It follows no redirect.
type surfer struct {
	t      *testing.T
	base   string
	client *http.Client
}

func (h *harness) surfer(t *testing.T) *surfer {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &surfer{t, "http://" + h.host, &http.Client{
		Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// get requests a path of the console, or a URL.
func (s *surfer) get(target string) response {
	s.t.Helper()
	if strings.HasPrefix(target, "/") {
		target = s.base + target
	}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, target, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	res, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response{res, res.StatusCode, strings.ReplaceAll(string(text), "<wbr>", "")}
}

// isOpen reports whether there is a session.
func (s *surfer) isOpen() bool {
	s.t.Helper()
	return s.get("/session").body == `{"open":true}`+"\n"
}

// callback begins a sign-in, signs in at the issuer, and returns the address of the redirect back.
func (s *surfer) callback(next string) string {
	s.t.Helper()
	res := s.get("/sign-in/oidc?next=" + url.QueryEscape(next))
	if res.status != 303 {
		s.t.Fatalf("begin: got %d, %s", res.status, res.body)
	}
	res = s.get(res.Header.Get("Location"))
	if res.status != 303 {
		s.t.Fatalf("the issuer: got %d, %s", res.status, res.body)
	}
	return res.Header.Get("Location")
}

// A person signs in at the issuer: the pages have the name of the subject, and so do the plants.
func TestSignInAtIssuer(t *testing.T) {
	t.Parallel()
	h, i := startWithIssuer(t)
	s := h.surfer(t)
	host := strings.TrimPrefix(i.URL, "http://")
	if page := s.get("/sign-in?next=/plants/new"); !strings.Contains(page.body,
		`href="`+s.base+`/sign-in/oidc?next=%2Fplants%2Fnew">Sign in with <bdi class="breaks">`+host+`</bdi></a>`) {
		t.Errorf("the sign-in page has %s", page.body)
	}
	first := s.get("/sign-in/oidc?next=/plants/new")
	want := regexp.MustCompile(`^plantstore-\d+-oidc=[\w-]{300,}; Path=/; Max-Age=600; HttpOnly; SameSite=Lax$`)
	if cookie := first.Header.Get("Set-Cookie"); !want.MatchString(cookie) {
		t.Errorf("the cookie is %q", cookie)
	}
	back := s.get(s.callback("/plants/new"))
	if back.status != 200 || back.Header.Get("Refresh") != "0; url=/plants/new" || len(back.Cookies()) != 2 ||
		back.Cookies()[0].MaxAge >= 0 || back.Cookies()[1].SameSite != http.SameSiteStrictMode ||
		back.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("got %d, Refresh %q, cookies %v", back.status, back.Header.Get("Refresh"), back.Cookies())
	}
	const signedIn = `Signed in as <bdi class="breaks">flora</bdi>`
	if page := s.get("/plants/new"); page.status != 200 || !strings.Contains(page.body, signedIn) {
		t.Errorf("got %d, %s", page.status, page.body)
	}
	h.awaitAudit(audit.SignIn, "console=oidc")
}

// Every response that is not that of the sign-in of this browser starts no session: it was forged on another site
// (login CSRF), stolen, repeated, or came too late.
func TestForeignCallbacks(t *testing.T) {
	t.Parallel()
	h, _ := startWithIssuer(t)
	attacker := h.surfer(t)
	stolen := attacker.callback("/")
	victim := h.surfer(t)
	const text = "This sign-in did not begin in this browser, has ended, or began more than 10 minutes ago. Sign in again."
	refused := func(name string, s *surfer, address string) {
		t.Helper()
		res := s.get(address)
		if res.status != 400 || !strings.Contains(res.body, text) || res.Header.Get("Refresh") != "" {
			t.Errorf("%s: got %d, %s", name, res.status, res.body)
		}
		if s.isOpen() {
			t.Errorf("%s: there is a session", name)
		}
	}
	refused("without a sign-in", victim, stolen)
	own := victim.callback("/")
	refused("during another sign-in", victim, stolen)
	refused("malformed", victim, "/sign-in/oidc/callback?code=%zz")
	refused("without parameters", victim, "/sign-in/oidc/callback")
	if res := victim.get(own); res.status != 200 {
		t.Fatalf("the own sign-in: got %d, %s", res.status, res.body)
	}
	late := h.surfer(t)
	address := late.callback("/")
	h.console.SetClock(func() time.Time { return time.Now().Add(10*time.Minute + time.Second) })
	refused("late", late, address)
	h.console.SetClock(time.Now)
	early := h.surfer(t)
	h.console.SetClock(func() time.Time { return time.Now().Add(time.Hour) })
	address = early.callback("/")
	h.console.SetClock(time.Now)
	refused("of the future", early, address)
}

// A response works once, also with the cookie of its sign-in: of 20 at the same time, one does.
func TestCallbackOnce(t *testing.T) {
	t.Parallel()
	h, _ := startWithIssuer(t)
	s := h.surfer(t)
	address := s.callback("/")
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	cookies := s.client.Jar.Cookies(u)
	var wg sync.WaitGroup
	statuses := make([]int, 20)
	for n := range statuses {
		wg.Go(func() {
			c := &client{h: h, cookie: cookies[0].Name + "=" + cookies[0].Value}
			statuses[n] = c.get(u.RequestURI()).status
		})
	}
	wg.Wait()
	count := map[int]int{}
	for _, status := range statuses {
		count[status]++
	}
	if count[200] != 1 || count[400] != 19 || h.console.Sessions() != 1 {
		t.Errorf("got %v and %d sessions, want one", count, h.console.Sessions())
	}
}

// A changed cookie, or that of another process, is no sign-in.
func TestForgedFlowCookie(t *testing.T) {
	t.Parallel()
	h, _ := startWithIssuer(t)
	s := h.surfer(t)
	u, err := url.Parse(s.callback("/"))
	if err != nil {
		t.Fatal(err)
	}
	cookie := s.client.Jar.Cookies(u)[0]
	other, _ := startWithIssuer(t)
	foreign := other.surfer(t)
	first := foreign.get("/sign-in/oidc")
	for name, value := range map[string]string{
		"shorter": cookie.Value[:len(cookie.Value)-2], "empty": "", "changed": "AAAA" + cookie.Value[4:],
		"plain": "eyJTdGF0ZSI6IngifQ", "of another process": first.Cookies()[0].Value, "no base64": "!!",
	} {
		c := &client{h: h, cookie: cookie.Name + "=" + value}
		if res := c.get(u.RequestURI()); res.status != 400 || h.console.Sessions() != 0 {
			t.Errorf("%s: got %d", name, res.status)
		}
	}
}

// The page after a sign-in at the issuer is one of this console.
func TestNextPageAtIssuer(t *testing.T) {
	t.Parallel()
	h, _ := startWithIssuer(t)
	for next, want := range map[string]string{
		"/?range=24h": "/?range=24h", "https://evil.example/": "/", "//evil.example": "/", `/\evil.example`: "/",
		"/sign-in/oidc": "/", "/continue?next=//evil.example": "/", "/plants?name=" + strings.Repeat("x", 3000): "/",
		`/plants?name="';url=//evil.example`: `/plants?name="';url=//evil.example`,
	} {
		s := h.surfer(t)
		if got := s.get(s.callback(next)).Header.Get("Refresh"); got != "0; url="+want {
			t.Errorf("%q: got %q, want %q", next, got, want)
		}
		res := s.get("/continue?next=" + url.QueryEscape(next))
		if res.status != 303 || res.Header.Get("Location") != want {
			t.Errorf("/continue to %q: got %d to %q, want %q", next, res.status, res.Header.Get("Location"), want)
		}
	}
}

// A person without a grant, one who is revoked, and a bad ID token start no session. The audit log counts them.
func TestRefusedAtIssuer(t *testing.T) {
	t.Parallel()
	h, i := startWithIssuer(t)
	host := strings.TrimPrefix(i.URL, "http://")
	h.revokeSubject(i.URL, "revoked")
	revoked := auth.NewClaims(auth.Claims{
		Issuer: i.URL, Subject: "revoked", IssuedAt: time.Now(), Scopes: auth.ScopeAdmin,
	})
	for _, err := h.writePath.AuthenticateClaims(t.Context(), revoked); err == nil; { // a revocation takes up to a second
		_, err = h.writePath.AuthenticateClaims(t.Context(), revoked)
	}
	for name, row := range map[string]struct {
		person oidctest.Object
		status int
		text   string
	}{
		"no group": {
			oidctest.Object{"groups": []any{"guests"}, "sub": "guest"},
			403,
			"You are signed in at " + host + " as guest, but that account has no access to this console: " + host +
				" sent no value of the claim groups to which oidc-console-grants gives access.",
		},
		"no claim": {oidctest.Object{"groups": nil, "sub": "guest"}, 403, "as guest, but that account has no access"},
		"only creates": {
			oidctest.Object{"groups": "makers", "sub": "maker"},
			403,
			"as maker, but that account has no access",
		},
		"hostile name": {oidctest.Object{"groups": nil, "sub": "<b>x"}, 403, "as &lt;b&gt;x, but"},
		"revoked": {
			oidctest.Object{"sub": "revoked"},
			401,
			"The sign-in at " + host + " is not valid, or no longer valid.",
		},
		"other nonce": {
			oidctest.Object{"nonce": "x"},
			401,
			"The sign-in at " + host + " is not valid, or no longer valid.",
		},
		"other client":  {oidctest.Object{"aud": "x"}, 401, "The sign-in at " + host + " is not valid, or no longer valid."},
		"without group": {oidctest.Object{"groups": []any{}}, 403, "has no access"},
	} {
		i.SetPerson(row.person)
		s := h.surfer(t)
		res := s.get(s.callback("/plants"))
		if res.status != row.status || !strings.Contains(res.body, row.text) ||
			!strings.Contains(res.body, `value="/plants"`) ||
			h.console.Sessions() != 0 {
			t.Errorf("%s: got %d, %s", name, res.status, res.body)
		}
	}
	tokens, err := h.engine.Tokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range tokens {
		if token.Kind == auth.KindSubject && token.Identifier == "guest" {
			t.Error("the store has the subject of a person without access")
		}
	}
}

func (h *harness) revokeSubject(issuer, subject string) {
	h.t.Helper()
	by := admin.Revocation{Subject: &subject, Issuer: issuer}
	if _, err := h.console.Operations.Revoke(h.t.Context(), by, audit.Origin{}); err != nil {
		h.t.Fatal(err)
	}
}

// The error of the issuer appears as its code, and nothing else of the response does.
func TestIssuerRefuses(t *testing.T) {
	t.Parallel()
	h, i := startWithIssuer(t)
	host := strings.TrimPrefix(i.URL, "http://")
	for query, want := range map[string]string{
		"error=access_denied&error_description=Call+0900+now": host + " refused the sign-in (access_denied).",
		"error=<script>":       host + " refused the sign-in (unknown_error).",
		"error=":               host + " refused the sign-in (unknown_error).",
		"error=x&code=y":       host + " refused the sign-in (x).",
		"code=x&code=y":        "is not valid, or no longer valid",
		"code=" + auth.Mint():  "is not valid, or no longer valid",
		"code=x&iss=https://e": "is not valid, or no longer valid",
	} {
		s := h.surfer(t)
		u, err := url.Parse(s.callback("/"))
		if err != nil {
			t.Fatal(err)
		}
		q := url.Values{"state": u.Query()["state"]}.Encode()
		if !strings.Contains(query, "iss=") {
			q += "&iss=" + url.QueryEscape(i.URL)
		}
		res := s.get("/sign-in/oidc/callback?" + query + "&" + q)
		if res.status != 403 && res.status != 401 || !strings.Contains(res.body, want) || strings.Contains(res.body, "0900") {
			t.Errorf("%s: got %d, %s", query, res.status, res.body)
		}
	}
}

// A revocation of the subject ends its sessions, and those of other people go on.
func TestSubjectRevocationEndsSession(t *testing.T) {
	t.Parallel()
	h, i := startWithIssuer(t)
	s := h.surfer(t)
	s.get(s.callback("/"))
	i.SetPerson(oidctest.Object{"sub": "fauna"})
	other := h.surfer(t)
	other.get(other.callback("/"))
	h.revokeSubject(i.URL, "flora")
	for end := time.Now().Add(wait); s.isOpen(); {
		if time.Now().After(end) {
			t.Fatalf("the session is open %s after the revocation", wait)
		}
	}
	if res := s.get("/plants"); res.status != 303 || res.Header.Get("Location") != "/sign-in?ended=1&next=%2Fplants" {
		t.Errorf("got %d to %q", res.status, res.Header.Get("Location"))
	}
	if res := other.get("/plants"); res.status != 200 {
		t.Errorf("another person: got %d", res.status)
	}
	i.SetPerson(nil)
	if res := s.get(s.callback("/")); res.status != 401 {
		t.Errorf("a sign-in after the revocation: got %d", res.status)
	}
}

// Sessions of people end after 12 hours and when they sign out. A person has at most 20.
func TestSessionsOfPeople(t *testing.T) {
	t.Parallel()
	h, _ := startWithIssuer(t)
	signIn := func() *surfer {
		s := h.surfer(t)
		if res := s.get(s.callback("/")); res.status != 200 {
			t.Fatalf("got %d, %s", res.status, res.body)
		}
		return s
	}
	first := signIn()
	for range 20 {
		signIn()
	}
	if got := h.console.Sessions(); got != 20 || first.isOpen() {
		t.Errorf("got %d sessions, want 20 without the first one", got)
	}
	s := signIn()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.base+"/sign-out", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusSeeOther || s.isOpen() {
		t.Errorf("sign-out: got %d", res.StatusCode)
	}
	s = signIn()
	h.console.SetClock(func() time.Time { return time.Now().Add(12*time.Hour + time.Second) })
	if s.isOpen() {
		t.Error("the session is open after 12 hours")
	}
	h.console.SetClock(time.Now)
	h.console.SetIssuer(nil)
	if s.get("/sign-in/oidc").status != 404 || strings.Contains(s.get("/sign-in").body, "Sign in with") {
		t.Error("the sign-in at an issuer is not off")
	}
}

// An issuer that fails is named on the sign-in page, and a token still works.
func TestIssuerFails(t *testing.T) {
	t.Parallel()
	h, i := startWithIssuer(t)
	s := h.surfer(t)
	address := s.callback("/")
	i.Answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	want := fmt.Sprintf("The server gets no answer from %s that it can use. Try again, or sign in with a token; "+
		"the log of the server has the cause.", strings.TrimPrefix(i.URL, "http://"))
	if res := s.get(address); res.status != 503 || !strings.Contains(res.body, want) {
		t.Errorf("got %d, %s", res.status, res.body)
	}
	h.offerIssuer(t, "http://127.0.0.1:1", "")
	if res := s.get("/sign-in/oidc"); res.status != 503 || !strings.Contains(res.body, "127.0.0.1:1") {
		t.Errorf("an unreachable issuer: got %d, %s", res.status, res.body)
	}
	h.signIn(h.admin)
}

// forge begins a sign-in from an address, and sends a response that did not come from the issuer.
func (h *harness) forge(issuer, address string) response {
	h.t.Helper()
	c := &client{h: h, header: http.Header{"X-Forwarded-For": {address}}}
	u, err := url.Parse(c.get("/sign-in/oidc").Header.Get("Location"))
	if err != nil {
		h.t.Fatal(err)
	}
	q := url.Values{"code": {"forged"}, "iss": {issuer}, "state": u.Query()["state"]}
	return c.get("/sign-in/oidc/callback?" + q.Encode())
}

// startIntercepted starts a server and an issuer whose token endpoint answers forged codes by a handler.
func startIntercepted(t *testing.T, forged http.HandlerFunc) (*harness, *oidctest.Issuer) {
	t.Helper()
	i := oidctest.NewIssuer("")
	issuer := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" && r.FormValue("code") == "forged" {
			forged(w, r)
			return
		}
		i.ServeHTTP(w, r)
	}))
	i.URL = "http://" + issuer.Listener.Addr().String() // before the first request
	issuer.Start()
	t.Cleanup(issuer.Close)
	h := start(t)
	h.offerIssuer(t, i.URL, oidctest.ClientSecret)
	return h, i
}

// Whatever the issuer answers, the limit of failed credentials counts failed sign-ins there, so that no client makes
// the server send requests to it without end.
func TestIssuerFailuresAreLimited(t *testing.T) {
	t.Parallel()
	answers := map[string]http.HandlerFunc{
		"192.0.2.1": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_grant"}`)
		},
		"192.0.2.2": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"error":"invalid_request"}`)
		},
		"192.0.2.3": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"192.0.2.4": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "no JSON") },
		"192.0.2.5": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	var answer atomic.Pointer[http.HandlerFunc]
	h, i := startIntercepted(t, func(w http.ResponseWriter, r *http.Request) { (*answer.Load())(w, r) })
	for address, handler := range answers {
		answer.Store(&handler)
		last := 0
		for n := 0; n < 300 && last != http.StatusTooManyRequests; n++ {
			last = h.forge(i.URL, address).status
		}
		if last != http.StatusTooManyRequests {
			t.Errorf("%s: got %d, want 429", address, last)
		}
	}
}

// Forged sign-ins that wait for the issuer leave places to people at other addresses.
func TestForgedSignInsLeavePlaces(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, 100), make(chan struct{})
	h, i := startIntercepted(t, func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-release
	})
	var forgers sync.WaitGroup
	for n := range 20 {
		forgers.Go(func() { h.forge(i.URL, fmt.Sprint("192.0.2.", n%2)) })
	}
	defer forgers.Wait()
	defer close(release)
	for range 4 {
		<-arrived
	}
	for n := range 40 {
		s := h.surfer(t)
		back, err := url.Parse(s.callback("/"))
		if err != nil {
			t.Fatal(err)
		}
		c := &client{h: h, header: http.Header{"X-Forwarded-For": {fmt.Sprint("198.51.100.", n)}}}
		cookie := s.client.Jar.Cookies(back)[0]
		c.cookie = cookie.Name + "=" + cookie.Value
		if res := c.get(back.RequestURI()); res.status != http.StatusOK {
			t.Errorf("the sign-in of person %d: got %d, %s", n, res.status, res.body)
		}
	}
}

// A person whose address has too many sign-ins at the same time can repeat the request.
func TestSignInAgain(t *testing.T) {
	t.Parallel()
	release, refused := make(chan struct{}), make(chan struct{}, 17)
	h, i := startIntercepted(t, func(http.ResponseWriter, *http.Request) { <-release })
	s := h.surfer(t)
	address := s.callback("/")
	var forgers sync.WaitGroup
	for range cap(refused) { // one more than may wait
		forgers.Go(func() {
			if h.forge(i.URL, "127.0.0.1").status == http.StatusServiceUnavailable {
				refused <- struct{}{}
			}
		})
	}
	<-refused
	res := s.get(address)
	close(release)
	forgers.Wait()
	if res.status != http.StatusServiceUnavailable || !strings.Contains(res.body, "Try again") {
		t.Errorf("got %d, %s", res.status, res.body)
	}
	if res := s.get(address); res.status != http.StatusOK || !s.isOpen() {
		t.Errorf("again: got %d, %s", res.status, res.body)
	}
}

// A person signs in although one address, or many, has sent responses that the issuer refuses.
func TestSignInAfterForgedResponses(t *testing.T) {
	t.Parallel()
	h, i := startWithIssuer(t)
	for name, addressOf := range map[string]func(n int) string{
		"one address":    func(int) string { return "192.0.2.1" },
		"many addresses": func(n int) string { return fmt.Sprintf("198.51.%d.%d", n>>8, n&255) },
	} {
		for n := range console.UsedMax + 1 {
			if res := h.forge(i.URL, addressOf(n)); res.status == http.StatusOK {
				t.Fatalf("%s: the forged response %d signs in", name, n)
			}
		}
		s := h.surfer(t)
		if res := s.get(s.callback("/")); res.status != http.StatusOK || !s.isOpen() {
			t.Errorf("%s: the sign-in of a person: got %d, %s", name, res.status, res.body)
		}
	}
}

// The link to the issuer has the host of the redirect URL, which keeps the cookie of the sign-in.
func TestOtherHostBegins(t *testing.T) {
	t.Parallel()
	h, _ := startWithIssuer(t, stored(1, "Rosa", plant.Tag{}))
	_, port, _ := strings.Cut(h.host, ":")
	s := h.surfer(t)
	want := `href="http://` + h.host + `/sign-in/oidc?next=%2Fplants"`
	if page := s.get("http://localhost:" + port + "/sign-in?next=/plants"); !strings.Contains(page.body, want) {
		t.Errorf("got %s, want %s", page.body, want)
	}
}
