package server_test

import (
	"strings"
	"testing"
)

// net/http refuses these requests before it calls the handler, with a text of its own.
func TestMalformedHead(t *testing.T) { overBoth(t, testMalformedHead) }

func testMalformedHead(t *testing.T, over func(*setup)) {
	h := start(t, over)
	const body = `{"id":1,"name":"A"}`
	runCases(t, h, []requestCase{
		{"no Host", post(body, "-Host"), withDetail(": missing required Host header")},
		{"two Hosts", post(body, "+Host: plants.example"), malformedRow},
		{"malformed Host", post(body, "Host: plants example"), withDetail(": malformed Host header")},
		{"space in a header name", post(body, "X Y: z"), withDetail(": invalid header name")},
		{"space before the colon", post(body, "X-Y : z"), withDetail(": invalid header name")},
		{"no colon", post(body, "X-Y"), malformedRow},
		{"no header name", post(body, "+: z"), malformedRow},
		{"other bytes in a header name", post(body, "X(Y): z"), malformedRow},
		{"control character in a header", post(body, "X-Y: a\x01b"), malformedRow},
		{"NUL in a header", post(body, "X-Y: a\x00b"), malformedRow},
		{"CR in a header", post(body, "X-Y: a\rb"), malformedRow},
		{"header begins with a space", strings.Replace(post(body), "\r\nHost", "\r\n Host", 1), malformedRow},
		{"Content-Length of letters", post(body, "Content-Length: many"), malformedRow},
		{"negative Content-Length", post(body, "Content-Length: -1"), malformedRow},
		{"Content-Length with a sign", post(body, "Content-Length: +19"), malformedRow},
		{"empty Content-Length", post(body, "Content-Length: "), malformedRow},
		{"Content-Length beyond 64 bits", post(body, "Content-Length: 18446744073709551635"), malformedRow},
		{"list of lengths", post(body, "Content-Length: 19, 19"), malformedRow},
		{"conflicting lengths", post(body, "+Content-Length: 20"), malformedRow},
		{"no version", "POST /plants\r\n\r\n", malformedRow},
		{"malformed version", message("POST /plants HTTP/1.10", body), malformedRow},
		{"version in lower case", message("POST /plants http/1.1", body), malformedRow},
		{"spaces in the target", message("POST /pl ants HTTP/1.1", body), malformedRow},
		{"invalid escape in the target", message("POST /pl%zznts HTTP/1.1", body), malformedRow},
		{"no slash", message("POST plants HTTP/1.1", body), malformedRow},
		{"control character in the target", message("POST /pl\x01ants HTTP/1.1", body), malformedRow},
		{"invalid method", message("PO(ST /plants HTTP/1.1", body), malformedRow},
		{"space before the method", message(" POST /plants HTTP/1.1", body), malformedRow},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", malformedRow},
		{"unknown coding", post(body, "-Content-Length", "Transfer-Encoding: gzip"), codingRow},
		{"two codings", post(body, "-Content-Length", "Transfer-Encoding: gzip, chunked"), codingRow},
		{"identity", post(body, "-Content-Length", "Transfer-Encoding: identity"), codingRow},
		{
			"chunked twice", post(body, "-Content-Length", "Transfer-Encoding: chunked", "+Transfer-Encoding: chunked"),
			codingRow,
		},
		{"empty coding", post(body, "-Content-Length", "Transfer-Encoding: "), codingRow},
		{"HTTP/3.0", message("POST /plants HTTP/3.0", body), versionRow},
		{"HTTP/2.0", message("POST /plants HTTP/2.0", body), versionRow},
		{"HTTP/0.9", message("POST /plants HTTP/0.9", body), versionRow},
		{
			"opening of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
			closing(refused(40401, textNotFound, "X-Request-Id", generatedID)),
		},
	})
	h.notStored(1)
}

func TestExpectation(t *testing.T) { overBoth(t, testExpectation) }

func testExpectation(t *testing.T, over func(*setup)) {
	h := start(t, over)
	const body = `{"id":1,"name":"A"}`
	runCases(t, h, []requestCase{
		{"another", post(body, "Expect: 200-ok"), failedRow},
		{"another in HTTP/1.0", message("POST /plants HTTP/1.0", body, "Expect: 200-ok"), failedRow},
		{"another without a body", message("GET /healthz HTTP/1.1", "", "Expect: 200-ok"), failedRow},
		{"before the credential", post(body, "-Authorization", "Expect: 200-ok"), failedRow},
	})
	h.notStored(1)
	runCases(t, h, []requestCase{
		{"empty", post(body, "Expect: "), created(`{"name":"A"}`)},
		{
			"without a body", message("GET /healthz HTTP/1.1", "", "Expect: 100-continue"),
			jsonResponse(200, `{"status":"ready"}`+"\n"),
		},
		{
			"100-continue in HTTP/1.0", message("POST /plants HTTP/1.0", `{"id":2,"name":"A"}`, "Expect: 100-continue"),
			created(`{"name":"A"}`, "Connection", "close"),
		},
	})
}

func TestTarget(t *testing.T) { overBoth(t, testTarget) }

