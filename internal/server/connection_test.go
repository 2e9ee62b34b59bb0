package server_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// RFC 9112 section 6.1: a request with both headers may be an attempt at smuggling. Transfer-Encoding takes precedence,
// and the server closes the connection.
func TestContentLengthWithTransferEncoding(t *testing.T) {
	overBoth(t, testContentLengthWithTransferEncoding)
}

func testContentLengthWithTransferEncoding(t *testing.T, over func(*setup)) {
	h := start(t, over)
	for i, headers := range [][]string{
		{"Content-Length: 4", "+Transfer-Encoding: chunked"},
		{"Transfer-Encoding: chunked", "Content-Length: 100"},
		{"Content-Length: 0", "+transfer-encoding: chunked"},
	} {
		c := h.dial(t, h.public)
		smuggled := h.fill(post(`{"id":666,"name":"smuggled"}`))
		c.write(h.fill(post(chunked(fmt.Sprintf(`{"id":%d,"name":"A"}`, i), 8)+smuggled, headers...)))
		same(t, c.read("POST"), created(`{"name":"A"}`, "Connection", "close"))
		c.expectClosed()
		h.stored(int64(i))
	}
	h.notStored(666)
}

// HTTP/1.0 has no Transfer-Encoding, so a proxy may have read another body.
func TestTransferEncodingOfHTTP10(t *testing.T) { overBoth(t, testTransferEncodingOfHTTP10) }

func testTransferEncodingOfHTTP10(t *testing.T, over func(*setup)) {
	h := start(t, over)
	c := h.dial(t, h.public)
	const body = `{"id":1,"name":"A"}`
	smuggled := h.fill(post(`{"id":666,"name":"smuggled"}`))
	c.write(h.fill(message(
		"POST /plants HTTP/1.0", body, "Connection: keep-alive", "Transfer-Encoding: chunked",
	)) + smuggled)
	same(t, c.read("POST"), created(`{"name":"A"}`, "Connection", "close"))
	c.expectClosed()
	h.notStored(666)
}

func TestPipelinedResponsesAreInOrder(t *testing.T) { overBoth(t, testPipelinedResponsesAreInOrder) }

func testPipelinedResponsesAreInOrder(t *testing.T, over func(*setup)) {
	h := start(t, over)
	var in strings.Builder
	var want []response
	for i := range 20 {
		id := fmt.Sprintf("X-Request-Id: pipe-%d", i)
		request, a := post(
			fmt.Sprintf(`{"id":%d,"name":"plant %d"}`, i, i), id,
		), created(fmt.Sprintf(`{"name":"plant %d"}`, i))
		switch i % 4 {
		case 1:
			request, a = post("{}", id), refused(
				40011, "id is missing, send a 64-bit integer; name is missing, send a string",
			)
		case 2:
			request, a = message("GET /nothing HTTP/1.1", "", id), refused(40401, textNotFound)
		}
		a.Header.Set("X-Request-Id", fmt.Sprintf("pipe-%d", i))
		in.WriteString(h.fill(request))
		want = append(want, a)
	}
	c := h.dial(t, h.public)
	c.write(in.String())
	for _, a := range want {
		same(t, c.read("POST"), a)
	}
}

// An error response keeps the connection open if the server has read the whole body.
func TestConnectionIsReusedAfterErrors(t *testing.T) { overBoth(t, testConnectionIsReusedAfterErrors) }

func testConnectionIsReusedAfterErrors(t *testing.T, over func(*setup)) {
	h := start(t, over)
	c := h.dial(t, h.public)
	for i, refusal := range []string{
		post("{"), post(""), post("x", "Content-Type: text/plain"), post("x", "Content-Encoding: gzip"),
		post("x", "-Authorization"),
		post("x", "Authorization: Bearer"), message("PUT /plants HTTP/1.1", "x"),
		message("POST /nothing HTTP/1.1", "x"),
	} {
		c.write(h.fill(refusal))
		if a := c.read("POST"); a.Status < 400 || a.Status >= 500 || a.Header["Connection"] != nil {
			t.Errorf("%q: got %+v, want an error response that keeps the connection open", refusal, a)
		}
		c.write(h.fill(post(fmt.Sprintf(`{"id":%d,"name":"A"}`, i))))
		same(t, c.read("POST"), created(`{"name":"A"}`))
	}
}

