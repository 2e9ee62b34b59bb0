package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/internal/auth"
	"plantstore/internal/plant"
	"plantstore/internal/server"
	"plantstore/internal/sqlite"
	"plantstore/internal/store"
	"plantstore/internal/writepath"
)

const (
	textRate = "nothing was stored because this credential sent more requests than its rate allows; " +
		"send it again"
	textFailures = "this address sent too many failed credentials; " +
		"correct the credential and send the request again after the seconds in Retry-After"
	textAtOnce = "nothing was stored because this credential has too many requests at the same time; send it again"
)

// guess is a request with an unknown token, from a client behind a trusted proxy.
func guess(client string) string {
	return post(`{"id":1,"name":"A"}`, "Authorization: Bearer "+auth.Mint(), "+X-Forwarded-For: "+client)
}

// sameLimited checks that a response is the refusal of an address with too many failed credentials, with a wait of at
// most so many seconds.
func sameLimited(t *testing.T, got response, secondsMax int) {
	t.Helper()
	retryAfter := got.Header.Get("Retry-After")
	if seconds, err := strconv.Atoi(retryAfter); err != nil || seconds < 1 || seconds > secondsMax {
		t.Errorf("Retry-After: got %q, want 1 to %d", retryAfter, secondsMax)
	}
	same(t, got, refused(42902, textFailures, "Retry-After", retryAfter))
}

// An address with too many failed credentials receives 429 for further ones. A valid credential works, and other
// addresses are not limited.
func TestFailedCredentials(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) {
		s.limits.AuthFailures = 3
		s.proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	const bad, worse = "192.0.2.7", "[::ffff:192.0.2.7]:4711"
	for i, client := range []string{bad, bad + ":80", worse} {
		if got := h.send(guess(client)); got.Status != 401 {
			t.Errorf("failure %d: got %d, want 401", i, got.Status)
		}
	}
	for _, client := range []string{bad, bad + ":80", worse, "9.9.9.9, " + bad} {
		sameLimited(t, h.send(guess(client)), 20)
	}
	same(t, h.send(post(`{"id":1,"name":"A"}`, "+X-Forwarded-For: "+bad)), created(`{"name":"A"}`))
	same(t, h.send(post(`{"id":1,"name":"A"}`, "-Authorization", "+X-Forwarded-For: "+bad)),
		refused(40101, textNone, "WWW-Authenticate", challengeNone))
	for _, client := range []string{"192.0.2.8", "2001:db8::1", "unknown"} {
		if got := h.send(guess(client)); got.Status != 401 {
			t.Errorf("%s: got %d, want 401", client, got.Status)
		}
	}
	if got := h.sendTo(h.admin, message("GET /livez HTTP/1.1", "", "+X-Forwarded-For: "+bad)); got.Status != 200 {
		t.Errorf("a route without a credential: got %d, want 200", got.Status)
	}
}

