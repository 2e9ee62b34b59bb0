package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// notOpenLine matches the log line of a server that responds before its store is open. Its groups are the URLs of the
// listeners.
const notOpenLine = `msg="the store is not open yet: requests receive 503" listen=\S+ public=(\S+) admin=(\S+)`

// heldBucket is an S3 server that sends no backup between hold and release.
type heldBucket struct {
	environ, direct []string      // of the servers, and of others for which it sends them
	held            atomic.Bool   // after hold
	reached         chan struct{} // has an element for each backup that it holds
	release         func()
}

func newHeldBucket(t *testing.T) *heldBucket {
	t.Helper()
	s, environ := newBucket(t)
	to, err := url.Parse("http://" + s.Address)
	if err != nil {
		t.Fatal(err)
	}
	released := make(chan struct{})
	b := &heldBucket{direct: environ, reached: make(chan struct{}, 100)}
	b.release = sync.OnceFunc(func() { close(released) })
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = r.In.Host // which the client has signed
	}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.held.Load() && r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, ".db") {
			b.reached <- struct{}{}
			select {
			case <-released:
			case <-r.Context().Done():
				return
			}
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	b.environ = append(environ, "AWS_ENDPOINT_URL="+proxy.URL)
	return b
}

// checkNotOpen checks the responses of a server whose store is not open. reason is a regular expression.
func checkNotOpen(t *testing.T, public, admin, reason string) {
	t.Helper()
	client := httpClient(1)
	defer client.CloseIdleConnections()
	for _, row := range []struct {
		method, url string
		status      int
		body        string // regular expression
	}{
		{"GET", admin + "/livez", 200, `{"status":"alive"}`},
		{"GET", admin + "/readyz", 503, `{"error":50304,"message":"` + reason + `"}`},
		{"GET", admin + "/readyz?verbose", 503, `{"error":50304,"message":"` + reason + `"}`},
		{"GET", admin + "/metrics", 503, `{"error":50304,"message":"` + reason + `"}`},
		{"GET", admin + "/", 503, `{"error":50304,"message":"` + reason + `"}`},
		{"GET", public + "/healthz", 503, `{"error":50304,"message":"the server has not opened its store yet"}`},
		{"POST", public + "/plants", 503, `{"error":50304,"message":"the server has not opened its store yet"}`},
		{"GET", public + "/livez", 503, `{"error":50304,"message":"the server has not opened its store yet"}`},
	} {
		r, err := http.NewRequestWithContext(t.Context(), row.method, row.url, strings.NewReader(""))
		if err != nil {
			t.Fatal(err)
		}
		got, err := sendOnce(client, r)
		if err != nil || got.status != row.status || !regexp.MustCompile("^"+row.body+"\n$").MatchString(got.body) {
			t.Errorf("%s %s: got %d %q, %v; want %d %s", row.method, row.url, got.status, got.body, err, row.status, row.body)
		}
		if got.status == http.StatusServiceUnavailable && got.header.Get("Retry-After") == "" {
			t.Errorf("%s %s: no Retry-After", row.method, row.url)
		}
	}
}

const heldDestination = "s3://nursery-backups/plants/"

// extends is the notification of a server that opens its parts.
const extends = "EXTEND_TIMEOUT_USEC=60000000"

// TestNotOpen holds the restores of a standby and of a server with --restore-missing, which respond meanwhile, tell
// systemd that they need longer, and end at once after Ctrl-C.
func TestNotOpen(t *testing.T) {
	t.Parallel()
	b := newHeldBucket(t)
	owner := startServerIn(t, b.direct, filepath.Join(t.TempDir(), "a.db"), "--backup-dir", heldDestination)
	if _, err := owner.await(owner.stderr, `msg="backup made"`); err != nil {
		t.Fatal(err)
	}
	b.held.Store(true)
	start := func(flags ...string) (m *managed, p *process, public, admin string) {
		t.Helper()
		m = newManaged(t)
		m.environ = append(b.environ, m.environ[len(cleanEnviron()):]...)
		p = m.start(t, append(flags, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
			"--backup-dir", heldDestination)...)
		match, err := p.await(p.stderr, notOpenLine)
		if err != nil {
			t.Fatal(err)
		}
		<-b.reached
		m.await(t, extends)
		return m, p, match[1], match[2]
	}
	_, p, _, _ := start("--standby")
	interrupt(t, p)
	m, p, public, admin := start("--standby")
	checkNotOpen(t, public, admin,
		"standby: the server has not opened its store yet: restoring it from s3://nursery-backups/plants/")
	_, missing, missingPublic, missingAdmin := start("--restore-missing")
	checkNotOpen(t, missingPublic, missingAdmin,
		"the server has not opened its store yet: restoring it from s3://nursery-backups/plants/")
	interrupt(t, missing)
	b.release()
	m.await(t, "READY=1")
	client := httpClient(1)
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, admin+"/readyz", strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := sendOnce(client, r); err != nil || !strings.Contains(got.body, "standby of the server on ") {
		t.Errorf("got %+v, %v", got, err)
	}
	interrupt(t, p)
}

// interrupt ends a server by Ctrl-C.
func interrupt(t *testing.T, p *process) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code, err := p.wait(); err != nil || code != exitOK {
		t.Errorf("the server ended with %d, %v, want 0; its log:\n%s", code, err, p.stderr)
	}
}

// TestNotOpenAgain fences an owner whose store has to be restored: it responds meanwhile at the same addresses, and the
// watchdog of systemd does not end it.
func TestNotOpenAgain(t *testing.T) {
	t.Parallel()
	b := newHeldBucket(t)
	flags := []string{
		"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--backup-dir", heldDestination,
		"--failover", "1s", "--backup-lag", "1h",
	}
	m := newManaged(t)
	m.environ = append(b.environ, m.environ[len(cleanEnviron()):]...)
	owner := m.start(t, flags...)
	at, err := owner.await(owner.stderr, readyLine)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := owner.await(owner.stderr, `msg="backup made"`); err != nil {
		t.Fatal(err)
	}
	standby := startServerIn(t, b.direct, filepath.Join(t.TempDir(), "a.db"), append(flags, "--standby")...)
	b.held.Store(true)
	token := (&testServer{process: owner, db: m.args[2]}).creator(t)
	if status, text, err := post(t.Context(), httpClient(1), at[2], token, `{"id":1,"name":"a"}`); status != 200 {
		t.Fatalf("%d %s %v", status, text, err)
	}
	if err := owner.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := standby.await(standby.stderr, `msg=ready `); err != nil {
		t.Fatal(err)
	}
	if err := owner.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	<-b.reached
	for range 2 { // the first one may be an older one
		m.await(t, "WATCHDOG=1")
	}
	checkNotOpen(t, at[2], at[3],
		"standby: the server has not opened its store yet: restoring it from s3://nursery-backups/plants/")
	b.release()
	again := `msg="ready as a standby" listen=\S+ public=` + at[2] + ` admin=` + at[3]
	if _, err := owner.await(owner.stderr, again); err != nil {
		t.Error(err)
	}
	interrupt(t, owner)
}
