package server_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"plantstore/internal/auth"
	"plantstore/internal/listen"
	"plantstore/internal/server"
)

// Above the limit, the listener evicts the connections that wait longest for a whole request: for its head or for its
// body. It does not evict a connection that waits for a commit.
func TestIncompleteRequestsAreEvicted(t *testing.T) { overBoth(t, testIncompleteRequestsAreEvicted) }

func testIncompleteRequestsAreEvicted(t *testing.T, over func(*setup)) {
	h, f := startFaulty(t, over, func(s *setup) { s.connections = listen.Limits{Incomplete: 1} })
	g := f.block(t)
	serving := h.dial(t, h.public)
	serving.write(h.fill(post(`{"id":1,"name":"A"}`)))
	<-g.entered
	idle := h.dial(t, h.public)
	idle.write(message("GET /healthz HTTP/1.1", ""))
	same(t, idle.read("GET"), jsonResponse(200, `{"status":"ready"}`+"\n"))

	slowHead := h.dial(t, h.public)
	slowHead.write("POST /plants HTTP/1.1\r\nHost: ")
	slowBody := h.dial(t, h.public)
	slowBody.write(h.fill(post("", "Content-Length: 19", "X-Request-Id: slow", "Expect: 100-continue")))
	if line, err := slowBody.reader.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("got %q, %v, want 100", line, err)
	}
	slowBody.write(`{"id":2,"name":"B"`)
	last := h.dial(t, h.public)
	last.write(h.fill(post(`{"id":3,"name":"C"`, "Content-Length: 19")))

	slowHead.expectClosed()
	if rest, err := io.ReadAll(slowBody.reader); string(rest) != "\r\n" {
		t.Errorf("got %q, %v, want a closed connection", rest, err)
	}
	if l := h.log.await(t, "slow"); l["status"] != 400.0 || l["error_code"] != 40053.0 {
		t.Errorf("log: got %v, want 400 and 40053", l)
	}
	h.until(t, func() bool { return h.evicted(t) == 2 }) // counted after the close
	last.write("}")
	g.open()
	same(t, serving.read("POST"), created(`{"name":"A"}`))
	same(t, last.read("POST"), created(`{"name":"C"}`))
	idle.write(message("GET /healthz HTTP/1.1", ""))
	same(t, idle.read("GET"), jsonResponse(200, `{"status":"ready"}`+"\n"))
	h.notStored(2)
}

// A connection whose client does not read the response is incomplete too.
func TestSlowReaderIsEvicted(t *testing.T) { overBoth(t, testSlowReaderIsEvicted) }

func testSlowReaderIsEvicted(t *testing.T, over func(*setup)) {
	h := start(t, over, func(s *setup) { s.connections = listen.Limits{Incomplete: 1} })
	same(t, h.send(post(bodyA)), created(`{"name":"A"}`)) // the responses to an unauthenticated client would end
	const requests = 600                                  // whose responses are larger than the buffers of the sockets
	for range 2 {                                         // one above the limit
		h.dial(t, h.public).write(strings.Repeat(message("GET /docs HTTP/1.1", ""), requests))
	}
	h.until(t, func() bool { return h.evicted(t) == 1 })
}

// evicted returns the number of evicted connections with an incomplete request or response.
func (h *harness) evicted(t *testing.T) int {
	t.Helper()
	return evictedIn(t, h.page(t, "/metrics"), "public", "incomplete")
}

// evictedIn returns the number of a listener on the page of metrics.
func evictedIn(t *testing.T, page, listener, reason string) int {
	t.Helper()
	name := "\nplantstore_connections_evicted_total{listener=\"" + listener + "\",reason=\"" + reason + "\"} "
	_, rest, _ := strings.Cut(page, name)
	number, _, _ := strings.Cut(rest, "\n")
	return mustAtoi(t, number)
}

// Long heads of many addresses use a limited amount of memory, and the longest go first.
func TestMemoryOfHeads(t *testing.T) { overBoth(t, testMemoryOfHeads) }

func testMemoryOfHeads(t *testing.T, over func(*setup)) {
	const clients, headBytes, most = 40, 15_000, 100_000
	h := start(t, over, func(s *setup) { s.connections = listen.Limits{IncompleteBytes: most} })
	good := h.dial(t, h.public)
	const free = 4 << 10 // for each head
	for i := range clients {
		c := h.dialAs(t, net.IPv4(127, 1, 0, byte(i+1)))
		c.write("POST /plants HTTP/1.1\r\nX-Long: " + strings.Repeat("a", headBytes) + "\r\n")
	}
	h.until(t, func() bool {
		return evictedIn(t, h.page(t, "/metrics"), "public", "bytes") >= clients-most/(headBytes-free)
	})
	for id := range 20 {
		body := fmt.Sprintf(`{"id":%d,"name":"A"%s}`, id, strings.Repeat("\n", 50_000))
		good.write(h.fill(post(body, "+X-Long: "+strings.Repeat("a", 2*free))))
		same(t, good.read("POST"), created(`{"name":"A"}`))
	}
}

