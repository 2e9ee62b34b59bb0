package client

import (
	"context"
	"errors"
	"io"
	"net"
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
