package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/listen"
	"plantstore/internal/server"
	"plantstore/internal/store"
	"plantstore/internal/writepath"
)

// faultyEngine is an engine with functions that a test can replace.
type faultyEngine struct {
	writepath.Engine
	insert atomic.Pointer[func(ctx context.Context, batch []store.Create) ([]store.Outcome, error)]
	state  atomic.Pointer[func(ctx context.Context) (store.State, error)]
}

func (f *faultyEngine) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	if insert := f.insert.Load(); insert != nil {
		return (*insert)(ctx, batch)
	}
	return f.Engine.Insert(ctx, batch)
}

func (f *faultyEngine) State(ctx context.Context) (store.State, error) {
	if state := f.state.Load(); state != nil {
		return (*state)(ctx)
	}
	return f.Engine.State(ctx)
}

// onInsert replaces Insert; nil restores it.
func (f *faultyEngine) onInsert(insert func(ctx context.Context, batch []store.Create) ([]store.Outcome, error)) {
	f.insert.Store(&insert)
	if insert == nil {
		f.insert.Store(nil)
	}
}

func startFaulty(t testing.TB, change ...func(*setup)) (*harness, *faultyEngine) {
	f := &faultyEngine{}
	return start(t, append(change, func(s *setup) {
		s.wrap = func(e writepath.Engine) writepath.Engine {
			f.Engine = e
			return f
		}
	})...), f
}

// gate blocks the engine at Insert.
type gate struct {
	entered chan int      // receives the number of plants of each batch
	release chan struct{} // closed by open: every Insert continues
	open    func()
	done    chan error // receives the error of each Insert
}

// block blocks each Insert until the test calls open or ends.
func (f *faultyEngine) block(t testing.TB) *gate {
	g := &gate{entered: make(chan int, 100), release: make(chan struct{}), done: make(chan error, 100)}
	g.open = sync.OnceFunc(func() { close(g.release) })
	t.Cleanup(g.open)
	f.onInsert(func(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
		g.entered <- len(batch)
		<-g.release
		outcomes, err := f.Engine.Insert(ctx, batch)
		g.done <- err
		return outcomes, err
	})
	return g
}

const (
	textQueueFull      = "the plant was not stored because the queue is full; send it again"
	textShutting       = "the plant was not stored because the server is shutting down; send it again"
	textUnknownOutcome = "the outcome is unknown and the plant may be stored; " +
		"send it again, a retry never creates a second plant"
	textUnavailable = "the plant was not stored because the store cannot write now; send it again"
	textDiskFull    = "the plant was not stored because the disk of the store is full; " +
		"send it again when the disk has free space"
	textNoTokens = "nothing was stored because the store cannot check credentials now; send the request again"
	textInternal = "internal error; the log of the server has the cause under the request id"
)

// retryable returns an error response with Retry-After.
func retryable(code int, text string, headers ...string) response {
	return refused(code, text, append(headers, "Retry-After", "1")...)
}

func TestEngineFails(t *testing.T) {
	t.Parallel()
	detail := errors.New("pwrite /var/lib/plants.db: secret detail")
	for _, row := range []struct {
		name   string
		err    error
		stores bool // store the plant before the error
		want   response
	}{
		{"outcome unknown, stored", store.ErrOutcomeUnknown, true, retryable(50303, textUnknownOutcome)},
		{"outcome unknown, not stored", store.ErrOutcomeUnknown, false, retryable(50303, textUnknownOutcome)},
		{"disk full", store.ErrFull, false, retryable(50305, textDiskFull)},
		{"busy", store.ErrBusy, false, retryable(50304, textUnavailable)},
		{"deadline exceeded", context.DeadlineExceeded, false, retryable(50304, textUnavailable)},
		{"other error", os.ErrPermission, false, retryable(50304, textUnavailable)},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			h, f := startFaulty(t)
			f.onInsert(func(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
				if row.stores {
					if _, err := f.Engine.Insert(ctx, batch); err != nil {
						t.Error(err)
					}
				}
				return nil, fmt.Errorf("%w: %w", row.err, detail)
			})
			const body = `{"id":1,"name":"A"}`
			same(t, h.send(post(body)), row.want)
			same(t, h.send(message("GET /healthz HTTP/1.1", "")), jsonResponse(200, `{"status":"ready"}`+"\n"))
			if !strings.Contains(h.log.string(), detail.Error()) {
				t.Error("the cause is not in the log")
			}
			f.onInsert(nil) // a retry after the fault stores the plant once
			want := created(`{"name":"A"}`)
			if row.stores {
				want = created(`{"name":"A"}`, "Idempotent-Replayed", "true")
			}
			same(t, h.send(post(body)), want)
		})
	}
}

