package client

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"
)

// lateContext is a context whose timer has not ended it at its deadline yet.
type lateContext struct {
	context.Context
	deadline time.Time
}

// Deadline implements context.Context.
func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

// TestDeadlines tests the error of an attempt that ends at the deadline of the context, or at its own before that.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		ctx  time.Duration // until its deadline; the attempt ends after a second
		want bool
	}{
		"of the context": {time.Second, true},
		"of the attempt": {time.Second + 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := newPool(&url.URL{Scheme: "http", Host: "plants.example", Path: "/plants"}, nil)
				here, there := net.Pipe()
				p.dial = func(context.Context, string, string) (net.Conn, error) { return here, nil }
				go io.Copy(io.Discard, there) //nolint:errcheck // reads the request; ends when send closes the connection
				now := time.Now()
				_, err := p.send(lateContext{t.Context(), now.Add(row.ctx)}, &request{deadline: now.Add(time.Second)})
				timeout, ok := errors.AsType[net.Error](err)
				if !ok || !timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) != row.want {
					t.Errorf("got %#v", err)
				}
			})
		})
	}
}

// TestIdleClosed tests that the client closes an idle connection when the server has closed it, without a further
// create.
func TestIdleClosed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := newPool(&url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/plants"}, nil)
	defer p.close()
	ended := make(chan error, 1)
	go func() { ended <- respondAndClose(l) }() // the test waits for it
	if _, err := p.send(t.Context(), &request{deadline: time.Now().Add(time.Minute)}); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the client has not closed its end: %v", err)
	}
}

// respondAndClose responds to a request, closes its end of the connection and waits for the end of the client.
func respondAndClose(l net.Listener) error {
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
		return err
	}
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		return err
	}
	if err := c.(*net.TCPConn).CloseWrite(); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, c)
	return err
}

// TestIdleTime tests that the client closes a connection that was idle for long, without a further create.
func TestIdleTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPool(&url.URL{Scheme: "http", Host: "plants.example", Path: "/plants"}, nil)
		here, there := net.Pipe()
		p.put(&conn{Conn: here})
		put := time.Now()
		if _, err := there.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		if idle := time.Since(put); idle < idleTime || idle > idleTime+sweepEvery {
			t.Errorf("closed after %s", idle)
		}
	})
}
