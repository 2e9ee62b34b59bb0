package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"plantstore/internal/server"
)

// http2Client returns a client of HTTP/2 for the public listener. It counts its connections.
func (h *harness) http2Client(t testing.TB) *http.Client {
	t.Helper()
	config := h.tls.client()
	config.NextProtos = nil
	transport := &http.Transport{
		TLSClientConfig: config, Protocols: new(http.Protocols), DisableCompression: true,
		MaxResponseHeaderBytes: 1 << 20,
	}
	transport.Protocols.SetHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: wait}
}

// sendHTTP2 sends a request, written as one of HTTP/1.1, and returns the response without its Date and with the header
// of HTTPS checked.
func (h *harness) sendHTTP2(t testing.TB, c *http.Client, raw string) response {
	t.Helper()
	r := h.requestOf(t, raw)
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return readHTTP2(t, res)
}

// requestOf returns the request of a client.
func (h *harness) requestOf(t testing.TB, raw string) *http.Request {
	t.Helper()
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(h.fill(raw))))
	if err != nil {
		t.Fatal(err)
	}
	r.RequestURI = ""
	r.URL.Scheme, r.URL.Host = "https", h.public
	r.Header.Set("User-Agent", "") // none
	return r.WithContext(t.Context())
}

func readHTTP2(t testing.TB, res *http.Response) response {
	t.Helper()
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.ProtoMajor != 2 {
		t.Errorf("got %s, want HTTP/2", res.Proto)
	}
	if got := res.Header.Get("Strict-Transport-Security"); got != "max-age=31536000" {
		t.Errorf("Strict-Transport-Security: got %q", got)
	}
	for _, name := range []string{"Date", "Strict-Transport-Security"} {
		res.Header.Del(name)
	}
	if id := res.Header.Get("X-Request-Id"); hexID.MatchString(id) {
		res.Header.Set("X-Request-Id", generatedID)
	}
	return response{res.StatusCode, res.Header, string(body)}
}

// The responses over HTTP/2 are those over HTTP/1.1 without the header Connection. A refused request does not end the
// connection, because other requests share it.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	const headerMax = 10000
	h := start(t, withTLS(t), func(s *setup) { s.limits.HeaderMax = headerMax })
	c := h.http2Client(t)
	connections := 0
	trace := &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if !i.Reused {
			connections++
		}
	}}
	const body = `{"id":1,"name":"A"}`
	large := refused(43101, textHeadersTooLarge)
	for _, row := range []requestCase{
		{"create", post(body), created(`{"name":"A"}`)},
		{"replay", post(body), created(`{"name":"A"}`, "Idempotent-Replayed", "true")},
		{"chunked", post(chunked(body, 5), "-Content-Length", "Transfer-Encoding: chunked"), created(
			`{"name":"A"}`, "Idempotent-Replayed", "true",
		)},
		{"no credential", post(body, "-Authorization"), refused(40101, textNone, "WWW-Authenticate", challengeNone)},
		{"not found", message("GET /nothing HTTP/1.1", ""), refused(40401, textNotFound)},
		{"no server-wide options", message("OPTIONS * HTTP/1.1", ""), refused(40401, textNotFound)},
		{"method", message("GET /plants HTTP/1.1", ""), refused(40501, "method must be POST; got GET", "Allow", "POST")},
		{"body too large", post(strings.Repeat(" ", 1<<17)), refused(
			41301, "the body is larger than 65536 bytes; nothing was stored",
		)},
		{"not JSON", post("{"), refused(40001, "the body is not JSON: it ends before the end of the object")},
		{"expectation", post(body, "Expect: 200-ok"), refused(41701, textExpect)},
		{"headers", post(body, "X-Padding: "+strings.Repeat("p", headerMax-1000)), created(
			`{"name":"A"}`, "Idempotent-Replayed", "true",
		)},
		{"headers too large", post(body, "X-Padding: "+strings.Repeat("p", headerMax)), large},
		{"headers much too large", post(body, "X-Padding: "+strings.Repeat("p", 3*headerMax)), large},
		{"no id", message("GET /healthz HTTP/1.1", "", "-X-Request-Id"), jsonResponse(
			200, `{"status":"ready"}`+"\n", "X-Request-Id", generatedID,
		)},
	} {
		r := h.requestOf(t, row.in)
		res, err := c.Do(r.WithContext(httptrace.WithClientTrace(r.Context(), trace)))
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		got := readHTTP2(t, res)
		if row.name == "not JSON" {
			row.want.Body, row.want.Header = got.Body, got.Header // TestInvalidBody has the text
		}
		t.Run(row.name, func(t *testing.T) { same(t, got, row.want) })
	}
	if connections != 1 {
		t.Errorf("got %d connections, want 1", connections)
	}
}