// TestStandby shows that a server whose plants another one accepts refuses each create, also one with a token that only
// the other one has yet: the response of that one is final. A client with a known token is not limited as one without.
func TestStandby(t *testing.T) {
	t.Parallel()
	behind := fmt.Errorf("%w of the server on plants1.example, 0.8 s behind", store.ErrStandby)
	const want = "the plant was not stored because this server is a standby; " +
		"make changes at the server that accepts plants"
	h := start(t, func(s *setup) { s.mayAccept = func() error { return behind } })
	for name, request := range map[string]string{
		"plant":         post(`{"id":1,"name":"A"}`),
		"unknown token": post(`{"id":1,"name":"A"}`, "-Authorization", "+Authorization: Bearer "+strings.Repeat("x", 40)),
	} {
		t.Run(name, func(t *testing.T) { same(t, h.withT(t).send(request), retryable(50304, want)) })
	}
	for range 2 * networkUnits {
		same(t, h.send(post(`{"id":1,"name":"A"}`)), retryable(50304, want))
	}
	if n := h.limited(t); n != 0 {
		t.Errorf("%d connections were limited", n)
	}
	h.notStored(1)
	same(t, h.send(message("GET /healthz HTTP/1.1", "")), retryable(50304, "standby"))
	same(t, h.sendTo(h.admin, message("GET /readyz HTTP/1.1", "")), retryable(50304, behind.Error()))
}

// TestFencedInPublic shows no client which host has taken over.
func TestFencedInPublic(t *testing.T) {
	t.Parallel()
	fenced := fmt.Errorf("%w: the server on plants1.example took over", store.ErrNotOwner)
	h := start(t, func(s *setup) { s.mayAccept = func() error { return fenced } })
	same(t, h.send(message("GET /healthz HTTP/1.1", "")), retryable(50304, store.ErrNotOwner.Error()))
	same(t, h.sendTo(h.admin, message("GET /readyz HTTP/1.1", "")), retryable(50304, fenced.Error()))
}

func TestEngineBreaks(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		err  error
		want response
	}{
		"before the commit": {store.ErrBroken, retryable(50304, textUnavailable)},
		"at the commit": {
			errors.Join(store.ErrOutcomeUnknown, store.ErrBroken), retryable(50303, textUnknownOutcome),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, f := startFaulty(t)
			f.onInsert(func(context.Context, []store.Create) ([]store.Outcome, error) { return nil, row.err })
			same(t, h.send(post(`{"id":1,"name":"A"}`)), row.want)
			select {
			case <-h.writePath.Broken():
			case <-time.After(wait):
				t.Fatal("the store did not report that it is broken")
			}
			f.onInsert(nil) // the store must not use the engine again
			same(t, h.send(post(`{"id":2,"name":"A"}`)), retryable(50304, textUnavailable))
			h.notStored(2)
			broken := retryable(50304, "the store failed; see the log")
			same(t, h.send(message("GET /healthz HTTP/1.1", "")), broken)
			same(t, h.sendTo(h.admin, message("GET /readyz HTTP/1.1", "")), broken)
			same(t, h.sendTo(h.admin, message("GET /livez HTTP/1.1", "")), jsonResponse(200, `{"status":"alive"}`+"\n"))
		})
	}
}

func TestSlowCommit(t *testing.T) { overBoth(t, testSlowCommit) }

func testSlowCommit(t *testing.T, over func(*setup)) {
	t.Run("timeout of the commit", func(t *testing.T) {
		t.Parallel()
		h, f := startFaulty(t, over, func(s *setup) { s.queue.CommitTimeout = 50 * time.Millisecond })
		f.onInsert(func(ctx context.Context, _ []store.Create) ([]store.Outcome, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("%w: %w", store.ErrBusy, context.Cause(ctx))
		})
		same(t, h.send(post(`{"id":1,"name":"A"}`)), retryable(50304, textUnavailable))
	})
	t.Run("timeout of the response", func(t *testing.T) {
		t.Parallel()
		h, f := startFaulty(t, over, func(s *setup) { s.queue.AnswerTimeout = 50 * time.Millisecond })
		g := f.block(t)
		same(t, h.send(post(`{"id":1,"name":"A"}`)), retryable(50303, textUnknownOutcome))
		g.open()
		if err := <-g.done; err != nil {
			t.Fatal(err)
		}
		h.stored(1) // the timeout did not cancel the commit
	})
}

func TestQueueFull(t *testing.T) { overBoth(t, testQueueFull) }

