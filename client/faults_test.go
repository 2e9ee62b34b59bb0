package client_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"plantstore/client"
)

// reply responds to the attempt of a script that it belongs to.
type reply func(c net.Conn)

func text(response string) reply {
	return func(c net.Conn) { _, _ = io.WriteString(c, strings.ReplaceAll(response, "\n", "\r\n")) }
}

func status(line, header, body string) reply { return text(message(line, header, body)) }

func message(line, header, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\n%sContent-Length: %d\n\n%s", line, header, len(body), body)
}

func hangUp(c net.Conn) { _ = c.Close() }

func reset(c net.Conn) {
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

var (
	created = status("200 OK", "Content-Type: application/json\n", `{"name":"Acer"}`)
	full    = text(queueFull)
	unknown = status("503 Service Unavailable", "", `{"error":50303,"message":"unknown"}`)
	gateway = status("502 Bad Gateway", "Content-Type: text/html\n", "<h1>Bad Gateway</h1>")
)

var queueFull = message("503 Service Unavailable", "Retry-After: 0\n", `{"error":50301,"message":"the queue is full"}`)

// scripted is a server with a reply for each attempt. It fails the test if there are more or fewer.
type scripted struct {
	net.Listener
	attempts atomic.Int64
	conns    atomic.Int64
}

func newScripted(t *testing.T, replies ...reply) *scripted {
	t.Helper()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{Listener: inner}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := s.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			t.Cleanup(func() { _ = c.Close() })
			serving.Go(func() { s.serve(t, c, replies) })
		}
	})
	t.Cleanup(func() {
		_ = s.Close()
		if n := s.attempts.Load(); n != int64(len(replies)) {
			t.Errorf("%d attempts, want %d", n, len(replies))
		}
	})
	return s
}

func (s *scripted) serve(t *testing.T, c net.Conn, replies []reply) {
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		i := int(s.attempts.Add(1)) - 1
		if i >= len(replies) {
			t.Errorf("attempt %d of %d", i+1, len(replies))
			return
		}
		replies[i](c)
	}
}

