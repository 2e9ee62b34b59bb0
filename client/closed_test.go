//go:build unix

package client

import (
	"bufio"
	"io"
	"net"
	"runtime"
	"testing"
	"time"
)

// TestClosed tests an idle connection that is open, that has data, and that the server has closed.
func TestClosed(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		do   func(net.Conn) error
		want bool
	}{
		"open":   {func(net.Conn) error { return nil }, false},
		"data":   {func(c net.Conn) error { _, err := io.WriteString(c, "x"); return err }, true},
		"closed": {net.Conn.Close, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			dialed, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer dialed.Close()
			accepted, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer accepted.Close()
			if err := row.do(accepted); err != nil {
				t.Fatal(err)
			}
			c := &conn{Conn: dialed, reader: bufio.NewReader(dialed)}
			got := c.closed()
			for start := time.Now(); !got && row.want && time.Since(start) < time.Minute; { // the kernel may deliver it later
				runtime.Gosched()
				got = c.closed()
			}
			if got != row.want {
				t.Errorf("got %v, want %v", got, row.want)
			}
			if _, err := dialed.Write([]byte("x")); !row.want && err != nil {
				t.Errorf("the connection cannot be used afterwards: %v", err)
			}
		})
	}
}