// A client that sends Connection: close and still sends its body receives the error response: the server does not reset
// the connection.
func TestRefusedWhileSending(t *testing.T) { overBoth(t, testRefusedWhileSending) }

func testRefusedWhileSending(t *testing.T, over func(*setup)) {
	h := start(t, over)
	body := strings.Repeat(" ", 200<<10)
	for name, in := range map[string]struct{ request, code string }{
		"too large":     {post(body, "Connection: close"), `{"error":41301,`},
		"no credential": {post(body, "Connection: close", "-Authorization"), `{"error":40101,`},
		"HTTP/1.0":      {strings.Replace(post(body), "HTTP/1.1", "HTTP/1.0", 1), `{"error":41301,`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := h.dial(t, h.public)
			request := h.fill(in.request)
			half := len(request) - len(body)/2
			c.write(request[:half])
			if a := c.read("POST"); !strings.HasPrefix(a.Body, in.code) || a.Header.Get("Connection") != "close" {
				t.Errorf("got %+v, want a body that begins with %s", a, in.code)
			}
			if _, err := io.WriteString(c, request[half:]); err != nil {
				t.Error(err)
			}
			c.expectClosed()
		})
	}
}

const textIncomplete = "the body ended before its announced length, or has malformed chunks; nothing was stored"

func TestBrokenBody(t *testing.T) { overBoth(t, testBrokenBody) }

func testBrokenBody(t *testing.T, over func(*setup)) {
	h := start(t, over)
	incomplete := closing(refused(
		40053, textIncomplete,
	))
	inChunks := []string{"-Content-Length", "Transfer-Encoding: chunked"}
	for name, in := range map[string]string{
		"short":                     post(`{"id":1,"name":"A"}`, "Content-Length: 20"),
		"chunks without 0":          post("13\r\n{\"id\":1,\"name\":\"A\"}\r\n", inChunks...),
		"no chunk size":             post("x\r\n{\"id\":1,\"name\":\"A\"}\r\n0\r\n\r\n", inChunks...),
		"short chunk":               post("14\r\n{\"id\":1,\"name\":\"A\"}\r\n0\r\n\r\n", inChunks...),
		"chunk size beyond 64 bits": post("10000000000000013\r\n{\"id\":1,\"name\":\"A\"}\r\n0\r\n\r\n", inChunks...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := h.dial(t, h.public)
			c.write(h.fill(in))
			c.closeWrite()
			same(t, c.read("POST"), incomplete)
			c.expectClosed()
			h.withT(t).notStored(1)
		})
	}
}

// A disconnect within the body does not affect other clients. The log has the error.
func TestDisconnectWithinTheBody(t *testing.T) { overBoth(t, testDisconnectWithinTheBody) }

func testDisconnectWithinTheBody(t *testing.T, over func(*setup)) {
	h := start(t, over)
	c := h.dial(t, h.public)
	c.write(h.fill(post(`{"id":1,"na`, "Content-Length: 19", "X-Request-Id: gone")))
	_ = c.Close()
	if l := h.log.await(t, "gone"); l["status"] != 400.0 || l["error_code"] != 40053.0 {
		t.Errorf("log: got %v, want 400 and 40053", l)
	}
	h.notStored(1)
	same(t, h.send(post(`{"id":1,"name":"A"}`)), created(`{"name":"A"}`))
}

// A disconnect does not cancel the create of a plant in a pending batch.
func TestDisconnectBeforeTheResponse(t *testing.T) { overBoth(t, testDisconnectBeforeTheResponse) }

