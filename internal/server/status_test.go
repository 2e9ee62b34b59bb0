package server_test

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	textNotFound      = "this path does not exist; check the path and the base URL; /docs describes the API"
	textAdminNotFound = "this path does not exist on the admin listener, which has the console at /, " +
		"the admin API at /api/v1, and /livez, /readyz and /metrics"
)

func TestNotFound(t *testing.T) { overBoth(t, testNotFound) }

func testNotFound(t *testing.T, over func(*setup)) {
	h := start(t, over)
	var rows []requestCase
	for _, target := range []string{
		"/", "/plant", "/plants/", "//plants", "/plants/1", "/plants/../plants", "/./plants", "/PLANTS", "/Plants",
		"/plants;v=1",
		"/plants%2F", "/plants%20", "/v1/plants", "/livez", "/readyz", "/metrics", "/healthz/", "/docs//", "/openapi",
		"*", "http://x", "http:plants",
	} {
		rows = append(rows, requestCase{
			target, message("POST "+target+" HTTP/1.1", `{"id":1,"name":"A"}`), refused(40401, textNotFound),
		})
	}
	for _, method := range []string{"GET", "DELETE", "OPTIONS", "PURGE"} {
		rows = append(
			rows, requestCase{method, message(method+" /nothing HTTP/1.1", ""), refused(40401, textNotFound)},
		)
	}
	head := refused(40401, textNotFound)
	head.Body = ""
	rows = append(rows,
		requestCase{"HEAD", message("HEAD /nothing HTTP/1.1", ""), head},
		requestCase{"OPTIONS for the server", message("OPTIONS * HTTP/1.1", ""), refused(40401, textNotFound)},
		requestCase{"CONNECT", message("CONNECT plants.example:80 HTTP/1.1", ""), refused(40401, textNotFound)},
		requestCase{
			"without a credential", message("POST /nothing HTTP/1.1", "", "-Authorization"),
			refused(40401, textNotFound),
		},
	)
	runCases(t, h, rows)
	h.notStored(1)
}

func TestMethodNotAllowed(t *testing.T) { overBoth(t, testMethodNotAllowed) }

func testMethodNotAllowed(t *testing.T, over func(*setup)) {
	h := start(t, over)
	var rows []requestCase
	for target, allow := range map[string]string{
		"/plants": "POST", "/healthz": "GET, HEAD", "/openapi.json": "GET, HEAD", "/openapi.yaml": "GET, HEAD",
		"/docs": "GET, HEAD",
	} {
		for _, method := range []string{
			"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PURGE", "post", "PRI",
		} {
			if strings.Contains(", "+allow+",", ", "+method+",") {
				continue
			}
			text := "method must be " + strings.ReplaceAll(allow, ", ", " or ") + "; got " + method
			want := refused(40501, text, "Allow", allow)
			if method == "HEAD" {
				want.Body = ""
			}
			rows = append(
				rows,
				requestCase{method + " " + target, message(method+" "+target+" HTTP/1.1", "", "-Authorization"), want},
			)
		}
	}
	runCases(t, h, rows)
}

func TestHead(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, target := range []string{"/healthz", "/openapi.json", "/docs"} {
		want := h.send(message("GET "+target+" HTTP/1.1", ""))
		if want.Status != 200 || want.Body == "" {
			t.Errorf("GET %s: got %+v", target, want)
		}
		want.Body = ""
		same(t, h.send(message("HEAD "+target+" HTTP/1.1", "")), want)
	}
}

func TestMediaType(t *testing.T) { overBoth(t, testMediaType) }

