package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"
)

// keptConn is a persistent connection of a client.
type keptConn struct {
	net.Conn
	in *bufio.Reader
}

func dialKept(address string) (*keptConn, error) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &keptConn{Conn: c, in: bufio.NewReader(c)}, nil
}

// reply is a response on a keptConn.
type reply struct {
	status int
	header http.Header
	body   string
}

func (c *keptConn) send(method, path, token, body string) (reply, error) {
	request := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		method, path, c.RemoteAddr(), token, len(body), body)
	if err := c.SetDeadline(time.Now().Add(waitMax)); err != nil {
		return reply{}, err
	}
	if _, err := io.WriteString(c, request); err != nil {
		return reply{}, err
	}
	response, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return reply{}, err
	}
	text, err := io.ReadAll(response.Body)
	return reply{response.StatusCode, response.Header, string(text)}, errors.Join(err, response.Body.Close())
}

// mustDial dials and sends a first request, so that the server has accepted the connection.
func mustDial(t *testing.T, address, path string) *keptConn {
	t.Helper()
	c, err := dialKept(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.want(t, http.StatusOK, "GET", path, "", "")
	return c
}

func (c *keptConn) want(t *testing.T, status int, method, path, token, body string) reply {
	t.Helper()
	var got reply
	err := within(waitMax, func() (_ bool, err error) {
		got, err = c.send(method, path, token, body)
		return !asksAgain(got.body), err
	})
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	if got.status != status {
		t.Fatalf("%s %s: got %d %s, want %d", method, path, got.status, got.body, status)
	}
	return got
}