func TestHTTP2SlowBody(t *testing.T) {
	t.Parallel()
	const limit = 10 * time.Second // long enough for a machine that pauses to send a whole request
	h := start(t, withTLS(t), func(s *setup) { s.limits.RequestTimeout = limit })
	c := h.http2Client(t)
	r := h.requestOf(t, post("", "-Content-Length"))
	body, writer := io.Pipe()
	defer writer.Close()
	r.Body, r.ContentLength = body, -1
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	same(t, readHTTP2(t, res), refused(40801, "the request did not arrive within 10s; nothing was stored"))
	same(t, h.sendHTTP2(t, c, post(`{"id":1,"name":"A"}`)), created(`{"name":"A"}`))
}

// A reset of a stream does not cancel the create of a plant in a pending batch, and does not affect other streams.
func TestHTTP2ResetBeforeTheResponse(t *testing.T) {
	t.Parallel()
	h, f := startFaulty(t, withTLS(t))
	g := f.block(t)
	c := h.http2Client(t)
	first := make(chan response, 1)
	go func() { first <- h.sendHTTP2(t, c, post(`{"id":1,"name":"A"}`)) }()
	<-g.entered
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	arrived := make(chan struct{})
	r := h.requestOf(t, post(`{"id":2,"name":"B"}`, "X-Request-Id: gone"))
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { close(arrived) },
	})
	go func() {
		_, err := c.Do(r.WithContext(ctx)) //nolint:bodyclose // there is no response
		gone <- err
	}()
	<-arrived
	if a := h.sendHTTP2(t, c, message("GET /healthz HTTP/1.1", "")); a.Status != 200 { // the server has read stream 2
		t.Errorf("health check: got %+v", a)
	}
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want a canceled request", err)
	}
	g.open()
	same(t, <-first, created(`{"name":"A"}`))
	if l := h.log.await(t, "gone"); l["status"] != 200.0 {
		t.Errorf("log: got %v, want 200", l)
	}
	if got := h.stored(2).Name; got != "B" {
		t.Errorf("got %q, want B", got)
	}
}

