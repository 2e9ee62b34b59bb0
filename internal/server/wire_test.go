package server_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/plant"
)

// sentID is the X-Request-Id that the tests send if they do not say another.
const sentID = "row-1@test"

// message is a request as bytes. To the usual headers of a request for a plant
// come changes: "Name: value" replaces, "-Name" leaves out, "+Name: value"
// comes besides. {token} stands for the harness's token.
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

// post is a request that creates a plant.
func post(body string, changes ...string) string {
	return message("POST /plants HTTP/1.1", body, changes...)
}

// chunked is the body in chunks of that many bytes.
func chunked(body string, size int) string {
	var out strings.Builder
	for len(body) > 0 {
		n := min(size, len(body))
		fmt.Fprintf(&out, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return out.String() + "0\r\n\r\n"
}

// answer is a whole answer as it came over the wire, but for its Date.
type answer struct {
	Status int
	Header http.Header
	Body   string
}

// madeID stands in an answer for a request id that the server made.
const madeID = "(32 hexadecimal digits)"

// answered is an answer in JSON. The headers come in pairs.
func answered(status int, body string, headers ...string) answer {
	h := http.Header{
		"Cache-Control": {"no-store"}, "Content-Length": {strconv.Itoa(len(body))}, "Content-Type": {"application/json"},
		"X-Content-Type-Options": {"nosniff"}, "X-Request-Id": {sentID},
	}
	return plus(answer{status, h, body}, headers...)
}

// plus is an answer with more headers, in pairs.
func plus(a answer, headers ...string) answer {
	a.Header = a.Header.Clone()
	for i := 0; i < len(headers); i += 2 {
		a.Header.Set(headers[i], headers[i+1])
	}
	return a
}

// closing is an answer after which the connection is closed.
func closing(a answer) answer { return plus(a, "Connection", "close") }

// created is the answer to a plant that is stored.
func created(body string, headers ...string) answer { return answered(200, body+"\n", headers...) }

// refused is an answer with the Error body; its status follows from the code.
func refused(code int, message string, headers ...string) answer {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(message) // cannot fail for a string
	return answered(
		code/100, fmt.Sprintf(`{"error":%d,"message":%s}`+"\n", code, strings.TrimSpace(text.String())), headers...,
	)
}

// code returns the number in an Error body.
func (a answer) code(t testing.TB) plant.Code {
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
}

func dial(t testing.TB, address string) *client {
	t.Helper()
	c, err := (&net.Dialer{Timeout: wait}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(wait)); err != nil {
		t.Fatal(err)
	}
	return &client{Conn: c, t: t, reader: bufio.NewReader(c)}
}

// write sends raw bytes. A server that has closed already is no fault.
func (c *client) write(raw string) { _, _ = c.Write([]byte(raw)) }

// done tells the server that no more comes.
func (c *client) done() { _ = c.Conn.(*net.TCPConn).CloseWrite() }

// read reads one answer, to a request of that method.
func (c *client) read(method string) answer {
	c.t.Helper()
	a, err := readAnswer(c.reader, method)
	if err != nil {
		c.t.Fatalf("read the answer: %v (so far %d %v %.200q)", err, a.Status, a.Header, a.Body)
	}
	return a
}

var hexID = regexp.MustCompile(`^[0-9a-f]{32}$`)

func readAnswer(r *bufio.Reader, method string) (a answer, err error) {
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
	if _, err := http.ParseTime(a.Header.Get("Date")); err != nil {
		return a, fmt.Errorf("date: %w", err)
	}
	a.Header.Del("Date")
	if id := a.Header.Get("X-Request-Id"); hexID.MatchString(id) {
		a.Header.Set("X-Request-Id", madeID)
	}
	length := a.Header.Get("Content-Length")
	if method == http.MethodHead || a.Status == http.StatusNoContent || a.Status == http.StatusNotModified {
		return a, nil
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

// closed fails the test unless the server closes the connection without
// another byte.
func (c *client) closed() {
	c.t.Helper()
	rest, err := io.ReadAll(c.reader)
	var timeout net.Error
	if len(rest) > 0 || errors.As(err, &timeout) && timeout.Timeout() {
		c.t.Errorf("after the answer: got %q, %v, want the connection closed", rest, err)
	}
}

// same compares whole answers.
func same(t testing.TB, got, want answer) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

// conversation is a row of a table: one request over a connection of its own,
// and the whole answer.
type conversation struct {
	name string
	in   string
	want answer
}

// converse runs the rows at once, and returns when all are done.
func converse(t *testing.T, h *harness, rows []conversation) {
	t.Helper()
	t.Run("rows", func(t *testing.T) {
		for _, row := range rows {
			t.Run(row.name, func(t *testing.T) {
				t.Parallel()
				same(t, h.on(t).send(row.in), row.want)
			})
		}
	})
}