// TestRetries runs creates against servers and proxies that fail.
func TestRetries(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		script  []reply
		conns   int64  // 0: any number
		want    string // the error without request id; empty: the plant is created
		unknown bool
		code    client.Code
	}{
		"created":   {script: []reply{created}, conns: 1},
		"100 first": {script: []reply{join(text("HTTP/1.1 100 Continue\n\n"), created)}, conns: 1},
		"chunked": {script: []reply{
			text("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\nf\n{\"name\":\"Acer\"}\n0\n\n"),
		}},
		"until the close":           {script: []reply{join(text("HTTP/1.1 200 OK\n\n{\"name\":\"Acer\"}"), hangUp)}},
		"full, then created":        {script: []reply{full, full, created}, conns: 1},
		"lost, then created":        {script: []reply{hangUp, created}, conns: 2},
		"reset, then created":       {script: []reply{reset, created}, conns: 2},
		"half a head, then created": {script: []reply{join(text("HTTP/1.1 200"), hangUp), created}, conns: 2},
		"half a body, then created": {script: []reply{
			join(text("HTTP/1.1 200 OK\nContent-Length: 99\n\n{"), hangUp), created,
		}},
		"proxy without a server": {script: []reply{gateway, gateway, created}},
		"proxy, time-out":        {script: []reply{status("504 Gateway Timeout", "", ""), created}},
		"unknown, then created":  {script: []reply{unknown, created}},
		"request timeout": {conns: 2, script: []reply{
			status("408 Request Timeout", "Connection: close\n", `{"error":40801,"message":"late"}`), created,
		}},
		"rate": {script: []reply{
			status("429 Too Many Requests", "Retry-After: 0\n", `{"error":42901,"message":"rate"}`), created,
		}},
		"defect": {script: []reply{
			status("500 Internal Server Error", "", `{"error":50001,"message":"defect"}`), created,
		}},
		"a proxy closes after a reply": {script: []reply{join(full, hangUp), created}, conns: 2},
		"data after a response":        {script: []reply{text(queueFull + "HTTP/1.1 200 OK\n\n"), created}, conns: 2},
		"wrong credentials of the address": {
			script: []reply{status("429 Too Many Requests", "Retry-After: 1\n", `{"error":42902,"message":"too many"}`)},
			want:   "create plant 7: too many [error 42902, request ID]", code: client.TooManyFailures,
		},
		"redirect": {
			script: []reply{status("301 Moved Permanently", "Location: https://plants.example/\n", "")},
			want: "create plant 7: the response has the status 301 Moved Permanently; " +
				`it redirects to "https://plants.example/" [request ID]`,
		},
		"refused after a lost attempt": {
			script: []reply{hangUp, status("400 Bad Request", "", `{"error":40023,"message":"NUL"}`)},
			want:   "create plant 7: NUL [error 40023, request ID, 2 attempts, the plant may be stored]",
			code:   client.NameHasNUL, unknown: true,
		},
		"the error of another service": {
			script: []reply{status("400 Bad Request", "", `{"error":"bad","message":"x"}`)},
			want:   "create plant 7: the response has the status 400 Bad Request [request ID]",
		},
		"number of another status": {
			script: []reply{status("404 Not Found", "", `{"error":50001,"message":"x"}`)},
			want:   "create plant 7: the response has the status 404 Not Found [request ID]",
		},
		"a newer number": {
			script: []reply{status("400 Bad Request", "", `{"error":40099,"message":"new"}`)},
			want:   "create plant 7: new [error 40099, request ID]", code: 40099,
		},
		"200 of a page": {
			script: []reply{status("200 OK", "Content-Type: text/html\n", "<p>hello")},
			want: "create plant 7: the response is not a plant: invalid character '<' looking for beginning of value " +
				"[request ID, the plant may be stored]",
			unknown: true,
		},
		"200 without a name": {
			script:  []reply{status("200 OK", "", `{}`)},
			want:    "create plant 7: the response is not a plant: it has no name [request ID, the plant may be stored]",
			unknown: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScripted(t, row.script...)
			c := newClient(t, "http://"+s.Addr().String())
			p, err := c.Create(t.Context(), client.NewPlant{ID: 7, Name: "Acer"})
			if text := withoutID(err); text != row.want || err == nil && p.Name != "Acer" {
				t.Errorf("got  %q\nwant %q", text, row.want)
			}
			if errors.Is(err, client.ErrUnknown) != row.unknown || row.code != 0 && !errors.Is(err, row.code) {
				t.Errorf("got %#v", err)
			}
			if n := s.conns.Load(); row.conns != 0 && n != row.conns {
				t.Errorf("%d connections, want %d", n, row.conns)
			}
		})
	}
}

func join(replies ...reply) reply {
	return func(c net.Conn) {
		for _, r := range replies {
			r(c)
		}
	}
}

// withoutID returns the text of an error with ID instead of its request id; empty if it is nil.
func withoutID(err error) string {
	if e, ok := errors.AsType[*client.Error](err); ok {
		return strings.ReplaceAll(e.Error(), e.RequestID, "ID")
	}
	return ""
}

// TestStaleConnections tests that a create after the restart of a server does not use up the old connections one by
// one.
func TestStaleConnections(t *testing.T) {
	t.Parallel()
	const plants = 20
	together := make(chan struct{})
	var arrived atomic.Int64
	script := []reply{}
	for range plants {
		script = append(script, func(c net.Conn) {
			if arrived.Add(1) == plants {
				close(together)
			}
			<-together
			created(c)
			_ = c.Close()
		})
	}
	s := newScripted(t, append(script, created)...)
	c := newClient(t, "http://"+s.Addr().String(), client.WithConcurrency(plants))
	for o := range c.CreateAll(t.Context(), numbered(plants)) {
		if o.Err != nil {
			t.Error(o.Err)
		}
	}
	if _, err := c.Create(t.Context(), client.NewPlant{}); err != nil || s.conns.Load() != plants+1 {
		t.Errorf("%v, %d connections, want %d", err, s.conns.Load(), plants+1)
	}
}

