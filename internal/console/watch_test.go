package console_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/admin"
	"plantstore/internal/adminapi"
	"plantstore/internal/audit"
	"plantstore/internal/auth"
	"plantstore/internal/listen"
	"plantstore/internal/server"
	"plantstore/internal/store"
)

// startWaiting starts a further admin listener with every route of the API and of the console. The function of each
// route with a scope waits until the context of its request ends, and responds with the cause. waiting has an element
// for each request that waits.
func (h *harness) startWaiting(waiting chan<- string) (routes []server.Route) {
	h.t.Helper()
	operations, err := admin.New(h.adminConfig())
	if err != nil {
		h.t.Fatal(err)
	}
	routes, err = adminapi.New(operations, slog.New(slog.DiscardHandler)).Routes()
	if err != nil {
		h.t.Fatal(err)
	}
	routes = append(routes, h.routes...)
	for i, r := range routes {
		if r.Scope == 0 {
			continue
		}
		routes[i].Bulk = false // its limit is smaller than the number of these requests
		routes[i].Handle = func(c *server.Call) error {
			waiting <- c.Method + " " + r.Path
			<-c.Context().Done()
			return context.Cause(c.Context())
		}
	}
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	_, adminServer, err := server.New(server.Config{
		WritePath: h.writePath, Log: log, BaseURL: &url.URL{Scheme: "http", Host: "localhost"}, AdminRoutes: routes,
		Browser: h.console.Browser(), Metrics: prometheus.NewRegistry(),
		Limits: server.Limits{HeaderMax: 32 << 10, RequestTimeout: wait, AnswerTimeout: wait, IdleTimeout: wait},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	l, err := listen.Listen(h.t.Context(), listen.Config{Name: "admin", Address: "127.0.0.1:0"})
	if err != nil {
		h.t.Fatal(err)
	}
	h.host = l.Addr().String()
	var running sync.WaitGroup
	running.Go(func() {
		if err := adminServer.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			h.t.Errorf("serve: %v", err)
		}
	})
	h.t.Cleanup(func() {
		_ = adminServer.Close()
		running.Wait()
		operations.Close()
	})
	return routes
}

// A request to any route of the API or of the console ends with its credential: a revoked token, and a session that
// was signed out or whose token is revoked.
func TestEveryRouteEndsWithItsCredential(t *testing.T) {
	t.Parallel()
	h := start(t)
	waiting := make(chan string, 1000)
	routes := h.startWaiting(waiting)
	const all = auth.ScopeAdmin | auth.ScopeRead | auth.ScopeCreate
	secret, signedOut, revoked := h.mint("api", all), h.signIn(h.admin), h.signIn(h.mint("session", all))
	var requests sync.WaitGroup
	sent, routesLeft := 0, map[string]int{}
	send := func(r server.Route, name, value string, ended func(*http.Response, string) bool) {
		target := strings.NewReplacer("{id}", "1", "{name}", "1").Replace(r.Path)
		req, err := http.NewRequestWithContext(t.Context(), r.Method, "http://"+h.host+target, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(name, value)
		sent++
		routesLeft[r.Method+" "+r.Path]++
		requests.Go(func() {
			client := http.Client{
				Timeout: wait, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			}
			res, err := client.Do(req)
			if err != nil {
				t.Errorf("%s %s: %v", r.Method, r.Path, err)
				return
			}
			defer res.Body.Close()
			if body, err := io.ReadAll(res.Body); err != nil || !ended(res, string(body)) {
				t.Errorf("%s %s: got %d %v, %s, %v", r.Method, r.Path, res.StatusCode, res.Header, body, err)
			}
		})
	}
	for _, r := range routes {
		switch {
		case r.Scope == 0:
		case r.Page:
			toSignIn := func(res *http.Response, _ string) bool {
				return res.StatusCode == http.StatusSeeOther && strings.HasPrefix(res.Header.Get("Location"), "/sign-in")
			}
			send(r, "Cookie", signedOut.cookie, toSignIn)
			send(r, "Cookie", revoked.cookie, toSignIn)
		default:
			send(r, "Authorization", "Bearer "+secret, func(res *http.Response, body string) bool {
				const want = `{"error":40102,"message":"the request ended because`
				return res.StatusCode == http.StatusUnauthorized && strings.HasPrefix(body, want)
			})
		}
	}
	for range sent {
		select {
		case name := <-waiting:
			routesLeft[name]--
		case <-time.After(wait):
			t.Fatalf("not every request waits: %v", routesLeft)
		}
	}
	for _, name := range []string{"api", "session"} { // the server limits the requests of each
		h.revoke(store.Selector{Name: name})
	}
	if res := signedOut.post("/sign-out", url.Values{}); res.status != http.StatusSeeOther {
		t.Errorf("sign out: got %d, %s", res.status, res.body)
	}
	requests.Wait()
}

// The end of a session ends its running upload, and its export to a client that does not read.
func TestEndOfSessionEndsItsRequests(t *testing.T) {
	t.Parallel()
	large := []store.Create{}
	for id := range int64(4) { // more than the buffers of a connection
		large = append(large, stored(id, strings.Repeat("x", store.PlantsBytes), plantTag("a")))
	}
	h := start(t, large...)
	c := h.signIn(h.admin)
	send := func(method, target string, body io.Reader) *http.Response {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+h.host+target, body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Cookie", c.cookie)
		req.Header.Set("Content-Type", "multipart/form-data; boundary=x")
		res, err := http.DefaultTransport.RoundTrip(req) // a client with a timeout would end the response itself
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	export := send(http.MethodGet, "/plants/export?format=jsonl", http.NoBody)
	defer export.Body.Close()
	file, w := io.Pipe()
	defer w.Close()
	imported := make(chan string, 1)
	go func() { // ends with the response, which the test receives
		res := send(http.MethodPost, "/import", file)
		defer res.Body.Close()
		imported <- res.Status + " " + res.Header.Get("Location")
	}()
	part := "--x\r\nContent-Disposition: form-data; name=file; filename=a.csv\r\n\r\nid,name\n10,A\n"
	if _, err := io.WriteString(w, part); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(c.get("/import").body, ">receiving<") {
	}
	if res := c.post("/sign-out", url.Values{}); res.status != 303 {
		t.Errorf("sign out: got %d, %s", res.status, res.body)
	}
	select {
	case got := <-imported:
		if got != "303 See Other /sign-in?ended=1" {
			t.Errorf("import: got %s", got)
		}
	case <-time.After(wait):
		t.Fatal("the upload goes on")
	}
	if body := h.signIn(h.admin).get("/import").body; !strings.Contains(body, ">failed<") {
		t.Errorf("the import of the upload: got %s", body)
	}
	h.awaitAudit(audit.PlantsExport, "result=interrupted")
	h.awaitAudit(audit.RequestEnded, "request=GET /plants/export")
	h.awaitAudit(audit.RequestEnded, "reason=the session has ended; sign in again")
	if n, err := io.Copy(io.Discard, export.Body); err == nil {
		t.Errorf("export: the client received %d bytes as a complete response", n)
	}
}

// An import in the background goes on after a sign-out. The sign-out of a session with a link revokes its token, which
// ends its import: TestEndOfCredentialEndsImport of package admin has the rest.
func TestSignOutDuringImport(t *testing.T) {
	t.Parallel()
	h, paused := startPaused(t)
	operator := h.signIn(h.admin)
	c := h.signIn(h.mint("nursery", auth.ScopeRead|auth.ScopeCreate))
	var file strings.Builder
	file.WriteString("id,name\n")
	for i := range 6000 {
		fmt.Fprintf(&file, "%d,Rosa\n", i)
	}
	page := c.keep("a.csv", file.String())
	c.step(page, "check", columns("id", "name"))
	c.post(page+"/start", url.Values{"check": {"1"}}).want(t, 303)
	state := func() string { return operator.get(page + "/live").body }
	for !strings.Contains(state(), `"created":2000`) {
	}
	valid := h.console.Credential(c.cookie)
	c.post("/sign-out", url.Values{})
	if err := valid(t.Context()); err != nil {
		t.Errorf("after the sign-out: %v", err)
	}
	close(paused.resume)
	for strings.Contains(state(), `"state":"running"`) {
	}
	if got := state(); !strings.Contains(got, `"state":"complete"`) || !strings.Contains(got, `"created":6000`) {
		t.Errorf("got %s", got)
	}

	link := h.signIn(h.code(time.Now()))
	link.get("/import").want(t, 200)
	valid = h.console.Credential(link.cookie)
	if err := valid(t.Context()); err != nil {
		t.Errorf("with a link: %v", err)
	}
	link.post("/sign-out", url.Values{})
	for deadline := time.Now().Add(wait); valid(t.Context()) == nil; { // until the tokens are read again
		if time.Now().After(deadline) {
			t.Fatal("the token of the link is valid after its sign-out")
		}
	}
}
