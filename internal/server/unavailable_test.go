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

	"plantstore/internal/server"
	"plantstore/internal/store"
)

// faulty is the real engine, but for what a test has it do instead.
type faulty struct {
	store.Engine
	insert atomic.Pointer[func(ctx context.Context, batch []store.Create) ([]store.Outcome, error)]
	state  atomic.Pointer[func(ctx context.Context) (store.State, error)]
}

func (f *faulty) Insert(ctx context.Context, batch []store.Create) ([]store.Outcome, error) {
	if insert := f.insert.Load(); insert != nil {
		return (*insert)(ctx, batch)
	}
	return f.Engine.Insert(ctx, batch)
}

func (f *faulty) State(ctx context.Context) (store.State, error) {
	if state := f.state.Load(); state != nil {
		return (*state)(ctx)
	}
	return f.Engine.State(ctx)
}

// onInsert has the engine do something else; nil: what it really does.
func (f *faulty) onInsert(insert func(ctx context.Context, batch []store.Create) ([]store.Outcome, error)) {
	f.insert.Store(&insert)
	if insert == nil {
		f.insert.Store(nil)
	}
}

func startFaulty(t testing.TB, change ...func(*setup)) (*harness, *faulty) {
	f := &faulty{}
	return start(t, append(change, func(s *setup) {
		s.wrap = func(real store.Engine) store.Engine {
			f.Engine = real
			return f
		}
	})...), f
}

// gate holds the engine at an insert.
type gate struct {
	entered chan int      // how many plants there are in a batch that came
	release chan struct{} // closed by open: every batch goes on
	open    func()
	done    chan error // what became of a batch
}

// hold has the engine stop at each insert until the gate is opened, which is
// when the test ends at the latest.
func (f *faulty) hold(t testing.TB) *gate {
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
	textFull        = "the queue is full; the plant was not stored: send it again"
	textShutting    = "the store is shutting down; the plant was not stored: send it again"
	textNotKnown    = "the outcome is unknown: the plant may be stored; send it again, a plant is never created twice"
	textUnavailable = "the store cannot write now; the plant was not stored: send it again"
	textDiskFull    = "the store's disk is full; the plant was not stored: send it again later"
	textHeld        = "a move makes the store read-only; the plant was not stored: send it again"
	textNoTokens    = "the store cannot check credentials now; nothing was stored: send the request again"
	textDefect      = "internal error; the log of the server has the cause under the request id"
)

// later is an answer that asks to come again.
func later(code int, text string, headers ...string) answer {
	return refused(code, text, append(headers, "Retry-After", "1")...)
}

func TestEngineFails(t *testing.T) {
	t.Parallel()
	detail := errors.New("pwrite /var/lib/plants.db: secret detail")
	for _, row := range []struct {
		name   string
		err    error
		stores bool // the plant, before it fails
		want   answer
	}{
		{"outcome unknown, stored", store.ErrOutcomeUnknown, true, later(50303, textNotKnown)},
		{"outcome unknown, not stored", store.ErrOutcomeUnknown, false, later(50303, textNotKnown)},
		{"disk full", store.ErrFull, false, later(50305, textDiskFull)},
		{"held", store.ErrReadOnly, false, later(50306, textHeld)},
		{"busy", store.ErrBusy, false, later(50304, textUnavailable)},
		{"given up", context.DeadlineExceeded, false, later(50304, textUnavailable)},
		{"anything", os.ErrPermission, false, later(50304, textUnavailable)},
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
			same(t, h.send(message("GET /healthz HTTP/1.1", "")), answered(200, `{"status":"ready"}`+"\n"))
			if !strings.Contains(h.log.string(), detail.Error()) {
				t.Error("the cause is not in the log")
			}
			f.onInsert(nil) // the fault has passed: sent again, the plant is there once
			want := created(`{"name":"A"}`)
			if row.stores {
				want = created(`{"name":"A"}`, "Idempotent-Replayed", "true")
			}
			same(t, h.send(post(body)), want)
		})
	}
}

func TestEngineBreaks(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		err  error
		want answer
	}{
		"before the commit": {store.ErrBroken, later(50304, textUnavailable)},
		"at the commit":     {errors.Join(store.ErrOutcomeUnknown, store.ErrBroken), later(50303, textNotKnown)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, f := startFaulty(t)
			f.onInsert(func(context.Context, []store.Create) ([]store.Outcome, error) { return nil, row.err })
			same(t, h.send(post(`{"id":1,"name":"A"}`)), row.want)
			select {
			case <-h.store.Broken():
			case <-time.After(wait):
				t.Fatal("the store does not say that it is broken")
			}
			f.onInsert(nil) // it must not be used again all the same
			same(t, h.send(post(`{"id":2,"name":"A"}`)), later(50304, textUnavailable))
			h.notStored(2)
			broken := later(50304, "the store failed; see the log")
			same(t, h.send(message("GET /healthz HTTP/1.1", "")), broken)
			same(t, h.sendTo(h.admin, message("GET /readyz HTTP/1.1", "")), broken)
			same(t, h.sendTo(h.admin, message("GET /livez HTTP/1.1", "")), answered(200, `{"status":"alive"}`+"\n"))
		})
	}
}

func TestSlowCommit(t *testing.T) {
	t.Parallel()
	t.Run("longer than a commit may take", func(t *testing.T) {
		t.Parallel()
		h, f := startFaulty(t, func(s *setup) { s.queue.CommitTime = 50 * time.Millisecond })
		f.onInsert(func(ctx context.Context, _ []store.Create) ([]store.Outcome, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("%w: %w", store.ErrBusy, context.Cause(ctx))
		})
		same(t, h.send(post(`{"id":1,"name":"A"}`)), later(50304, textUnavailable))
	})
	t.Run("longer than an answer may take", func(t *testing.T) {
		t.Parallel()
		h, f := startFaulty(t, func(s *setup) { s.queue.AnswerTimeout = 50 * time.Millisecond })
		g := f.hold(t)
		same(t, h.send(post(`{"id":1,"name":"A"}`)), later(50303, textNotKnown))
		g.open()
		if err := <-g.done; err != nil {
			t.Fatal(err)
		}
		h.stored(1) // the batch went on
	})
}

