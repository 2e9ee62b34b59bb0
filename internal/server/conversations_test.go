package server_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// conversation is everything that a client sends over one connection, and every response.
type conversation struct {
	name string
	in   string
	want []response // the server closes the connection after a response with Connection: close
}

// TestConversations sends raw bytes and compares every response. The smuggled plant must never be stored, and no bytes
// may follow the last response.
func TestConversations(t *testing.T) { overBoth(t, testConversations) }

func testConversations(t *testing.T, over func(*setup)) {
	h := start(t, over)
	t.Run("conversations", func(t *testing.T) {
		for _, c := range conversations() {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.check(h.withT(t), t)
			})
		}
	})
	h.notStored(smuggledID)
}

// check sends the bytes and compares the responses. After responses that keep the connection open, one more request
// must receive the next response.
func (c *conversation) check(h *harness, t *testing.T) {
	t.Helper()
	conn := h.dial(t, h.public)
	defer conn.Close()
	conn.write(h.fill(c.in))
	open := true
	for _, want := range c.want {
		got := conn.read("POST")
		got.Header.Del("Strict-Transport-Security")
		same(t, got, want)
		open = want.Header.Get("Connection") != "close"
	}
	if !open {
		conn.closeWrite()
		conn.expectClosed()
		return
	}
	conn.write(h.fill(message("GET /healthz HTTP/1.1", "", "+Connection: close")))
	last := conn.read("GET")
	last.Header.Del("Strict-Transport-Security")
	same(t, last, closing(jsonResponse(200, `{"status":"ready"}`+"\n")))
	conn.expectClosed()
}

const smuggledID = 666

// conversations returns the conversations, each with an id of its own for its plant.
func conversations() []conversation {
	return slices.Concat(framing(), chunks(), targets(), pipelines(), upgrades())
}

var (
	malformedRow  = withDetail("")
	codingRow     = unread(501, "Unsupported transfer encoding")
	versionRow    = unread(505, "505 HTTP Version Not Supported: unsupported protocol version")
	failedRow     = response{417, http.Header{"Connection": {"close"}, "Content-Length": {"0"}}, ""}
	createdRow    = created(`{"name":"A"}`)
	closedRow     = closing(created(`{"name":"A"}`))
	nothingRow    = refused(40401, textNotFound)
	smuggledPlant = post(fmt.Sprintf(`{"id":%d,"name":"smuggled"}`, smuggledID))
)

// plantBody returns a body with an id of its own.
func plantBody(id int) string { return fmt.Sprintf(`{"id":%d,"name":"A"}`, id) }

// inChunks are the changes of a request with a chunked body.
var inChunks = []string{"-Content-Length", "Transfer-Encoding: chunked"}

// incompleteRow is the response to a body that ends or breaks too early.
var incompleteRow = closing(refused(40053, textIncomplete))

// framing returns requests whose length two programs could read differently, each with a second request behind it.
func framing() []conversation {
	both := func(name string, want response, changes ...string) conversation {
		return conversation{"framing: " + name, post("0\r\n\r\n", changes...) + smuggledPlant, []response{want}}
	}
	return []conversation{
		both("identity and chunked", codingRow, "-Content-Length", "Transfer-Encoding: identity, chunked"),
		both("chunked and identity", codingRow, "-Content-Length", "Transfer-Encoding: chunked, identity"),
		both("unknown coding", codingRow, "Transfer-Encoding: xchunked"),
		both("quoted coding", codingRow, `Transfer-Encoding: "chunked"`),
		both("vertical tab before the coding", malformedRow, "Transfer-Encoding: \vchunked"),
		both("parameter of the coding", codingRow, "Transfer-Encoding: chunked;a=b"),
		both("comma after the coding", codingRow, "Transfer-Encoding: chunked,"),
		both("NUL after the coding", malformedRow, "Transfer-Encoding: chunked\x00"),
		both("two codings in two headers", codingRow, "Transfer-Encoding: chunked", "+Transfer-Encoding: identity"),
		both("space before the colon of the coding", withDetail(": invalid header name"), "Transfer-Encoding : chunked"),
		both("folded coding", codingRow, "Transfer-Encoding:\r\n identity"),
		both("space before the colon of the length", withDetail(": invalid header name"), "Content-Length : 5"),
		both("folded line before the length", malformedRow, "Content-Length:\r\n\x00 5"),
		both("lengths that differ", malformedRow, "Content-Length: 5", "+Content-Length: 6"),
		both("lengths in a list that differ", malformedRow, "Content-Length: 5, 6"),
		both("hexadecimal length", malformedRow, "Content-Length: 0x5"),
		both("length with an underscore", malformedRow, "Content-Length: 0_5"),
		both("length with a fraction", malformedRow, "Content-Length: 5.0"),
		both("negative length", malformedRow, "Content-Length: -5"),
		both("length with other digits", malformedRow, "Content-Length: ٥"),
		both("CR alone in a header", malformedRow, "X-Y: a\rContent-Length: 0"),
		both("NUL in a name", malformedRow, "X\x00Y: a"),
		both("no colon", malformedRow, "Content-Length 5"),
		both("second Host", malformedRow, "+Host: other.example"),
		both("empty header name", malformedRow, "+: 5"),
		both("comma in the Host", withDetail(": malformed Host header"), "Host: a.example, b.example"),
		both("two lengths with a space", malformedRow, "Content-Length: 5 5"),
		both("length of 20 digits", malformedRow, "Content-Length: 18446744073709551621"),
		both("empty length", malformedRow, "Content-Length: "),
		both("letter after the length", malformedRow, "Content-Length: 5a"),
		both("semicolon in the length", malformedRow, "Content-Length: 5;6"),
		both("length with a sign", malformedRow, "Content-Length: +5"),
		both("tab before the colon of the length", malformedRow, "Content-Length\t: 5"),
		both("no Host", withDetail(": missing required Host header"), "-Host"),
		both("space in the Host", withDetail(": malformed Host header"), "Host: a b"),
		both("NUL in the Host", malformedRow, "Host: a\x00b"),
		both("tab in the coding", codingRow, "Transfer-Encoding: chun\tked"),
		both("coding twice in a list", codingRow, "Transfer-Encoding: CHUNKED, CHUNKED"),
		both("empty coding", codingRow, "Transfer-Encoding: "),
		both("control character in a value", malformedRow, "X-Y: a\x7fb"),
		both("quotes in a name", malformedRow, "\"X\": a"),
		both("slash in a name", malformedRow, "X/Y: a"),
		both("angle brackets in the Host", withDetail(": malformed Host header"), "Host: <script>"),
	}
}

