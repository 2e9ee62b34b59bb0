package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"plantstore/internal/server"
)

// pipes is a listener whose connections are pipes in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { close(p); return nil }

func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, accepted := net.Pipe()
	p <- accepted
	return client, nil
}

// receive starts a server in the bubble of the test. It returns a client.
func receive(t *testing.T, handler http.HandlerFunc) *http.Client {
	t.Helper()
	l := make(pipes)
	s := http.Server{Handler: handler}
	ended := make(chan error)
	go func() { ended <- s.Serve(l) }() // ends with Close
	transport := &http.Transport{DialContext: l.dial}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = s.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return &http.Client{Transport: transport}
}

// upload is for the handler of a request.
func upload(t *testing.T, w http.ResponseWriter, r *http.Request) *server.Upload {
	t.Helper()
	u, err := (&server.Call{Request: r, ResponseWriter: w}).NewUpload(server.UploadLimits{Bytes: 1 << 20, Idle: wait})
	if err != nil {
		t.Error(err)
	}
	return u
}

// put sends a request. It returns true if its response is the last one of the connection.
func put(t *testing.T, c *http.Client, body io.Reader) (closes bool) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://plants.example/", body)
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("got %+v", res)
	}
	return res.Close
}

// lateContext delays a function of context.AfterFunc until release is closed.
type lateContext struct {
	context.Context //nolint:containedctx // it is wrapped

	late    atomic.Bool
	release chan struct{}
}

func (c *lateContext) Value(key any) any {
	if c.late.Load() {
		<-c.release
	}
	return c.Context.Value(key)
}

// The end of the context of an upload may take effect after the handler. It then affects no other request.
func TestUploadEndsAfterItsHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := receive(t, func(w http.ResponseWriter, r *http.Request) {
			u := upload(t, w, r)
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			late := &lateContext{Context: ctx, release: release}
			body := u.Within(u)(late)
			late.late.Store(true)
			cancel()
			if err := body.Close(); err != nil {
				t.Error(err)
			}
			u.End()
		})
		body, writer := io.Pipe()
		defer writer.Close()
		put(t, c, body)
		synctest.Wait() // the handler has returned
		close(release)
		synctest.Wait()
		put(t, c, http.NoBody)
	})
}

// lastRead calls a function when the end of the body has arrived, before the upload knows it.
type lastRead struct {
	io.ReadCloser

	arrived func()
}

func (b lastRead) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.arrived()
	}
	return n, err
}

// The end of the context may end the read with which net/http detects a disconnect. The connection then has no further
// requests, because their contexts would have ended.
func TestUploadEndsWithItsBody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		c := receive(t, func(w http.ResponseWriter, r *http.Request) {
			if requests++; requests > 1 {
				if err := r.Context().Err(); err != nil {
					t.Errorf("the context of the next request ended: %v", err)
				}
				return
			}
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			r.Body = lastRead{r.Body, func() {
				cancel()
				synctest.Wait()
			}}
			u := upload(t, w, r)
			body := u.Within(u)(ctx)
			if got, err := io.ReadAll(body); string(got) != "id,name\n" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
			_ = body.Close()
			u.End()
		})
		for i, want := range []bool{true, false} {
			if got := put(t, c, strings.NewReader("id,name\n")); got != want {
				t.Errorf("response %d ends the connection: %t", i, got)
			}
		}
	})
}