func testDisconnectBeforeTheResponse(t *testing.T, over func(*setup)) {
	h, f := startFaulty(t, over)
	g := f.block(t)
	first := h.dial(t, h.public)
	first.write(h.fill(post(`{"id":1,"name":"A"}`)))
	<-g.entered
	gone, waiting := h.dial(t, h.public), h.dial(t, h.public)
	gone.write(h.fill(post(`{"id":2,"name":"B"}`, "X-Request-Id: gone")))
	waiting.write(h.fill(post(`{"id":3,"name":"C"}`)))
	_ = gone.Close()
	g.open()
	if l := h.log.await(t, "gone"); l["status"] != 200.0 {
		t.Errorf("log: got %v, want 200", l)
	}
	same(t, first.read("POST"), created(`{"name":"A"}`))
	same(t, waiting.read("POST"), created(`{"name":"C"}`))
	h.writePath.Close() // waits for every commit
	for id, name := range map[int64]string{1: "A", 2: "B", 3: "C"} {
		if got := h.stored(id).Name; got != name {
			t.Errorf("plant %d: got %q, want %q", id, got, name)
		}
	}
}

// A retired listener responds to the next request of an open connection, and then closes it.
func TestRetire(t *testing.T) { overBoth(t, testRetire) }

func testRetire(t *testing.T, over func(*setup)) {
	h := start(t, over)
	idle := h.dial(t, h.public)
	idle.write(message("GET /healthz HTTP/1.1", ""))
	same(t, idle.read("GET"), jsonResponse(200, `{"status":"ready"}`+"\n"))
	h.publicListener.Retire(t.Context())
	refusesConnections(t, h.public)
	idle.write(h.fill(post(`{"id":1,"name":"A"}`)))
	same(t, idle.read("POST"), created(`{"name":"A"}`, "Connection", "close"))
	idle.expectClosed()
	h.stored(1)
}

// During a shutdown the server completes the requests in flight and refuses new connections.
func TestShutdown(t *testing.T) { overBoth(t, testShutdown) }

func testShutdown(t *testing.T, over func(*setup)) {
	h, f := startFaulty(t, over)
	g := f.block(t)
	idle, first, second := h.dial(t, h.public), h.dial(t, h.public), h.dial(t, h.public)
	idle.write(message("GET /healthz HTTP/1.1", ""))
	same(t, idle.read("GET"), jsonResponse(200, `{"status":"ready"}`+"\n"))
	first.write(h.fill(post(`{"id":1,"name":"A"}`)))
	<-g.entered // the commit runs
	second.write(h.fill(post(`{"id":2,"name":"B"}`, "Expect: 100-continue")))
	if a := second.read("POST"); a.Status != 100 { // the request is in flight
		t.Fatalf("got %+v, want 100", a)
	}

	shut := make(chan error, 1)
	go func() { shut <- h.publicServer.Shutdown(t.Context()) }()
	refusesConnections(t, h.public)
	idle.expectClosed()
	select {
	case err := <-shut:
		t.Fatalf("the shutdown ended with %v before every response", err)
	default:
	}
	same(t, h.sendTo(h.admin, message("GET /readyz HTTP/1.1", "")), jsonResponse(200, `{"status":"ready"}`+"\n"))

	g.open()
	same(t, first.read("POST"), created(`{"name":"A"}`, "Connection", "close"))
	same(t, second.read("POST"), created(`{"name":"B"}`, "Connection", "close"))
	first.expectClosed()
	second.expectClosed()
	if err := <-shut; err != nil {
		t.Errorf("shutdown: %v", err)
	}
	h.stop()
	again := start(t, over, func(s *setup) { s.path, s.token = h.path, h.token })
	for id, name := range map[int64]string{1: "A", 2: "B"} {
		if got := again.stored(id).Name; got != name {
			t.Errorf("plant %d after the restart: got %q, want %q", id, got, name)
		}
	}
}

// refusesConnections waits until an address refuses connections.
func refusesConnections(t *testing.T, address string) {
	t.Helper()
	deadline := time.Now().Add(wait)
	for {
		c, err := net.Dial("tcp", address)
		if err != nil {
			return
		}
		_ = c.Close()
		if time.Now().After(deadline) {
			t.Fatal("the server still accepts connections")
		}
	}
}