// A reload keeps the failures of addresses and the slots in use, unless it changes their limits.
func TestReloadKeepsCounts(t *testing.T) {
	t.Parallel()
	h, f := startFaulty(t, func(s *setup) {
		s.limits.AuthFailures, s.limits.Concurrency = 3, 1
		s.proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	const bad = "192.0.2.7"
	for range 3 {
		if got := h.send(guess(bad)); got.Status != 401 {
			t.Errorf("got %d, want 401", got.Status)
		}
	}
	g := f.block(t)
	running := h.dial(t, h.public)
	running.write(h.fill(post(`{"id":1,"name":"A"}`)))
	<-g.entered
	reload := func() {
		t.Helper()
		if err := server.Reload(h.publicServer, h.adminServer, h.config); err != nil {
			t.Fatal(err)
		}
	}
	h.config.AdminHosts = []string{"other.example"}
	reload()
	if got := h.send(guess(bad)); got.code(t) != plant.CodeTooManyFailures {
		t.Errorf("got %+v, want too many failures", got)
	}
	toAdmin := message("GET /readyz?verbose HTTP/1.1", "", "Authorization: Bearer "+auth.Mint(), "X-Forwarded-For: "+bad)
	if got := h.sendTo(h.admin, toAdmin); got.code(t) != plant.CodeTooManyFailures {
		t.Errorf("admin listener: got %+v, want too many failures", got)
	}
	if got := h.send(post(`{"id":2,"name":"B"}`)); got.code(t) != plant.CodeTooManyAtOnce {
		t.Errorf("got %+v, want no free slot", got)
	}
	h.config.Limits.Rate = 1000
	reload()
	if got := h.send(guess(bad)); got.code(t) != plant.CodeTooManyFailures {
		t.Errorf("after a change of another limit: got %+v, want too many failures", got)
	}
	h.config.Limits.AuthFailures = 2
	reload()
	if got := h.send(guess(bad)); got.code(t) != plant.CodeCredentialInvalid {
		t.Errorf("after a change of the limit: got %+v, want an invalid credential", got)
	}
	g.open()
	if got := running.read("POST"); got.Status != 200 {
		t.Errorf("got %+v, want the stored plant", got)
	}
}

// Both listeners share the failures of an address.
func TestFailedCredentialsOfBothListeners(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.limits.AuthFailures = 2 })
	guess := func(line string) string { return message(line, "", "Authorization: Bearer "+auth.Mint()) }
	if got := h.sendTo(h.admin, guess("GET /readyz?verbose HTTP/1.1")); got.Status != 401 {
		t.Errorf("admin listener: got %d, want 401", got.Status)
	}
	if got := h.send(guess("POST /plants HTTP/1.1")); got.Status != 401 {
		t.Errorf("public listener: got %d, want 401", got.Status)
	}
	sameLimited(t, h.sendTo(h.admin, guess("GET /metrics HTTP/1.1")), 30)
	sameLimited(t, h.send(guess("POST /plants HTTP/1.1")), 30)
	if got := h.sendTo(h.admin, message("GET /livez HTTP/1.1", "")); got.Status != 200 {
		t.Errorf("a route without a credential: got %d, want 200", got.Status)
	}
}

// The addresses of one IPv6 network share their failures.
func TestFailedCredentialsOfNetwork(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) {
		s.limits.AuthFailures = 2
		s.proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	for i, want := range []int{401, 401, 429, 429} {
		if got := h.send(guess(fmt.Sprintf("2001:db8::%d:1", i))); got.Status != want {
			t.Errorf("address %d: got %d, want %d", i, got.Status, want)
		}
	}
	if got := h.send(guess("2001:db8:0:1::1")); got.Status != 401 {
		t.Errorf("another network: got %d, want 401", got.Status)
	}
}

// A token that was just created works from a limited address within the time of a poll, and its requests don't count.
func TestNewTokenOfLimitedAddress(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.limits.AuthFailures = 1 })
	for i := range 5 {
		secret := mint(t, h.engine, auth.Token{Name: fmt.Sprint("new ", i), Scopes: auth.ScopeCreate})
		same(t, h.send(post(`{"id":1,"name":"A"}`, "Authorization: Bearer "+secret)),
			created(`{"name":"A"}`, replayedIf(i > 0)...))
	}
	if got := h.send(post("", "Authorization: Bearer "+auth.Mint())); got.Status != 401 {
		t.Fatalf("the first failure: got %d, want 401", got.Status)
	}
	secret := mint(t, h.engine, auth.Token{Name: "last", Scopes: auth.ScopeCreate})
	for {
		got := h.send(post(`{"id":1,"name":"A"}`, "Authorization: Bearer "+secret))
		if got.Status == 200 {
			return
		}
		sameLimited(t, got, 60)
	}
}