// TestConnectionsAreKept tests that the connections of creates that ran at the same time serve the next ones, too.
func TestConnectionsAreKept(t *testing.T) {
	t.Parallel()
	const together, rounds = 64, 2
	var arrived, conns atomic.Int64
	var gates [rounds]chan struct{}
	for i := range gates {
		gates[i] = make(chan struct{})
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := arrived.Add(1) - 1
		if n%together == together-1 {
			close(gates[n/together])
		}
		<-gates[n/together]
		_, _ = io.WriteString(w, `{"name":"Acer"}`)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			conns.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	c := newClient(t, s.URL, client.WithConcurrency(together))
	for range rounds {
		for o := range c.CreateAll(t.Context(), numbered(together)) {
			if o.Err != nil {
				t.Fatal(o.Err)
			}
		}
	}
	if n := conns.Load(); n != together {
		t.Errorf("%d connections, want %d", n, together)
	}
}

// TestOneAttempt tests that a client without retries sends one request, even on a connection that the server closes.
func TestOneAttempt(t *testing.T) {
	t.Parallel()
	s := newScripted(t, created, hangUp)
	c := newClient(t, "http://"+s.Addr().String(), client.WithRetryFor(0))
	if _, err := c.Create(t.Context(), client.NewPlant{}); err != nil {
		t.Fatal(err)
	}
	_, err := c.Create(t.Context(), client.NewPlant{})
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Attempts != 1 || !errors.Is(err, client.ErrUnknown) {
		t.Errorf("got %v", err)
	}
}

// TestNoServer tests the errors of a server that cannot be reached: a create ends with its context, and a client
// without retries after one attempt.
func TestNoServer(t *testing.T) {
	t.Parallel()
	const nowhere = "http://127.0.0.1:1" // the kernel gives this port to no listener
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	attempts := 0
	second := client.WithHeaders(func(context.Context, http.Header) {
		if attempts++; attempts == 2 {
			cancel()
		}
	})
	_, err := newClient(t, nowhere, second, client.WithRetryFor(time.Hour)).Create(ctx, client.NewPlant{})
	e, ok := errors.AsType[*client.Error](err)
	if !ok || e.Attempts != 2 || errors.Is(err, client.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := newClient(t, nowhere, client.WithRetryFor(0)).
		Create(t.Context(), client.NewPlant{}); !errors.As(err, &e) || e.Attempts != 1 {
		t.Errorf("one attempt: %v", err)
	}
}

// TestNoConnection tests that a create that ends while its connection is being opened has stored nothing.
func TestNoConnection(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hangs := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		cancel()
		<-t.Context().Done() // the transport lets a dial go on after its request
		return nil, t.Context().Err()
	}}
	_, err := newClient(t, "http://plants.example", client.WithTransport(hangs)).Create(ctx, client.NewPlant{})
	if !errors.Is(err, context.Canceled) || errors.Is(err, client.ErrUnknown) {
		t.Errorf("got %v", err)
	}
}

// TestTimeLimits tests the error of an attempt that ends at its own time limit, and at the deadline of the context.
func TestTimeLimits(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		deadline time.Duration // the context's; the attempt ends after a second
		want     string
	}{
		"of the attempt": {time.Minute, "no response within 1s"},
		"of the context": {time.Second / 2, context.DeadlineExceeded.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				here, there := net.Pipe()
				go io.Copy(io.Discard, there) //nolint:errcheck // reads the request; ends with the connection
				silent := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return here, nil }}
				c := newClient(t, "http://plants.example", client.WithTransport(silent), client.WithRetryFor(0),
					client.WithAttemptTimeout(time.Second))
				ctx, cancel := context.WithTimeout(t.Context(), row.deadline)
				defer cancel()
				_, err := c.Create(ctx, client.NewPlant{ID: 7})
				want := "create plant 7: " + row.want + " [request ID, the plant may be stored]"
				if got := withoutID(err); got != want {
					t.Errorf("got  %q\nwant %q", got, want)
				}
				synctest.Wait()
			})
		})
	}
}

// TestSlowServer tests that an attempt ends at its time limit, and that the next one may succeed.
func TestSlowServer(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if requests.Add(1) == 1 {
			<-r.Context().Done() // until the client closes the connection
			return
		}
		_, _ = io.WriteString(w, `{"name":"Acer"}`)
	}))
	t.Cleanup(s.Close)
	c := newClient(t, s.URL, client.WithAttemptTimeout(time.Second), client.WithRetryFor(time.Hour))
	if _, err := c.Create(t.Context(), client.NewPlant{Name: "Acer"}); err != nil || requests.Load() < 2 {
		t.Errorf("%d requests, %v", requests.Load(), err)
	}
}

// TestCanceled tests that a create whose server does not respond ends when its context does.
func TestCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := newScripted(t, func(net.Conn) { cancel() })
	c := newClient(t, "http://"+s.Addr().String(), client.WithAttemptTimeout(time.Hour))
	_, err := c.Create(ctx, client.NewPlant{})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, client.ErrUnknown) {
		t.Errorf("got %v", err)
	}
}