func testQueueFull(t *testing.T, over func(*setup)) {
	t.Run("plants", func(t *testing.T) {
		t.Parallel()
		h, f := startFaulty(t, over, func(s *setup) { s.queue.QueueMax = 1 })
		g := f.block(t)
		responses := make(chan response, 3)
		send := func(id int) {
			c := h.dial(t, h.public)
			c.write(h.fill(post(fmt.Sprintf(`{"id":%d,"name":"A"}`, id))))
			go func() { responses <- c.read("POST") }()
		}
		send(1)
		<-g.entered // the commit of the first plant runs; one more may wait
		send(2)
		send(3)
		same(t, <-responses, retryable(50301, textQueueFull))
		g.open()
		for range 2 {
			same(t, <-responses, created(`{"name":"A"}`))
		}
		if got := <-g.entered; got != 1 {
			t.Errorf("second batch: got %d plants, want 1", got)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		t.Parallel()
		h := start(t, over, func(s *setup) { s.queue.Bytes = 10 })
		same(t, h.send(post(`{"id":1,"name":"12345","tag":"678901"}`)), retryable(50301, textQueueFull))
		h.notStored(1)
		same(t, h.send(post(`{"id":1,"name":"12345","tag":"67890"}`)), created(`{"name":"12345","tag":"67890"}`))
	})
}

func TestStoreShutsDown(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.writePath.Close()
	same(t, h.send(post(`{"id":1,"name":"A"}`)), retryable(50302, textShutting))
	h.notStored(1)
	closed := retryable(50304, "the store is shutting down")
	same(t, h.send(message("GET /healthz HTTP/1.1", "")), closed)
	same(t, h.sendTo(h.admin, message("GET /readyz HTTP/1.1", "")), closed)
	same(t, h.sendTo(h.admin, message("GET /livez HTTP/1.1", "")), jsonResponse(200, `{"status":"alive"}`+"\n"))
}

// The store does not use a keyring that it could not check for almost a second, because a token may have been revoked
// since then.
func TestUncheckedKeyring(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		state func(ctx context.Context) (store.State, error)
		want  response
		level string
		cause string
	}{
		"error": {
			func(context.Context) (store.State, error) { return store.State{}, store.ErrBusy },
			retryable(50304, textNoTokens), "INFO", "",
		},
		"panic": {func(ctx context.Context) (store.State, error) {
			if ctx.Value(http.ServerContextKey) != nil { // called by a request, not by the watcher
				panic("a page of the index is torn")
			}
			return store.State{}, store.ErrBusy
		}, retryable(50001, textInternal), "ERROR", "panic: a page of the index is torn\ngoroutine "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, f := startFaulty(t)
			f.state.Store(&row.state)
			c, late := h.dial(t, h.public), time.Now().Add(wait)
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			var got response
			for i := 0; ; i++ { // 400 for the missing body until the keyring is too old
				c.write(h.fill(post("", fmt.Sprintf("X-Request-Id: try-%d", i))))
				if got = c.read("POST"); got.Status != 400 || time.Now().After(late) {
					break
				}
				<-tick.C
			}
			id := got.Header.Get("X-Request-Id")
			row.want.Header.Set("X-Request-Id", id)
			same(t, got, row.want)
			l := h.log.await(t, id)
			cause, _ := l["error"].(string)
			if l["level"] != row.level || !strings.HasPrefix(cause, row.cause) || row.cause == "" && cause != "" {
				t.Errorf("log: got %v, want level %s and the error %q", l, row.level, row.cause)
			}
		})
	}
}

// A panic or an error that is not a *plant.Error is a defect. The client receives 50001, the log has the cause.
func TestDefects(t *testing.T) {
	t.Parallel()
	h := start(t)
	log := newLogBuffer()
	config := h.config
	config.Log = log.logger()
	l := h.listen("test", config.Log, prometheus.NewRegistry(), listen.Limits{})
	h.run(server.NewServer(config, map[string]server.HandlerFunc{
		"/panic": func(*server.Call) error { panic("the cause") },
		"/nil":   func(c *server.Call) error { return c.Context().Value("none").(error) },
		"/error": func(*server.Call) error { return errors.New("the cause") },
		"/halfway": func(c *server.Call) error {
			_, _ = c.Write([]byte("the first half"))
			panic("the cause")
		},
		"/part": func(c *server.Call) error {
			_, _ = c.Write([]byte("plant"))
			panic(http.ErrAbortHandler)
		},
		"/abort": func(*server.Call) error { panic(http.ErrAbortHandler) },
	}), l)
	for _, row := range []struct{ path, cause string }{
		{"/panic", "panic: the cause\ngoroutine "}, {"/nil", "panic: interface conversion: "}, {"/error", "the cause"},
	} {
		same(t, h.sendTo(l.Addr().String(), message("GET "+row.path+" HTTP/1.1", "", "X-Request-Id: "+row.path[1:])),
			retryable(50001, textInternal, "X-Request-Id", row.path[1:]))
		line := log.await(t, row.path[1:])
		if cause, _ := line["error"].(string); line["level"] != "ERROR" || !strings.HasPrefix(cause, row.cause) {
			t.Errorf("%s: log: got %v, want the cause", row.path, line)
		}
	}
	for _, path := range []string{"/halfway", "/part", "/abort"} {
		c := dial(t, l.Addr().String())
		c.write(message("GET "+path+" HTTP/1.1", "", "X-Request-Id: "+path[1:]))
		if a, err := readResponse(c.reader, "GET"); err == nil {
			t.Errorf("%s: got %+v, want an aborted response", path, a)
		}
	}
	for id, want := range map[string]line{
		"halfway": {"level": "ERROR", "status": 200.0, "bytes": 14.0},
		"part":    {"level": "INFO", "status": 200.0, "bytes": 5.0},
		"abort":   {"level": "INFO", "status": 0.0, "bytes": 0.0},
	} {
		got := log.await(t, id)
		for key, value := range want {
			if got[key] != value || got["aborted"] != true {
				t.Errorf("%s: log: got %v, want %v", id, got, want)
			}
		}
	}
}