// The first requests with a new token don't count as failures, even if the server receives more of them at once than it
// allows failures, before it has read the token.
func TestNewTokenOfManyClients(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.limits.AuthFailures = 1 })
	for i := range 3 {
		secret := mint(t, h.engine, auth.Token{Name: fmt.Sprint("new ", i), Scopes: auth.ScopeCreate})
		var clients sync.WaitGroup
		for range 20 {
			clients.Go(func() {
				if got := h.send(post(`{"id":1,"name":"A"}`, "Authorization: Bearer "+secret)); got.Status != 200 {
					t.Errorf("got %d, want 200: %s", got.Status, got.Body)
				}
			})
		}
		clients.Wait()
	}
}

// Failed credentials that arrive at once receive no more responses 401 than one after the other.
func TestFailedCredentialsAtOnce(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.limits.AuthFailures = 1 })
	const guesses = 20
	got := make(chan int, guesses)
	var clients sync.WaitGroup
	for range guesses {
		clients.Go(func() { got <- h.send(post("", "Authorization: Bearer "+auth.Mint())).Status })
	}
	clients.Wait()
	close(got)
	statuses := map[int]int{}
	for status := range got {
		statuses[status]++
	}
	if want := map[int]int{401: 1, 429: guesses - 1}; !maps.Equal(statuses, want) {
		t.Errorf("responses by status: got %v, want %v", statuses, want)
	}
}

func replayedIf(replayed bool) []string {
	if replayed {
		return []string{"Idempotent-Replayed", "true"}
	}
	return nil
}

// countingEngine counts the reads of its state.
type countingEngine struct {
	writepath.Engine
	reads atomic.Int64
}

func (e *countingEngine) State(ctx context.Context) (store.State, error) {
	e.reads.Add(1)
	return e.Engine.State(ctx)
}

// Unknown credentials of a limited address neither reach the engine nor fill the log.
func TestLimitedAddressCostsLittle(t *testing.T) {
	t.Parallel()
	engine := &countingEngine{}
	h := start(t, func(s *setup) {
		s.limits.AuthFailures, s.level = 2, slog.LevelInfo
		s.wrap = func(e writepath.Engine) writepath.Engine {
			engine.Engine = e
			return engine
		}
	})
	before, reads, started := h.log.string(), engine.reads.Load(), time.Now()
	const guesses = 200
	for range guesses {
		h.send(post("", "Authorization: Bearer "+auth.Mint()))
	}
	lines := strings.TrimPrefix(h.log.string(), before)
	seconds := int(time.Since(started).Seconds())
	if got, most := int(engine.reads.Load()-reads), 10+5*seconds; got > most { // the store reads it four times a second
		t.Errorf("got %d reads of the engine in %d s, want at most %d", got, seconds, most)
	}
	if got, most := strings.Count(lines, `"msg":"request"`), 2+seconds/30; got < 2 || got > most {
		t.Errorf("got %d lines of requests, want %d:\n%s", got, most, lines)
	}
	const line = `"msg":"failed credentials refused"`
	if got := strings.Count(lines, line); got < 1 || got > 1+seconds {
		t.Errorf("got %d lines about refusals in %d s, want at most one a second:\n%s", got, seconds, lines)
	}
	if !strings.Contains(lines, line+`,"requests":1,"client":"127.0.0.1"}`) {
		t.Errorf("no line about the first refusal:\n%s", lines)
	}
}

// The log has the address of the client that a trusted proxy has added.
func TestLogHasClientOfProxy(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")} })
	for i, row := range []struct{ header, want string }{
		{"X-Forwarded-For: 9.9.9.9, 203.0.113.9", "203.0.113.9"},
		{`Forwarded: for="[2001:db8::1]:80"`, "2001:db8::1"},
		{"X-Forwarded-For: unknown", "127.0.0.1"},
	} {
		id := fmt.Sprint("proxy-", i)
		h.send(post("", "X-Request-Id: "+id, "+"+row.header))
		if got := h.log.await(t, id)["client"]; got != row.want {
			t.Errorf("%s: got %v, want %s", row.header, got, row.want)
		}
	}
}