// TestLargeResponse tests the limit of a response.
func TestLargeResponse(t *testing.T) {
	t.Parallel()
	endless := func(c net.Conn) {
		text("HTTP/1.1 200 OK\n\n")(c)
		for block := make([]byte, 1<<20); ; {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	}
	s := newScripted(t, endless)
	c := newClient(t, "http://"+s.Addr().String(), client.WithRetryFor(0))
	_, err := c.Create(t.Context(), client.NewPlant{ID: 7})
	want := "create plant 7: read the body of the response: it has more than 8388608 bytes " +
		"[request ID, the plant may be stored]"
	if got := withoutID(err); got != want {
		t.Errorf("got %q", got)
	}
}

// TestPauses tests the times of the attempts without a real clock.
func TestPauses(t *testing.T) {
	t.Parallel()
	type span [2]time.Duration // the least and the most
	minute, endOfMinute := [2]int{8, 14}, span{29 * time.Second, time.Minute}
	for name, row := range map[string]struct {
		after    string        // the header Retry-After
		ctx      time.Duration // until its deadline; 0: none
		attempts [2]int
		last     span // the time of the last attempt
	}{
		"a minute":    {attempts: minute, last: endOfMinute},
		"deadline":    {ctx: time.Second, attempts: [2]int{5, 7}, last: span{400 * time.Millisecond, time.Second}},
		"Retry-After": {after: "25", attempts: [2]int{3, 3}, last: span{50 * time.Second, 51 * time.Second}},
		"a date": {
			after: "Sat, 01 Jan 2000 00:00:50 GMT", attempts: [2]int{3, 14}, last: span{50 * time.Second, time.Minute},
		},
		"beyond the minute":  {after: "61", attempts: [2]int{1, 1}},
		"not a number":       {after: "soon", attempts: minute, last: endOfMinute},
		"beyond all numbers": {after: "99999999999999999999", attempts: minute, last: endOfMinute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began, attempts, last := time.Now(), 0, time.Duration(0)
				busy := transport(func(*http.Request) (*http.Response, error) {
					attempts++
					last = time.Since(began)
					w := httptest.NewRecorder()
					w.Header().Set("Retry-After", row.after)
					w.WriteHeader(http.StatusServiceUnavailable)
					return w.Result(), nil
				})
				ctx, cancel := t.Context(), func() {}
				if row.ctx != 0 {
					ctx, cancel = context.WithTimeout(ctx, row.ctx)
				}
				defer cancel()
				_, err := newClient(t, "http://plants.example", client.WithTransport(busy)).Create(ctx, client.NewPlant{})
				if err == nil || attempts < row.attempts[0] || attempts > row.attempts[1] {
					t.Errorf("%d attempts: %v", attempts, err)
				}
				if last < row.last[0] || last > row.last[1] {
					t.Errorf("the last attempt is after %v", last)
				}
			})
		})
	}
}

// transport is an http.RoundTripper.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestTLS tests certificates that the client does and does not trust.
func TestTLS(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Proto != "HTTP/1.1" {
			http.Error(w, r.Proto, http.StatusTeapot)
			return
		}
		_, _ = io.WriteString(w, `{"name":"Acer"}`)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	s.StartTLS()
	t.Cleanup(s.Close)
	trusted := s.Client().Transport.(*http.Transport).TLSClientConfig
	c := newClient(t, s.URL, client.WithTLS(trusted))
	for range 2 {
		if p, err := c.Create(t.Context(), client.NewPlant{}); err != nil || p.Name != "Acer" {
			t.Errorf("trusted: %+v, %v", p, err)
		}
	}
	_, err := newClient(t, s.URL).Create(t.Context(), client.NewPlant{})
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); !ok || errors.Is(err, client.ErrUnknown) {
		t.Errorf("not trusted: %v", err)
	}
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Attempts != 1 {
		t.Errorf("not trusted: %+v", e)
	}
}

func newClient(t *testing.T, base string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(base, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func numbered(count int) iter.Seq[client.NewPlant] {
	return func(yield func(client.NewPlant) bool) {
		for i := range count {
			if !yield(client.NewPlant{ID: int64(i), Name: fmt.Sprintf("made %d", i)}) {
				return
			}
		}
	}
}
