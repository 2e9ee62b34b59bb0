package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// The server reads the PROXY header of a trusted proxy, and logs the address of its client.
func TestProxyProtocol(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir()+"/a.db", "--proxy-protocol", "--trusted-proxies", "192.0.2.1,127.0.0.1")
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const request = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
	if _, err := io.WriteString(c, "PROXY TCP4 192.0.2.7 192.0.2.1 6789 8080\r\n"+request); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(waitMax))
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _ = response.Body.Close(); response.StatusCode != http.StatusOK {
		t.Errorf("got %s, want 200", response.Status)
	}
	if _, err := s.await(s.stderr, `path=/healthz client=192\.0\.2\.7 `); err != nil {
		t.Error(err)
	}
	s.stop(t)
}