func testTarget(t *testing.T, over func(*setup)) {
	const body = `{"id":1,"name":"A"}`
	misdirected := func(own, got string) response {
		return refused(42101, `host of the request target must be "`+own+`"; got "`+got+`"`)
	}
	good := created(`{"name":"A"}`)
	replayed := created(`{"name":"A"}`, "Idempotent-Replayed", "true")
	to := func(target string) string { return message("POST "+target+" HTTP/1.1", body) }

	t.Run("own host only", func(t *testing.T) {
		t.Parallel()
		h := start(t, over, func(s *setup) { s.base, s.ownHostOnly = "http://plants.example", true })
		const own = "plants.example:80"
		runCases(t, h, []requestCase{
			{"another host", to("http://other.example/plants"), misdirected(own, "other.example:80")},
			{"another port", to("http://plants.example:8080/plants"), misdirected(own, "plants.example:8080")},
			{"another scheme", to("https://plants.example/plants"), misdirected(own, "plants.example:443")},
			{"own host as a prefix", to("http://plants.example.org/plants"), misdirected(own, "plants.example.org:80")},
			{
				"own host as a user", to("http://plants.example@other.example/plants"),
				misdirected(own, "other.example:80"),
			},
			{"another host and path", to("http://other.example/nothing"), misdirected(own, "other.example:80")},
			{
				"another host without a credential",
				message("POST http://other.example/plants HTTP/1.1", body, "-Authorization"),
				misdirected(own, "other.example:80"),
			},
		})
		h.notStored(1)
		same(t, h.send(to("http://plants.example/plants")), good)
		runCases(t, h, []requestCase{
			{"own host with its port", to("http://plants.example:80/plants"), replayed},
			{"own host in upper case", to("HTTP://PLANTS.EXAMPLE/plants"), replayed},
			{"own host in https with its port", to("https://plants.example:80/plants"), replayed},
			{"path", to("/plants"), replayed},
			{"path with another Host", message("POST /plants HTTP/1.1", body, "Host: other.example"), replayed},
		})
	})
	t.Run("own host with a port", func(t *testing.T) {
		t.Parallel()
		h := start(t, over, func(s *setup) { s.base, s.ownHostOnly = "https://plants.example:8443", true })
		same(t, h.send(to("https://plants.example:8443/plants")), good)
		same(t, h.send(to("https://plants.example/plants")), misdirected("plants.example:8443", "plants.example:443"))
	})
	t.Run("own host with the port of https", func(t *testing.T) {
		t.Parallel()
		h := start(t, over, func(s *setup) { s.base, s.ownHostOnly = "https://plants.example", true })
		same(t, h.send(to("https://plants.example:443/plants")), good)
		same(t, h.send(to("https://plants.example/plants")), replayed)
		same(t, h.send(to("http://plants.example/plants")), misdirected("plants.example:443", "plants.example:80"))
	})
	t.Run("own IPv6 address", func(t *testing.T) {
		t.Parallel()
		h := start(t, over, func(s *setup) { s.base, s.ownHostOnly = "http://[2001:db8::1]", true })
		same(t, h.send(to("http://[2001:DB8::1]:80/plants")), good)
		same(t, h.send(to("http://[2001:db8::2]/plants")), misdirected("[2001:db8::1]:80", "[2001:db8::2]:80"))
	})
	t.Run("any host", func(t *testing.T) {
		t.Parallel()
		h := start(t, over)
		same(t, h.send(to("http://other.example/plants")), good)
	})
}

// Every path but the health check has the path of the base URL as its prefix. A load balancer does not have to be
// configured with it.
func TestPrefix(t *testing.T) { overBoth(t, testPrefix) }

func testPrefix(t *testing.T, over func(*setup)) {
	for _, prefix := range []string{"/store", "/store/", "/a%20b/c"} {
		t.Run(prefix, func(t *testing.T) {
			t.Parallel()
			h := start(t, over, func(s *setup) { s.prefix = prefix })
			base := strings.TrimSuffix(prefix, "/")
			to := func(target string) string { return message("POST "+target+" HTTP/1.1", `{"id":1,"name":"A"}`) }
			get := func(target string) string { return message("GET "+target+" HTTP/1.1", "", "-Authorization") }
			notFound := refused(40401, strings.Replace(textNotFound, "/docs", base+"/docs", 1))
			runCases(t, h, []requestCase{
				{"plants", to(base + "/plants"), created(`{"name":"A"}`)},
				{"health", get("/healthz"), jsonResponse(200, `{"status":"ready"}`+"\n")},
				{"plants at the root", to("/plants"), notFound},
				{"health below", get(base + "/healthz"), notFound},
				{"document at the root", get("/openapi.json"), notFound},
				{"page at the root", get("/docs"), notFound},
				{"prefix alone", get(base), notFound},
				{"prefix twice", to(base + base + "/plants"), notFound},
			})
			for _, page := range []string{"/openapi.json", "/openapi.yaml", "/docs", "/docs/", "/docs/apidoc.css"} {
				if got := h.send(get(base + page)).Status; got != 200 {
					t.Errorf("GET %s: got %d, want 200", base+page, got)
				}
			}
		})
	}
}