func TestQueueFull(t *testing.T) {
	t.Parallel()
	t.Run("plants", func(t *testing.T) {
		t.Parallel()
		h, f := startFaulty(t, func(s *setup) { s.queue.QueueMax = 1 })
		g := f.hold(t)
		answers := make(chan answer, 3)
		send := func(id int) {
			c := dial(t, h.public)
			c.write(h.fill(post(fmt.Sprintf(`{"id":%d,"name":"A"}`, id))))
			go func() { answers <- c.read("POST") }()
		}
		send(1)
		<-g.entered // it is being committed; one more may wait
		send(2)
		send(3)
		same(t, <-answers, later(50301, textFull))
		g.open()
		for range 2 {
			same(t, <-answers, created(`{"name":"A"}`))
		}
		if got := <-g.entered; got != 1 {
			t.Errorf("second batch: got %d plants, want 1", got)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		t.Parallel()
		h := start(t, func(s *setup) { s.queue.Bytes = 10 })
		same(t, h.send(post(`{"id":1,"name":"12345","tag":"678901"}`)), later(50301, textFull))
		h.notStored(1)
		same(t, h.send(post(`{"id":1,"name":"12345","tag":"67890"}`)), created(`{"name":"12345","tag":"67890"}`))
	})
}

func TestStoreShutsDown(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.store.Close()
	same(t, h.send(post(`{"id":1,"name":"A"}`)), later(50302, textShutting))
	h.notStored(1)
	closed := later(50304, "the store is shutting down")
	same(t, h.send(message("GET /healthz HTTP/1.1", "")), closed)
	same(t, h.sendTo(h.admin, message("GET /readyz HTTP/1.1", "")), closed)
	same(t, h.sendTo(h.admin, message("GET /livez HTTP/1.1", "")), answered(200, `{"status":"alive"}`+"\n"))
}

// Tokens that cannot be looked at for nearly a second are not relied on any
// more: one may have been revoked meanwhile.
func TestTokensCannotBeRead(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		state func(ctx context.Context) (store.State, error)
		want  answer
		level string
		cause string
	}{
		"error": {func(context.Context) (store.State, error) { return store.State{}, store.ErrBusy }, later(50304, textNoTokens), "INFO", ""},
		"panic": {func(ctx context.Context) (store.State, error) {
			if ctx.Value(http.ServerContextKey) != nil { // for a request, not for the store's watcher
				panic("a page of the index is torn")
			}
			return store.State{}, store.ErrBusy
		}, later(50001, textDefect), "ERROR", "panic: a page of the index is torn\ngoroutine "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, f := startFaulty(t)
			f.state.Store(&row.state)
			c, begun := dial(t, h.public), time.Now()
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			var got answer
			for i := 0; ; i++ { // while the last look is fresh, the token is good, and the body is missing
				sent := time.Now()
				c.write(h.fill(post("", fmt.Sprintf("X-Request-Id: try-%d", i))))
				if got = c.read("POST"); got.Status != 400 || sent.Sub(begun) > 2*time.Second {
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

// What no route does: a handler that panics, or has an error that is none of
// the catalogue. The client learns that there is a defect, the log the cause.
func TestDefects(t *testing.T) {
	t.Parallel()
	h := start(t)
	log := newLogBuffer()
	config := h.config
	config.Log = log.logger()
	l := h.listen("test", config.Log, prometheus.NewRegistry())
	h.run(server.NewServer(config, map[string]func(http.ResponseWriter, *http.Request) error{
		"/panic": func(http.ResponseWriter, *http.Request) error { panic("the cause") },
		"/nil":   func(_ http.ResponseWriter, r *http.Request) error { return r.Context().Value("none").(error) },
		"/error": func(http.ResponseWriter, *http.Request) error { return errors.New("the cause") },
		"/halfway": func(w http.ResponseWriter, _ *http.Request) error {
			_, _ = w.Write([]byte("the first half"))
			panic("the cause")
		},
		"/abort": func(http.ResponseWriter, *http.Request) error { panic(http.ErrAbortHandler) },
	}), l)
	for _, row := range []struct{ path, cause string }{
		{"/panic", "panic: the cause\ngoroutine "}, {"/nil", "panic: interface conversion: "}, {"/error", "the cause"},
	} {
		same(t, h.sendTo(l.Addr().String(), message("GET "+row.path+" HTTP/1.1", "", "X-Request-Id: "+row.path[1:])),
			later(50001, textDefect, "X-Request-Id", row.path[1:]))
		line := log.await(t, row.path[1:])
		if cause, _ := line["error"].(string); line["level"] != "ERROR" || !strings.HasPrefix(cause, row.cause) {
			t.Errorf("%s: log: got %v, want the cause", row.path, line)
		}
	}
	for _, path := range []string{"/halfway", "/abort"} {
		c := dial(t, l.Addr().String())
		c.write(message("GET "+path+" HTTP/1.1", "", "X-Request-Id: "+path[1:]))
		if a, err := readAnswer(c.reader, "GET"); err == nil {
			t.Errorf("%s: got %+v, want the answer broken off", path, a)
		}
	}
	if l := log.await(t, "halfway"); l["level"] != "ERROR" || l["status"] != 200.0 {
		t.Errorf("/halfway: log: got %v", l)
	}
}
