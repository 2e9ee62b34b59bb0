package s3

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestSlowConnection writes for longer than the limit to a peer that reads a piece shortly before each deadline. When
// the peer stops reading, the write fails.
func TestSlowConnection(t *testing.T) {
	t.Parallel()
	const stallMax, pieces, pieceBytes = time.Minute, 10, 16 << 10
	synctest.Test(t, func(t *testing.T) {
		near, peer := net.Pipe()
		defer near.Close()
		defer peer.Close()
		c := &stallingConn{near, stallMax}
		received := make(chan error, 1)
		pending := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1)) // as for the response; each piece moves its deadline
			pending <- err
		}()
		go func() {
			for range pieces {
				<-time.After(stallMax - time.Second)
				if _, err := io.ReadFull(peer, make([]byte, pieceBytes)); err != nil {
					received <- err
					return
				}
			}
			_, err := peer.Write([]byte("1"))
			received <- err
		}()
		if n, err := c.Write(make([]byte, pieces*pieceBytes)); n != pieces*pieceBytes || err != nil {
			t.Errorf("to a slow peer: %d bytes, %v", n, err)
		}
		if err := errors.Join(<-received, <-pending); err != nil {
			t.Error(err)
		}
		if _, err := c.Write([]byte("2")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("to a peer that reads nothing: %v, want %v", err, os.ErrDeadlineExceeded)
		}
	})
}

// TestServerDrips tests that each kind of request ends if the response has a byte now and then, and its end after an
// hour.
func TestServerDrips(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := openDripping(t)
		for name, row := range map[string]struct {
			request func() error
			want    string // in the error; a space at its end stands before the time
		}{
			"list": {func() error { _, err := b.List(t.Context(), ""); return err }, "did not end the list within "},
			"put": {
				func() error { return b.Put(t.Context(), "p-1", []byte("text")) },
				"the transfer of 4 bytes took longer than ",
			},
			"remove": {func() error { return b.Remove(t.Context(), "p-1") }, "the transfer of 0 bytes took longer than "},
			"remove two": {
				func() error { return b.Remove(t.Context(), "p-1", "p-2") },
				" bytes took longer than ",
			},
			"upload": {func() error {
				return b.Upload(t.Context(), "p-1", strings.NewReader("text"), 4, func(int64, int64) {}, func(string) error {
					return nil
				})
			}, "the transfer of 0 bytes took longer than "},
			"get": {func() error {
				r, err := b.Get(t.Context(), "p-1")
				if err == nil {
					_, err = io.Copy(io.Discard, r)
					err = errors.Join(err, r.Close())
				}
				return err
			}, " bytes took longer than "},
			"get a slow header": {func() error {
				r, err := b.Get(t.Context(), slowHeader)
				if err == nil {
					err = r.Close()
				}
				return err
			}, "timeout awaiting response headers"},
			"get a slow refusal": {func() error {
				_, err := b.Get(t.Context(), slowRefusal)
				return err
			}, " returned AccessDenied (403): Forbidden"},
		} {
			err := row.request()
			want := row.want
			if strings.HasSuffix(want, " ") {
				want += b.timeMax(0).String()
			}
			if err == nil || !strings.Contains(err.Error(), want) ||
				!strings.Contains(err.Error(), "the S3 server http://s3.example") {
				t.Errorf("%s: got %v, want %s", name, err, want)
			}
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
		return &stallingConn{near, b.stallMax}, nil
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