// A credential has its rate, and each response says how much is left of it.
func TestRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		handle := server.QuotaHandler(server.Limits{Rate: 3})
		const policy = `"rate";q=3;w=1`
		for i, row := range []struct {
			after       time.Duration
			id          int64
			left, retry string
		}{
			{0, 1, `"rate";r=2;t=1`, ""},
			{0, 1, `"rate";r=1;t=1`, ""},
			{0, 1, `"rate";r=0;t=1`, ""},
			{0, 1, `"rate";r=0;t=1`, "1"},
			{0, 2, `"rate";r=2;t=1`, ""},
			{333 * time.Millisecond, 1, `"rate";r=0;t=1`, "1"},
			{time.Millisecond, 1, `"rate";r=0;t=1`, ""},
			{0, 1, `"rate";r=0;t=1`, "1"},
			{time.Hour, 1, `"rate";r=2;t=1`, ""},
		} {
			time.Sleep(row.after) //nolint:forbidigo // the bubble's clock, not a wait
			header, code := handle(row.id)
			got := []string{header.Get("RateLimit-Policy"), header.Get("RateLimit"), header.Get("Retry-After")}
			if want := []string{policy, row.left, row.retry}; !slices.Equal(got, want) {
				t.Errorf("request %d: got %q, want %q", i, got, want)
			}
			if refused := row.retry != ""; refused != (code == plant.CodeRateExceeded) {
				t.Errorf("request %d: got code %d, want refused: %v", i, code, refused)
			}
		}
	})
}

func TestRateAndConcurrency(t *testing.T) {
	t.Parallel()
	header, _ := server.QuotaHandler(server.Limits{Rate: 20, Concurrency: 4})(1)
	for name, want := range map[string]string{
		"RateLimit-Policy": `"rate";q=20;w=1, "concurrency";q=4;qu="concurrent-requests"`,
		"RateLimit":        `"concurrency";r=3, "rate";r=19;t=1`,
	} {
		if got := header.Get(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func TestRateOverHTTP(t *testing.T) {
	t.Parallel()
	h := start(t, func(s *setup) { s.limits.Rate = 1 })
	policy := []string{"RateLimit-Policy", `"rate";q=1;w=1`, "RateLimit", `"rate";r=0;t=1`}
	same(t, h.send(post(`{"id":1,"name":"A"}`)), created(`{"name":"A"}`, policy...))
	for id := 2; ; id++ { // until a request comes within a second of the previous one
		got := h.send(post(fmt.Sprintf(`{"id":%d,"name":"A"}`, id)))
		if got.Status == 200 {
			continue
		}
		same(t, got, refused(42901, textRate, append(policy, "Retry-After", "1")...))
		h.notStored(int64(id))
		break
	}
	if got := h.send(message("GET /healthz HTTP/1.1", "")); got.Status != 200 || got.Header.Get("RateLimit") != "" {
		t.Errorf("a route without a credential: got %+v, want 200 without RateLimit", got)
	}
}

// A credential has its number of concurrent requests.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	other := ""
	h, f := startFaulty(t, func(s *setup) {
		s.limits.Concurrency = 1
		s.seed = func(e *sqlite.Engine) { other = mint(t, e, auth.Token{Name: "other", Scopes: auth.ScopeCreate}) }
	})
	g := f.block(t)
	policy := []string{"RateLimit-Policy", `"concurrency";q=1;qu="concurrent-requests"`, "RateLimit", `"concurrency";r=0`}
	responses := make(chan response, 2)
	send := func(raw string) {
		c := dial(t, h.public)
		c.write(h.fill(raw))
		go func() { responses <- c.read("POST") }() // ends with the response
	}
	send(post(`{"id":1,"name":"A"}`))
	<-g.entered
	same(t, h.send(post(`{"id":9,"name":"A"}`)), refused(42903, textAtOnce, append(policy, "Retry-After", "1")...))
	send(post(`{"id":2,"name":"A"}`, "Authorization: Bearer "+other))
	g.open()
	for range 2 {
		same(t, <-responses, created(`{"name":"A"}`, policy...))
	}
	h.notStored(9)
	same(t, h.send(post(`{"id":9,"name":"A"}`)), created(`{"name":"A"}`, policy...))
}
