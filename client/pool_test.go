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
// create. TestIdleTime shows that a timer calls sweep.
func TestIdleClosed(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p := newPool(&url.URL{Scheme: "http", Host: l.Addr().String(), Path: "/plants"}, nil)
	defer p.close()
	var server net.Conn
	responded := make(chan error, 1)
	go func() { // the test waits for it
		var err error
		server, err = respondAndClose(l)
		responded <- err
	}()
	_, err = p.send(t.Context(), &request{deadline: time.Now().Add(time.Minute)})
	if err := errors.Join(err, <-responded); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	p.mu.Lock()
	for _, c := range p.idle {
		c.idleAt = time.Now().Add(-checkAfter) // so that only the check can close it
	}
	p.mu.Unlock()
	p.sweep()
	p.mu.Lock()
	idle := len(p.idle)
	p.mu.Unlock()
	if idle != 0 {
		t.Fatal("the client has not closed its end")
	}
	if _, err := io.Copy(io.Discard, server); err != nil {
		t.Error(err)
	}
}

// respondAndClose responds to a request and closes its end of the connection, which it returns.
func respondAndClose(l net.Listener) (c net.Conn, err error) {
	if c, err = l.Accept(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = c.Close()
		}
	}()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
		return nil, err
	}
	return c, c.(*net.TCPConn).CloseWrite()
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