// unread returns the response of net/http to a request that it refuses before it calls the handler.
func unread(status int, body string) response {
	return response{status, http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "Connection": {"close"}}, body}
}

// withDetail returns the response of net/http to a malformed request.
func withDetail(detail string) response { return unread(400, "400 Bad Request"+detail) }

// chunks returns chunked bodies, valid ones and broken ones with a second request behind them.
func chunks() []conversation {
	const first = 1000
	var all []conversation
	valid := func(name, form string) {
		body := plantBody(first + len(all))
		in := strings.NewReplacer("SIZE", fmt.Sprintf("%x", len(body)), "BODY", body).Replace(form)
		all = append(all, conversation{"chunks: " + name, post(in, inChunks...), []response{closedRow}})
	}
	broken := func(name, form string) {
		body := plantBody(first + len(all))
		in := strings.NewReplacer("SIZE", fmt.Sprintf("%x", len(body)), "BODY", body).Replace(form)
		in = post(in, inChunks...) + smuggledPlant
		all = append(all, conversation{"chunks: " + name, in, []response{incompleteRow}})
	}
	valid("one", "SIZE\r\nBODY\r\n0\r\n\r\n")
	valid("zeros before the size", "000SIZE\r\nBODY\r\n0\r\n\r\n")
	valid("upper-case end", "SIZE\r\nBODY\r\n00\r\n\r\n")
	valid("extension", "SIZE;a=b\r\nBODY\r\n0\r\n\r\n")
	valid("quoted extension", "SIZE;a=\"b c\"\r\nBODY\r\n0\r\n\r\n")
	valid("trailer", "SIZE\r\nBODY\r\n0\r\nX-Y: z\r\n\r\n")
	valid("trailer with a length", "SIZE\r\nBODY\r\n0\r\nContent-Length: 5\r\n\r\n")
	broken("no size", "\r\nBODY\r\n0\r\n\r\n")
	broken("negative size", "-1\r\nBODY\r\n0\r\n\r\n")
	broken("size with a prefix", "0xSIZE\r\nBODY\r\n0\r\n\r\n")
	broken("size with a sign", "+SIZE\r\nBODY\r\n0\r\n\r\n")
	broken("space before the size", " SIZE\r\nBODY\r\n0\r\n\r\n")
	broken("size with an underscore", "0_SIZE\r\nBODY\r\n0\r\n\r\n")
	broken("size beyond 64 bits", "1000000000000000SIZE\r\nBODY\r\n0\r\n\r\n")
	broken("longer than its size", "1\r\nBODY\r\n0\r\n\r\n")
	broken("no line end after the data", "SIZE\r\nBODY0\r\n\r\n")
	broken("bare CR after the size", "SIZE\rBODY\r\n0\r\n\r\n")
	broken("bare LF after the size", "SIZE\nBODY\r\n0\r\n\r\n")
	broken("bare LF after the data", "SIZE\r\nBODY\n0\r\n\r\n")
	broken("bare LF in an extension", "SIZE;a=b\nBODY\r\n0\r\n\r\n")
	broken("letters as the size", "zz\r\nBODY\r\n0\r\n\r\n")
	broken("NUL in the size", "SIZE\x00\r\nBODY\r\n0\r\n\r\n")
	return all
}

