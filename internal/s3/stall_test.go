package s3

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestServerStalls sends an object to a server that reads nothing. Each attempt ends.
func TestServerStalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, err := Open(Config{Endpoint: "http://s3.example"}, "nursery-backups")
		if err != nil {
			t.Fatal(err)
		}
		b.client.Transport.(*http.Transport).DialContext = func(context.Context, string, string) (net.Conn, error) {
			near, peer := net.Pipe()
			t.Cleanup(func() { _ = peer.Close() })
			return near, nil
		}
		begun := time.Now()
		err = b.Put(t.Context(), "p-1", make([]byte, 1<<20))
		limit := timeMax(1 << 20)
		if took := time.Since(begun); took < attemptsMax*limit || took > attemptsMax*(limit+delayMax) ||
			err == nil || !strings.HasSuffix(err.Error(), errSlow.Error()) {
			t.Errorf("got %v after %v, want %d times %v", err, took, attemptsMax, limit)
		}
	})
}

// TestServerDrips tests that each kind of request ends if the response has a byte now and then, and its end after an
// hour.
func TestServerDrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := openDripping(t)
		for name, call := range map[string]func() error{
			"list":       func() error { _, err := b.List(t.Context(), ""); return err },
			"put":        func() error { return b.Put(t.Context(), "p-1", []byte("text")) },
			"remove":     func() error { return b.Remove(t.Context(), "p-1") },
			"remove two": func() error { return b.Remove(t.Context(), "p-1", "p-2") },
			"upload": func() error {
				return b.Upload(t.Context(), "p-1", strings.NewReader("text"), 4, func(int64, int64) {},
					func(string) error { return nil })
			},
			"get":               func() error { _, err := b.Get(t.Context(), "p-1"); return err },
			"get a slow header": func() error { _, err := b.Get(t.Context(), slowHeader); return err },
		} {
			want := "no response of the S3 server http://s3.example: " + errSlow.Error()
			if err := call(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %s", name, err, want)
			}
		}
		_, err := b.Get(t.Context(), slowRefusal)
		if want := " returned AccessDenied (403): Forbidden"; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a slow refusal: got %v, want %s", err, want)
		}
	})
}

const (
	slowHeader  = "slow-header"  // an object whose response has no header for an hour
	slowRefusal = "slow-refusal" // an object whose response has the status 403
)

// openDripping returns a bucket of a server in the bubble that sends a byte of each response a second for an hour.
func openDripping(t *testing.T) *Bucket {
	t.Helper()
	return openServed(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		to, flush := io.Writer(w), control.Flush
		if strings.HasSuffix(r.URL.Path, slowHeader) {
			c, _, err := control.Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			to, flush = c, func() error { return nil }
		}
		if strings.HasSuffix(r.URL.Path, slowRefusal) {
			w.WriteHeader(http.StatusForbidden)
		}
		for range 3600 { // or until the client closes the connection
			_, err := io.WriteString(to, " ")
			if err := errors.Join(err, flush()); err != nil {
				return
			}
			<-time.After(time.Second)
		}
	})
}

// openServed returns a bucket of a server in the bubble.
func openServed(t *testing.T, serve http.HandlerFunc) *Bucket {
	t.Helper()
	b, err := Open(Config{Endpoint: "http://s3.example"}, "nursery-backups")
	if err != nil {
		t.Fatal(err)
	}
	l := pipes{make(chan net.Conn), make(chan struct{})}
	var handlers sync.WaitGroup
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers.Add(1)
		defer handlers.Done()
		serve(w, r)
	})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }() // the test waits for it
	transport := b.client.Transport.(*http.Transport)
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
		near, peer := net.Pipe()
		l.conns <- peer
		return near, nil
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
		handlers.Wait()
	})
	return b
}

// pipes is a listener of connections in the bubble.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{} // closed by Close, which the server calls once
}

// Accept implements net.Listener.
func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p pipes) Close() error {
	close(p.closed)
	return nil
}

// Addr implements net.Listener.
func (pipes) Addr() net.Addr { return &net.TCPAddr{} }
