package server_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/plant"
)

// sentID is the X-Request-Id of the requests of the tests.
const sentID = "row-1@test"

// message returns a request with the headers of a create and with changes: "Name: value" replaces a header, "-Name"
// removes it, "+Name: value" adds one. The harness replaces {token} by its secret.
func message(line, body string, changes ...string) string {
	lines := []string{
		"Host: plants.example", "Authorization: Bearer {token}", "Content-Type: application/json",
		"X-Request-Id: " + sentID, "Content-Length: " + strconv.Itoa(len(body)),
	}
	for _, change := range changes {
		if added, ok := strings.CutPrefix(change, "+"); ok {
			lines = append(lines, added)
			continue
		}
		name, _, _ := strings.Cut(strings.TrimPrefix(change, "-"), ":")
		kept := lines[:0]
		for _, l := range lines {
			if !strings.HasPrefix(l, name+":") {
				kept = append(kept, l)
			}
		}
		if lines = kept; !strings.HasPrefix(change, "-") {
			lines = append(lines, change)
		}
	}
	return line + "\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n" + body
}

// post returns a request that creates a plant.
func post(body string, changes ...string) string {
	return message("POST /plants HTTP/1.1", body, changes...)
}

// chunked returns the body in chunks of a size.
func chunked(body string, size int) string {
	var out strings.Builder
	for len(body) > 0 {
		n := min(size, len(body))
		fmt.Fprintf(&out, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return out.String() + "0\r\n\r\n"
}

// response is a whole response without its Date.
type response struct {
	Status int
	Header http.Header
	Body   string
}

// generatedID replaces a generated request id in a response.
const generatedID = "(32 hexadecimal digits)"

// jsonResponse returns a response in JSON. headers has pairs of name and value.
func jsonResponse(status int, body string, headers ...string) response {
	h := http.Header{
		"Cache-Control": {"no-store"}, "Content-Length": {strconv.Itoa(len(body))},
		"Content-Security-Policy": {"default-src 'none'; base-uri 'none'; frame-ancestors 'none'"},
		"Content-Type":            {"application/json"},
		"X-Content-Type-Options":  {"nosniff"}, "X-Request-Id": {sentID},
	}
	return withHeaders(response{status, h, body}, headers...)
}

// withHeaders returns the response with more headers, in pairs of name and value.
func withHeaders(a response, headers ...string) response {
	a.Header = a.Header.Clone()
	for i := 0; i < len(headers); i += 2 {
		a.Header.Set(headers[i], headers[i+1])
	}
	return a
}

// closing returns the response with Connection: close.
func closing(a response) response { return withHeaders(a, "Connection", "close") }

// created returns the response to a create.
func created(body string, headers ...string) response {
	return jsonResponse(200, body+"\n", headers...)
}

// refused returns an error response. The code contains its status.
func refused(code int, message string, headers ...string) response {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(message) // cannot fail for a string
	return jsonResponse(
		code/100, fmt.Sprintf(`{"error":%d,"message":%s}`+"\n", code, strings.TrimSpace(text.String())), headers...,
	)
}

// code returns the number of an error response.
func (a response) code(t testing.TB) plant.Code {
	t.Helper()
	var body struct{ Error plant.Code }
	if err := json.Unmarshal([]byte(a.Body), &body); err != nil {
		t.Fatalf("%+v: %v", a, err)
	}
	return body.Error
}

// client is one connection to a listener.
type client struct {
	net.Conn
	t      testing.TB
	reader *bufio.Reader
	secure bool // each response has the header Strict-Transport-Security
}

func dial(t testing.TB, address string) *client {
	t.Helper()
	return dialFrom(t, nil, address)
}

// dialFrom opens a connection from an IP address; nil: any.
func dialFrom(t testing.TB, from net.IP, address string) *client {
	t.Helper()
	c, err := (&net.Dialer{Timeout: wait, LocalAddr: &net.TCPAddr{IP: from}}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, c)
}

func newClient(t testing.TB, c net.Conn) *client {
	t.Helper()
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(wait)); err != nil {
		t.Fatal(err)
	}
	return &client{Conn: c, t: t, reader: bufio.NewReader(c)}
}

// dial connects to a listener of the harness, with TLS if the listener has it.
func (h *harness) dial(t testing.TB, address string) *client {
	t.Helper()
	c := dial(t, address)
	if h.tls == nil || address != h.public {
		return c
	}
	secure := newClient(t, tls.Client(c.Conn, h.tls.client()))
	secure.secure = true
	return secure
}

// write sends raw bytes. It ignores the error of a closed connection.
func (c *client) write(raw string) { _, _ = c.Write([]byte(raw)) }

// closeWrite closes the direction to the server.
func (c *client) closeWrite() { _ = c.Conn.(interface{ CloseWrite() error }).CloseWrite() }

// read reads the response to a request with a method.
func (c *client) read(method string) response {
	c.t.Helper()
	a, err := readResponse(c.reader, method)
	if err != nil {
		c.t.Fatalf("read the response: %v (until then %d %v %.200q)", err, a.Status, a.Header, a.Body)
	}
	const name = "Strict-Transport-Security"
	if c.secure && a.Status != http.StatusContinue && a.Header["X-Request-Id"] != nil {
		if got := a.Header[name]; !slices.Equal(got, []string{"max-age=31536000"}) {
			c.t.Errorf("%s: got %q", name, got)
		}
		delete(a.Header, name)
	}
	return a
}

var hexID = regexp.MustCompile(`^[0-9a-f]{32}$`)

func readResponse(r *bufio.Reader, method string) (a response, err error) {
	text := textproto.NewReader(r)
	line, err := text.ReadLine()
	if err != nil {
		return a, err
	}
	if len(line) < len("HTTP/1.1 200") || !strings.HasPrefix(line, "HTTP/1.") {
		return a, fmt.Errorf("status line %q", line)
	}
	if a.Status, err = strconv.Atoi(line[len("HTTP/1.1 "):len("HTTP/1.1 200")]); err != nil {
		return a, err
	}
	header, err := text.ReadMIMEHeader()
	if err != nil {
		return a, err
	}
	a.Header = http.Header(header)
	if a.Status == http.StatusContinue {
		return a, nil
	}
	if a.Header.Get("Content-Length") == "" && a.Header.Get("Connection") == "close" && a.Header.Get("Date") == "" {
		body, err := io.ReadAll(r) // from net/http
		a.Body = string(body)
		return a, err
	}
	if _, err := http.ParseTime(a.Header.Get("Date")); err != nil {
		return a, fmt.Errorf("date: %w", err)
	}
	a.Header.Del("Date")
	if id := a.Header.Get("X-Request-Id"); hexID.MatchString(id) {
		a.Header.Set("X-Request-Id", generatedID)
	}
	length := a.Header.Get("Content-Length")
	if method == http.MethodHead || a.Status == http.StatusNoContent || a.Status == http.StatusNotModified {
		return a, nil
	}
	if a.Header.Get("Transfer-Encoding") == "chunked" { // the metrics and the profiles
		body, err := io.ReadAll(httputil.NewChunkedReader(r))
		_, trailer := text.ReadLine()
		a.Body = string(body)
		return a, errors.Join(err, trailer)
	}
	n, err := strconv.Atoi(length)
	if err != nil {
		return a, fmt.Errorf("content length: %w", err)
	}
	body := make([]byte, n)
	_, err = io.ReadFull(r, body)
	a.Body = string(body)
	return a, err
}

// expectClosed fails the test unless the server closes the connection without sending more.
func (c *client) expectClosed() {
	c.t.Helper()
	rest, err := io.ReadAll(c.reader)
	var timeout net.Error
	if len(rest) > 0 || errors.As(err, &timeout) && timeout.Timeout() {
		c.t.Errorf("after the response: got %q, %v, want a closed connection", rest, err)
	}
}

// same compares whole responses.
func same(t testing.TB, got, want response) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
}

// requestCase is a request over a new connection and its whole response.
type requestCase struct {
	name string
	in   string
	want response
}

// runCases runs the cases in parallel and returns when all have ended.
func runCases(t *testing.T, h *harness, rows []requestCase) {
	t.Helper()
	t.Run("rows", func(t *testing.T) {
		for _, row := range rows {
			t.Run(row.name, func(t *testing.T) {
				t.Parallel()
				same(t, h.withT(t).send(row.in), row.want)
			})
		}
	})
}