// During a shutdown the streams in flight receive their responses.
func TestHTTP2Shutdown(t *testing.T) {
	t.Parallel()
	h, f := startFaulty(t, withTLS(t))
	g := f.block(t)
	c := h.http2Client(t)
	first := make(chan response, 1)
	go func() { first <- h.sendHTTP2(t, c, post(`{"id":1,"name":"A"}`)) }()
	<-g.entered
	shut := make(chan error, 1)
	go func() { shut <- h.publicServer.Shutdown(t.Context()) }()
	refusesConnections(t, h.public)
	select {
	case err := <-shut:
		t.Fatalf("the shutdown ended with %v before every response", err)
	default:
	}
	g.open()
	same(t, <-first, created(`{"name":"A"}`))
	if err := <-shut; err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

// A shutdown sends GOAWAY on a connection without a stream, so that its client sends no request to a closed connection.
func TestHTTP2ShutdownSendsGoAway(t *testing.T) {
	t.Parallel()
	h := start(t, withTLS(t))
	f := h.dialFrames(t)
	f.frame(framePing, 0, 0, make([]byte, 8))
	if _, ok := f.await(framePing); !ok {
		t.Fatal("got no answer to a ping")
	}
	shut := make(chan error, 1)
	go func() { shut <- h.publicServer.Shutdown(t.Context()) }()
	if payload, ok := f.await(frameGoAway); !ok || binary.BigEndian.Uint32(payload[4:]) != 0 {
		t.Errorf("GOAWAY: got % x, %t, want NO_ERROR", payload, ok)
	}
	if err := <-shut; err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

// http2Frames is a connection on which a test writes frames of HTTP/2.
type http2Frames struct {
	*client
	next  uint32 // stream
	token string
}

func (h *harness) dialFrames(t testing.TB) *http2Frames {
	t.Helper()
	c := h.dialProtocol(t, "h2")
	c.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	f := &http2Frames{client: c, next: 1}
	f.frame(frameSettings, 0, 0, nil)
	return f
}

const (
	frameData, frameHeaders, framePriority, frameReset, frameSettings = 0, 1, 2, 3, 4
	framePing, frameGoAway, frameContinuation                         = 6, 7, 9

	flagEndStream, flagEndHeaders = 1, 4
)

// frame sends a frame and ignores the error of a closed connection.
func (f *http2Frames) frame(kind, flags byte, stream uint32, payload []byte) {
	out := append([]byte{}, byte(len(payload)>>16), byte(len(payload)>>8), byte(len(payload)), kind, flags)
	out = binary.BigEndian.AppendUint32(out, stream)
	_, _ = f.Write(append(out, payload...))
}

// fields returns a header block of literal fields (RFC 7541 section 6.2.2).
func fields(pairs ...string) []byte {
	var out []byte
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, 0)
		for _, text := range pairs[i : i+2] {
			if len(text) < 127 {
				out = append(out, byte(len(text)))
			} else { // RFC 7541 section 5.1
				out = binary.AppendUvarint(append(out, 127), uint64(len(text)-127))
			}
			out = append(out, text...)
		}
	}
	return out
}

var getNothing = fields(":method", "GET", ":scheme", "https", ":authority", "plants.example", ":path", "/nothing")

// request sends a request without a body and returns its stream.
func (f *http2Frames) request(block []byte) uint32 {
	stream := f.next
	f.next += 2
	f.frame(frameHeaders, flagEndStream|flagEndHeaders, stream, block)
	return stream
}

// await reads frames until one of a type arrives, and returns its payload. It returns false at the end of the
// connection.
func (f *http2Frames) await(kind byte) (payload []byte, ok bool) {
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(f.reader, head); err != nil {
			return nil, false
		}
		payload = make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if _, err := io.ReadFull(f.reader, payload); err != nil {
			return nil, false
		}
		if head[3] == kind {
			return payload, true
		}
	}
}

// A request whose Content-Length differs from the length of its DATA frames stores nothing
// (RFC 9113 section 8.1.1).
func TestHTTP2Lengths(t *testing.T) {
	t.Parallel()
	const incomplete = `{"error":40053,"message":"the body ended before its announced length, ` +
		`or has malformed chunks; nothing was stored"}` + "\n"
	for name, row := range map[string]struct {
		differs int
		kind    byte   // of the frame with the result
		want    string // payload
	}{
		"equal":         {0, frameData, `{"name":"A"}` + "\n"},
		"body is short": {1, frameData, incomplete},
		"body is long":  {-1, frameReset, "\x00\x00\x00\x01"}, // PROTOCOL_ERROR
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, withTLS(t))
			f := h.dialFrames(t)
			f.frame(frameHeaders, flagEndHeaders, 1, fields(
				":method", "POST", ":scheme", "https", ":authority", "plants.example", ":path", "/plants",
				"authorization", "Bearer "+h.token, "content-type", "application/json",
				"content-length", strconv.Itoa(len(bodyA)+row.differs),
			))
			f.frame(frameData, flagEndStream, 1, []byte(bodyA))
			if payload, _ := f.await(row.kind); string(payload) != row.want {
				t.Errorf("got %q, want %q", payload, row.want)
			}
			if row.differs != 0 {
				h.notStored(1)
			}
		})
	}
}