// targets returns request lines with unusual targets, methods and versions.
func targets() []conversation {
	const first = 2000
	var all []conversation
	row := func(line string, want response) {
		all = append(all, conversation{"target: " + line, message(line, plantBody(first+len(all))), []response{want}})
	}
	for _, target := range []string{
		"/plants/%2e%2e/plants", "/%2e/plants", "/plants%00", "/plants%0d%0aX-Y:%20z", "/plants%5c", "/plants/.",
		"/plants/..;/",
		"/%70lants/", "//plants.example/plants", "/plants%3fa=b", "/plants\\", "/healthz/../plants",
	} {
		row("POST "+target+" HTTP/1.1", nothingRow)
	}
	row("POST /%70lants HTTP/1.1", createdRow)
	row("POST /plants? HTTP/1.1", createdRow)
	row("POST /plants?a=%00&b=%zz HTTP/1.1", createdRow)
	row("POST /plants HTTP/1.0", closedRow)
	for _, line := range []string{
		"POST /plants#a b HTTP/1.1", "POST  /plants HTTP/1.1", "POST /plants  HTTP/1.1", "POST\t/plants\tHTTP/1.1",
		"POST /plants HTTP/1", "POST /plants HTTP/1.1.1", "POST /plants HTTP/-1.1", "POST /plants XTTP/1.1", "POST /plants",
		"/plants HTTP/1.1", "P\x00ST /plants HTTP/1.1", "POST %zz HTTP/1.1", "POST http:///plants%zz HTTP/1.1",
		"POST plants.example HTTP/1.1",
	} {
		row(line, malformedRow)
	}
	for _, method := range []string{
		"GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PURGE", "QUERY", "post", "Post", "PROPFIND",
	} {
		row(method+" /plants HTTP/1.1", refused(40501, "method must be POST; got "+method, "Allow", "POST"))
	}
	for _, version := range []string{"HTTP/0.9", "HTTP/2.0", "HTTP/3.0", "HTTP/9.9"} {
		row("POST /plants "+version, versionRow)
	}
	return all
}

// pipelines returns several requests at once, with an error among them.
func pipelines() []conversation {
	const first = 3000
	plant := func(n int, changes ...string) string { return post(plantBody(first+n), changes...) }
	get := message("GET /nothing HTTP/1.1", "")
	return []conversation{
		{"pipeline: three plants", plant(0) + plant(1) + plant(2), []response{createdRow, createdRow, createdRow}},
		{
			"pipeline: an unknown path in the middle", plant(3) + get + plant(4),
			[]response{createdRow, nothingRow, createdRow},
		},
		{
			"pipeline: a malformed head in the middle", plant(5) + "NONSENSE\r\n\r\n" + smuggledPlant,
			[]response{createdRow, malformedRow},
		},
		{
			"pipeline: an unknown coding in the middle", plant(6) + post("", "Transfer-Encoding: x") + smuggledPlant,
			[]response{createdRow, codingRow},
		},
		{
			"pipeline: close in the middle", plant(7) + plant(8, "+Connection: close") + smuggledPlant,
			[]response{createdRow, closedRow},
		},
		{
			"pipeline: another version in the middle", plant(9) + message("POST /plants HTTP/2.0", "") + smuggledPlant,
			[]response{createdRow, versionRow},
		},
		{"pipeline: an empty line between", plant(10) + "\r\n" + plant(12), []response{createdRow, createdRow}},
		{
			"pipeline: chunks before another", post(chunked(plantBody(first+11), 4), inChunks...) + smuggledPlant,
			[]response{closedRow},
		},
	}
}

// upgrades returns requests for other protocols and with expectations.
func upgrades() []conversation {
	const first = 4000
	plant := func(n int, changes ...string) string { return post(plantBody(first+n), changes...) }
	return []conversation{
		{
			"upgrade: h2c",
			plant(0, "+Connection: Upgrade, HTTP2-Settings", "+Upgrade: h2c", "+HTTP2-Settings: AAMAAABkAAQ"),
			[]response{createdRow},
		},
		{
			"upgrade: websocket",
			message("GET /nothing HTTP/1.1", "", "+Connection: Upgrade", "+Upgrade: websocket",
				"+Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "+Sec-WebSocket-Version: 13"),
			[]response{nothingRow},
		},
		{"upgrade: TLS", plant(1, "+Connection: Upgrade", "+Upgrade: TLS/1.2"), []response{createdRow}},
		{"expect: another list", plant(2, "Expect: x, y") + smuggledPlant, []response{failedRow}},
		{"expect: another", plant(3, "Expect: x") + smuggledPlant, []response{failedRow}},
	}
}