// At the limit, a new connection replaces one between two requests.
func TestIdleConnectionIsEvicted(t *testing.T) { overBoth(t, testIdleConnectionIsEvicted) }

func testIdleConnectionIsEvicted(t *testing.T, over func(*setup)) {
	h := start(t, over, func(s *setup) { s.connections = listen.Limits{Connections: 1, IdleTimeout: wait} })
	first := h.dial(t, h.public)
	first.write(message("GET /healthz HTTP/1.1", ""))
	same(t, first.read("GET"), jsonResponse(200, `{"status":"ready"}`+"\n"))
	h.until(t, func() bool { // the connection is idle just after the client has read the response
		second := h.dial(t, h.public)
		second.write(message("GET /healthz HTTP/1.1", ""))
		_, err := readResponse(second.reader, "GET")
		return err == nil
	})
	first.expectClosed()
}

// Unauthenticated clients on the admin listener do not end the response to the operator, and do not keep the operator
// out.
func TestOperatorIsNotEvicted(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	slow := func(c *server.Call) error {
		c.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(c).Flush()
		<-release
		_, err := io.WriteString(c, "whole")
		return err
	}
	h := start(t, func(s *setup) {
		s.admins = listen.Limits{Connections: 8, IdleTimeout: wait, Incomplete: 1}
		s.routes = []server.Route{{Method: "GET", Path: "/slow", Scope: auth.ScopeAdmin, Handle: slow}}
	})
	get := func(path string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+h.admin+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+h.admins)
		r.Close = true
		return http.DefaultClient.Do(r)
	}
	operator, err := get("/slow")
	if err != nil {
		t.Fatal(err)
	}
	defer operator.Body.Close()
	for range 20 {
		silent, err := net.Dial("tcp", h.admin)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	h.until(t, func() bool { // the listener keeps them for a second
		another, err := get("/livez")
		if err != nil {
			return false
		}
		return another.Body.Close() == nil && another.StatusCode == http.StatusOK
	})
	h.until(t, func() bool {
		page, err := get("/metrics")
		if err != nil { // the listener is full of silent clients of the last second
			return false
		}
		body, err := io.ReadAll(page.Body)
		return errors.Join(err, page.Body.Close()) == nil && evictedIn(t, string(body), "admin", "incomplete") >= 2
	})
	close(release)
	if body, err := io.ReadAll(operator.Body); string(body) != "whole" || err != nil {
		t.Errorf("the response to the operator is %q, %v", body, err)
	}
}

// Slow readers of many credentials leave half of the connections to the operator and to health checks, and do not end a
// response to the operator.
func TestSlowReadersOfManyCredentials(t *testing.T) {
	t.Parallel()
	endless := func(c *server.Call) error {
		for part := make([]byte, 64<<10); ; {
			if _, err := c.Write(part); err != nil {
				return nil //nolint:nilerr // the client has disconnected
			}
		}
	}
	const connections = 16
	h := start(t, func(s *setup) {
		s.admins = listen.Limits{Connections: connections, IdleTimeout: wait, Incomplete: 1}
		s.routes = []server.Route{
			{Method: "GET", Path: "/endless", Scope: auth.ScopeRead, OtherScope: auth.ScopeAdmin, Handle: endless},
		}
	})
	download := func(credential string) io.ReadCloser {
		res, err := h.open("/endless", credential)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return res.Body
	}
	operator := download(h.admins)
	few := download(mint(t, h.engine, auth.Token{Name: "few", Scopes: auth.ScopeRead}))
	many := mint(t, h.engine, auth.Token{Name: "many", Scopes: auth.ScopeRead | auth.ScopeMetrics | auth.ScopeCreate})
	for range 3 * connections {
		download(many)
	}
	for range connections {
		for _, path := range []string{"/livez", "/readyz", "/metrics"} {
			res, err := h.open(path, h.admins)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
				t.Errorf("%s: got %d, %v", path, res.StatusCode, err)
			}
		}
	}
	for name, response := range map[string]io.Reader{"the operator": operator, "another credential": few} {
		if _, err := io.CopyN(io.Discard, response, 16<<20); err != nil {
			t.Errorf("the response to %s: %v", name, err)
		}
	}
}

func mustAtoi(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