// A client that sends many frames without content is disconnected; another client is not affected.
func TestHTTP2Floods(t *testing.T) {
	t.Parallel()
	const frames = 3000
	for name, send := range map[string]func(f *http2Frames){
		"rapid reset": func(f *http2Frames) { // CVE-2023-44487
			f.frame(frameReset, 0, f.request(getNothing), []byte{0, 0, 0, 8})
		},
		"pings":      func(f *http2Frames) { f.frame(framePing, 0, 0, make([]byte, 8)) },
		"settings":   func(f *http2Frames) { f.frame(frameSettings, 0, 0, nil) },
		"priorities": func(f *http2Frames) { f.frame(framePriority, 0, 1, []byte{0, 0, 0, 3, 1}) },
		"empty data": func(f *http2Frames) {
			if f.next == 1 {
				f.next = 3
				f.frame(frameHeaders, flagEndHeaders, 1, fields(
					":method", "POST", ":scheme", "https", ":authority", "plants.example", ":path", "/plants",
					"authorization", "Bearer "+f.token, "content-type", "application/json",
				))
			}
			f.frame(frameData, 0, 1, nil)
		},
		"continuations": func(f *http2Frames) { // CVE-2024-27316
			if f.next == 1 {
				f.next = 3
				f.frame(frameHeaders, flagEndStream, 1, getNothing)
			}
			f.frame(frameContinuation, 0, 1, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, withTLS(t))
			f := h.dialFrames(t)
			f.token = h.token
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for range frames {
					send(f)
				}
			}()
			payload, ok := f.await(frameGoAway)
			if !ok || binary.BigEndian.Uint32(payload[4:]) != 0xb {
				t.Errorf("GOAWAY: got % x, %t, want ENHANCE_YOUR_CALM", payload, ok)
			}
			_ = f.Close()
			<-ended
			h.log.awaitMessage(t, "HTTP/2 connection closed")
			same(t, h.sendHTTP2(t, h.http2Client(t), post(`{"id":1,"name":"A"}`)), created(`{"name":"A"}`))
		})
	}
}

// A shutdown does not wait until the time without service of a flooding client ends.
func TestHTTP2ShutdownAfterFlood(t *testing.T) {
	t.Parallel()
	h := start(t, withTLS(t, func(c *server.TLSConfig) { c.SetHTTP2Penalty(10 * wait) }))
	f := h.dialFrames(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 3000 {
			f.frame(framePriority, 0, 1, []byte{0, 0, 0, 3, 1})
		}
	}()
	_, ok := f.await(frameGoAway)
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	if err := h.publicServer.Shutdown(ctx); err != nil || !ok {
		t.Errorf("got GOAWAY %t, and the shutdown ended with %v", ok, err)
	}
	_ = f.Close()
	<-ended
}

// A client within the limits is not disconnected.
func TestHTTP2FewResets(t *testing.T) {
	t.Parallel()
	h := start(t, withTLS(t))
	f := h.dialFrames(t)
	for range 200 {
		f.frame(frameReset, 0, f.request(getNothing), []byte{0, 0, 0, 8})
	}
	f.frame(framePing, 0, 0, []byte("12345678"))
	if payload, ok := f.await(framePing); !ok || string(payload) != "12345678" {
		t.Errorf("got %q, %t, want the ping back", payload, ok)
	}
}

// The server allows 100 streams at once.
func TestHTTP2Streams(t *testing.T) {
	t.Parallel()
	h := start(t, withTLS(t))
	f := h.dialFrames(t)
	payload, ok := f.await(frameSettings)
	const streamsMax = 3 // SETTINGS_MAX_CONCURRENT_STREAMS
	if want := binary.BigEndian.AppendUint32([]byte{0, streamsMax}, 100); !ok || !bytes.Contains(payload, want) {
		t.Errorf("settings: got % x, want % x in them", payload, want)
	}
	f.frame(frameSettings, 1, 0, nil) // acknowledges
	open := fields(
		":method", "POST", ":scheme", "https", ":authority", "plants.example", ":path", "/plants",
		"authorization", "Bearer "+h.token, "content-type", "application/json",
	)
	for i := range uint32(101) {
		f.frame(frameHeaders, flagEndHeaders, 2*i+1, open)
	}
	payload, ok = f.await(frameReset)
	if !ok || binary.BigEndian.Uint32(payload) == 0 {
		t.Errorf("stream 101: got % x, %t, want an error code", payload, ok)
	}
}