func testMediaType(t *testing.T, over func(*setup)) {
	h := start(t, over)
	const body = `{"id":1,"name":"A"}`
	media := func(got string) response {
		return refused(
			41501, "Content-Type must be application/json, with no charset but utf-8; got "+got, "Accept",
			"application/json",
		)
	}
	coding := func(got string) response {
		return refused(41502, "Content-Encoding must be absent; got "+got, "Accept-Encoding", "identity")
	}
	runCases(t, h, []requestCase{
		{"none", post(body, "-Content-Type"), media("none")},
		{"empty", post(body, "Content-Type: "), media(`""`)},
		{"text", post(body, "Content-Type: text/plain"), media(`"text/plain"`)},
		{
			"form", post(body, "Content-Type: application/x-www-form-urlencoded"),
			media(`"application/x-www-form-urlencoded"`),
		},
		{
			"other JSON type", post(body, "Content-Type: application/merge-patch+json"),
			media(`"application/merge-patch+json"`),
		},
		{"text/json", post(body, "Content-Type: text/json"), media(`"text/json"`)},
		{"two headers", post(body, "+Content-Type: application/json"), media("2 Content-Type headers")},
		{
			"two types", post(body, "Content-Type: application/json, application/json"),
			media(`"application/json, application/json"`),
		},
		{
			"charset Latin-1", post(body, "Content-Type: application/json; charset=latin1"),
			media(`"application/json; charset=latin1"`),
		},
		{
			"charset UTF-16", post(body, "Content-Type: application/json; charset=utf-16"),
			media(`"application/json; charset=utf-16"`),
		},
		{
			"quote", post(body, `Content-Type: application/json; charset="x\"y"`),
			media(`"application/json; charset=\"x\\\"y\""`),
		},
		{"long", post(body, "Content-Type: "+strings.Repeat("x", 200)), media(`"` + strings.Repeat("x", 100) + `…"`)},
		{"token", post(body, "Content-Type: {token}"), media(`"(hidden: it may contain a token)"`)},
		{
			"charset of another type", post(body, "Content-Type: text/plain; charset=utf-8"),
			media(`"text/plain; charset=utf-8"`),
		},
		{
			"two charsets", post(body, "Content-Type: application/json; charset=utf-8; charset=latin1"),
			media(`"application/json; charset=utf-8; charset=latin1"`),
		},
		{
			"another parameter", post(body, "Content-Type: application/json; profile=plant"),
			media(`"application/json; profile=plant"`),
		},
		{"malformed", post(body, "Content-Type: application/json; ="), media(`"application/json; ="`)},
		{"gzip", post(body, "Content-Encoding: gzip"), coding(`"gzip"`)},
		{"identity", post(body, "Content-Encoding: identity"), coding(`"identity"`)},
		{"empty coding", post(body, "Content-Encoding: "), coding(`""`)},
		{"coding and media type", post(body, "Content-Encoding: br", "Content-Type: text/plain"), coding(`"br"`)},
		{"before the body", post("{", "Content-Type: text/plain"), media(`"text/plain"`)},
	})
	h.notStored(1)
}

// bodyOf returns a valid plant in a body of a size.
func bodyOf(size int) string {
	const body = `{"id":1,"name":"A"}`
	return body + strings.Repeat(" ", size-len(body))
}

func TestBodySize(t *testing.T) { overBoth(t, testBodySize) }

func testBodySize(t *testing.T, over func(*setup)) {
	const limit = 3000 // above the initial size of a buffer
	h := start(t, over, func(s *setup) { s.limits.BodyMax = limit })
	large := closing(refused(41301, "the body is larger than 3000 bytes; nothing was stored"))
	inChunks := []string{"-Content-Length", "Transfer-Encoding: chunked"}
	runCases(t, h, []requestCase{
		{"one more", post(bodyOf(limit + 1)), large},
		{"announced", post("", "Content-Length: 9223372036854775807"), large},
		{"announced with Expect", post("", "Content-Length: 3001", "Expect: 100-continue"), large},
		{"in chunks", post(chunked(bodyOf(limit+1), 1000), inChunks...), large},
		{"in one chunk", post(chunked(bodyOf(limit+1), limit+1), inChunks...), large},
		{"without an end", post("2000\r\n"+strings.Repeat(" ", 0x2000), inChunks...), large},
		{"not JSON", post(strings.Repeat("x", limit+1)), large},
	})
	h.notStored(1)
	same(t, h.send(post(bodyOf(limit))), created(`{"name":"A"}`))
	again := created(`{"name":"A"}`, "Idempotent-Replayed", "true")
	same(t, h.send(post(chunked(bodyOf(limit), 700), inChunks...)), closing(again))
	same(t, h.send(post(bodyOf(limit-1))), again)
}

// The server stores and returns a plant of the largest size of the default limit.
func TestLargestPlant(t *testing.T) { overBoth(t, testLargestPlant) }

func testLargestPlant(t *testing.T, over func(*setup)) {
	h := start(t, over)
	name := strings.Repeat("é\\n", (64<<10-len(`{"id":1,"name":""}`))/4)
	same(t, h.send(post(`{"id":1,"name":"`+name+`"}`)), created(`{"name":"`+name+`"}`))
	if got, want := h.stored(1).Name, strings.ReplaceAll(name, `\n`, "\n"); got != want {
		t.Errorf("stored: got %d bytes, want %d", len(got), len(want))
	}
}

func TestRequestTimeout(t *testing.T) { overBoth(t, testRequestTimeout) }