// A header block of many frames does not grow without a limit.
func TestHTTP2LargeHeaderBlock(t *testing.T) {
	t.Parallel()
	h := start(t, withTLS(t))
	f := h.dialFrames(t)
	go func() {
		f.frame(frameHeaders, flagEndStream, 1, getNothing)
		for i := range 100 {
			f.frame(frameContinuation, 0, 1, fields("x-"+strconv.Itoa(i), strings.Repeat("p", 16000)))
		}
	}()
	if payload, ok := f.await(frameGoAway); ok && binary.BigEndian.Uint32(payload[4:]) == 0 {
		t.Errorf("GOAWAY: got % x, want an error code", payload)
	}
}

// net/http itself refuses fields that HTTP/2 forbids and header lists of more than four times HeaderMax, without an
// error body. It closes the connection for one field of that size and for a much larger list. The reference page of the
// configuration says so.
func TestHTTP2RefusedByNetHTTP(t *testing.T) {
	t.Parallel()
	const headerMax = 1000
	h := start(t, withTLS(t), func(s *setup) { s.limits.HeaderMax = headerMax })
	padding := func(fieldsOf, count int) (block []byte) {
		for range count {
			block = append(block, fields("x-padding", strings.Repeat("p", fieldsOf))...)
		}
		return block
	}
	for name, row := range map[string]struct {
		block  []byte
		body   string // of the response; empty: the connection is closed
		goAway uint32
	}{
		"Connection":   {fields("connection", "close"), "request header \"Connection\" is not valid in HTTP/2\n", 0},
		"TE":           {fields("te", "gzip"), "request header \"TE\" may only be \"trailers\" in HTTP/2\n", 0},
		"many fields":  {padding(headerMax, 5), "<h1>HTTP Error 431</h1><p>Request Header Field(s) Too Large</p>", 0},
		"large field":  {padding(5*headerMax, 1), "", 9}, // COMPRESSION_ERROR
		"much larger":  {padding(headerMax, 12), "", 1},  // PROTOCOL_ERROR
		"one too many": {padding(3*headerMax, 1), "{\"error\":43101,\"message\":\"" + textHeadersTooLarge + "\"}\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := h.dialFrames(t)
			f.request(append(bytes.Clone(getNothing), row.block...))
			if row.body != "" {
				if got, ok := f.await(frameData); !ok || string(got) != row.body {
					t.Errorf("got %q, %t, want %q", got, ok, row.body)
				}
				return
			}
			if got, ok := f.await(frameGoAway); !ok || binary.BigEndian.Uint32(got[4:]) != row.goAway {
				t.Errorf("GOAWAY: got % x, %t, want the error code %d", got, ok, row.goAway)
			}
		})
	}
}

// A connection must begin with the protocol that the handshake selected.
func TestOtherProtocolThanNegotiated(t *testing.T) {
	t.Parallel()
	h := start(t, withTLS(t))
	c := h.dialProtocol(t, "h2")
	c.write(h.fill(post(`{"id":1,"name":"A"}`)))
	c.expectClosed()
	h.notStored(1)
}

func TestHTTP2IdleConnectionIsClosed(t *testing.T) {
	t.Parallel()
	const limit = 200 * time.Millisecond
	h := start(t, withTLS(t), func(s *setup) { s.limits.IdleTimeout = limit })
	f := h.dialFrames(t)
	if payload, ok := f.await(frameGoAway); !ok || binary.BigEndian.Uint32(payload[4:]) != 0 {
		t.Errorf("GOAWAY: got % x, %t, want NO_ERROR", payload, ok)
	}
	if _, err := f.reader.ReadByte(); errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
		t.Errorf("after GOAWAY: got %v, want a closed connection", err)
	}
}