func testRequestTimeout(t *testing.T, over func(*setup)) {
	const limit = 10 * time.Second // long enough for a machine that pauses to send a whole head
	h := start(t, over, func(s *setup) { s.limits.RequestTimeout = limit })
	late := closing(refused(40801, "the request did not arrive within 10s; nothing was stored"))
	inChunks := []string{"-Content-Length", "Transfer-Encoding: chunked"}
	rows := []requestCase{
		{"no body", post("", "Content-Length: 19"), late},
		{"half a body", post(`{"id":1,"n`, "Content-Length: 19"), late},
		{"no chunk", post("", inChunks...), late},
		{"half a chunk", post("13\r\n{\"id\":1,", inChunks...), late},
		{"no last chunk", post("13\r\n{\"id\":1,\"name\":\"A\"}\r\n", inChunks...), late},
		{
			"no body and no credential", post("", "Content-Length: 19", "-Authorization"),
			closing(refused(40101, textNone, "WWW-Authenticate", challengeNone)),
		},
	}
	clients := make([]*client, len(rows)) // they wait at the same time, without a slot of parallel tests for each
	for i, row := range rows {
		clients[i] = h.dial(t, h.public)
		clients[i].write(h.fill(row.in))
	}
	started := time.Now() // the time of the server begins when it accepts the connection
	half := h.dial(t, h.public)
	half.write("POST /plants HTTP/1.1\r\nHost: plants.example\r\nX-Request-Id: a")
	half.expectClosed() // without a response
	if took := time.Since(started); took < limit {
		t.Errorf("half a head: closed after %s, want no sooner than %s", took, limit)
	}
	for i, row := range rows {
		got := clients[i].read("POST")
		t.Run(row.name, func(t *testing.T) { same(t, got, row.want) })
		clients[i].expectClosed()
	}
	h.notStored(1)
}

func TestIdleConnectionIsClosed(t *testing.T) { overBoth(t, testIdleConnectionIsClosed) }

func testIdleConnectionIsClosed(t *testing.T, over func(*setup)) {
	const limit = 200 * time.Millisecond
	h := start(t, over, func(s *setup) { s.limits.IdleTimeout = limit })
	c, started := h.dial(t, h.public), time.Now()
	c.write(h.fill(post(`{"id":1,"name":"A"}`)))
	same(t, c.read("POST"), created(`{"name":"A"}`))
	c.expectClosed()
	if took := time.Since(started); took < limit {
		t.Errorf("closed after %s, want no sooner than %s", took, limit)
	}
}

// padded returns a request whose line and headers have a size together.
func padded(raw string, size int) string {
	head, body, _ := strings.Cut(raw, "\r\n\r\n")
	padding := size - len(head) - len("\r\nX-Padding: ") - len("\r\n\r\n")
	return head + "\r\nX-Padding: " + strings.Repeat("p", padding) + "\r\n\r\n" + body
}

func TestHeadSize(t *testing.T) { overBoth(t, testHeadSize) }

func testHeadSize(t *testing.T, over func(*setup)) {
	const limit = 9000
	h := start(t, over, func(s *setup) { s.limits.HeaderMax = limit })
	large := unread(431, "431 Request Header Fields Too Large")
	raw := h.fill(post(`{"id":1,"name":"A"}`))
	longLine := func(size int) string {
		rest := " HTTP/1.1\r\nHost: h\r\n\r\n"
		return "GET /" + strings.Repeat("a", size-len("GET /")-len(rest)) + rest
	}
	fields := func(n int) string {
		head, body, _ := strings.Cut(h.fill(post(`{"id":2,"name":"A"}`)), "\r\n\r\n")
		return head + strings.Repeat("\r\nA: b", n-strings.Count(head, "\r\n")) + "\r\n\r\n" + body
	}
	runCases(t, h, []requestCase{
		{"headers", padded(raw, limit), created(`{"name":"A"}`)},
		{"headers, one more", padded(h.fill(post("")), limit+1), large},
		{"line", longLine(limit), refused(40401, textNotFound, "X-Request-Id", generatedID)},
		{"line, one more", longLine(limit + 1), large},
		{"fields", fields(100), created(`{"name":"A"}`)},
		{"fields, one more", fields(101), large},
		{"before the credential", padded(post("", "-Authorization"), limit+1), large},
	})
	t.Run("no lower than 4 KiB", func(t *testing.T) {
		t.Parallel()
		h := start(t, over, func(s *setup) { s.limits.HeaderMax = 100 })
		same(t, h.send(padded(h.fill(post(`{"id":1,"name":"A"}`)), 4096)), created(`{"name":"A"}`))
		if got := h.send(padded(h.fill(post("")), 4098)).Status; got != 431 {
			t.Errorf("4098 bytes: got %s, want 431", strconv.Itoa(got))
		}
	})
}
