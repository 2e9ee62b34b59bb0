package notify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"plantstore/internal/admin"
	"plantstore/internal/notify"
	"plantstore/internal/webhook"
)

var start = time.Date(2026, time.March, 3, 12, 0, 0, 0, time.UTC)

// fixture is a Notifier whose calls go to a server.
type fixture struct {
	t        *testing.T
	notifier *notify.Notifier
	log      bytes.Buffer
	warnings []admin.Warning

	mu       sync.Mutex // guards the rest
	status   int        // of the responses
	requests []request
}

type request struct {
	method, path, id, signature, body string
}

// newFixture returns a fixture whose Notifier calls these paths; empty: none.
func newFixture(t *testing.T, heartbeat, receiver string) *fixture {
	t.Helper()
	f := &fixture{t: t, status: http.StatusOK}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.requests = append(f.requests, request{
			r.Method, r.RequestURI, r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Signature"), string(body),
		})
		w.WriteHeader(f.status)
	}))
	t.Cleanup(server.Close)
	secrets, err := webhook.ParseSecrets("whsec_" + strings.Repeat("A", 32))
	if err != nil {
		t.Fatal(err)
	}
	c := notify.Config{
		Client:   webhook.NewClient(webhook.Config{AllowPrivate: true, Timeout: time.Minute, Secrets: secrets}),
		Warnings: func(context.Context) []admin.Warning { return f.warnings },
		Server:   "plants-1", ConsoleURL: "https://plants.example:8081", Log: slog.New(slog.NewTextHandler(&f.log, nil)),
	}
	if heartbeat != "" {
		c.HeartbeatURL = server.URL + heartbeat
	}
	if receiver != "" {
		c.WarningURL = server.URL + receiver
	}
	f.notifier = notify.New(c)
	t.Cleanup(f.notifier.Close)
	return f
}

// look looks at warnings at a time after the start, and returns the requests that it causes.
func (f *fixture) look(after time.Duration, warnings ...admin.Warning) []request {
	f.warnings = warnings
	f.notifier.Look(f.t.Context(), start.Add(after))
	f.mu.Lock()
	defer f.mu.Unlock()
	defer func() { f.requests = nil }()
	return f.requests
}

func (f *fixture) respond(status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.status = status
}

// warning returns a warning that began at the start.
func warning(id string, severity admin.Severity) admin.Warning {
	return admin.Warning{
		ID: id, Severity: severity, Text: "Something is wrong.", Remedy: "Correct it.", Page: "/backups", Since: start,
	}
}

// texts returns the texts of messages.
func texts(t *testing.T, requests []request) (all []string) {
	t.Helper()
	for _, r := range requests {
		var m struct{ Type, Text string }
		if err := json.Unmarshal([]byte(r.body), &m); err != nil {
			t.Fatal(err)
		}
		all = append(all, m.Type+" "+m.Text)
	}
	return all
}

func TestMessage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", "/topic?tpl=1")
	got := f.look(time.Second, warning("backups-fail", admin.Notable))
	if len(got) != 1 {
		t.Fatalf("got %d requests, want 1", len(got))
	}
	if got[0].method != "POST" || got[0].path != "/topic?tpl=1" || len(got[0].id) != len("wrn_")+32 ||
		!strings.HasPrefix(got[0].signature, "v1,") {
		t.Errorf("got %+v", got[0])
	}
	const want = `{"type":"warning.started","time":"2026-03-03T12:00:01Z","server":"plants-1",` +
		`"text":"Warning on plants-1: Something is wrong. Correct it.","url":"https://plants.example:8081/backups",` +
		`"warning":{"id":"backups-fail","severity":"warning","text":"Something is wrong.","remedy":"Correct it.",` +
		`"page":"/backups","since":"2026-03-03T12:00:00Z"}}`
	if diff := cmp.Diff(want, got[0].body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

// The receiver gets each change once. A warning that comes and goes causes a message a minute.
func TestChanges(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", "/receiver")
	notable, critical := warning("certificate-expires", admin.Notable), warning("certificate-expires", admin.Critical)
	other := warning("disk-fills", admin.Critical)
	const (
		isNotable  = "warning.started Warning on plants-1: Something is wrong. Correct it."
		isCritical = "warning.started Critical on plants-1: Something is wrong. Correct it."
		ended      = "warning.ended Ended on plants-1: Something is wrong."
	)
	for _, step := range []struct {
		after    time.Duration
		warnings []admin.Warning
		want     []string // at most one
	}{
		{0, nil, nil},
		{10 * time.Second, []admin.Warning{other, notable}, []string{isCritical}},
		{20 * time.Second, []admin.Warning{other, notable}, []string{isNotable}},
		{30 * time.Second, []admin.Warning{other, notable}, nil},
		{40 * time.Second, []admin.Warning{notable}, nil},
		{69 * time.Second, []admin.Warning{notable}, nil},
		{70 * time.Second, []admin.Warning{notable}, []string{ended}},
		{80 * time.Second, []admin.Warning{critical}, []string{isCritical}},
		{90 * time.Second, []admin.Warning{critical, other}, nil},
		{100 * time.Second, []admin.Warning{critical}, nil},
		{140 * time.Second, []admin.Warning{critical, other}, []string{isCritical}},
		{time.Hour, nil, []string{ended}},
		{time.Hour + 10*time.Second, nil, []string{ended}},
		{time.Hour + 20*time.Second, nil, nil},
		{2 * time.Hour, []admin.Warning{other}, []string{isCritical}},
	} {
		if got := texts(t, f.look(step.after, step.warnings...)); !slices.Equal(got, step.want) {
			t.Errorf("after %s: got %q, want %q", step.after, got, step.want)
		}
	}
}

// A message is repeated with its id until the receiver accepts it, unless the warning has ended meanwhile. The log
// names the setting and not the URL, which may be a secret.
func TestReceiverFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "", "/secret-path")
	f.respond(http.StatusInternalServerError)
	short, long := warning("queue-full", admin.Notable), warning("backups-fail", admin.Notable)
	first := f.look(0, long, short)
	if len(first) != 1 {
		t.Fatalf("got %d requests before the wait, want 1", len(first))
	}
	if early := f.look(time.Millisecond, long, short); len(early) > 0 {
		t.Errorf("before the wait: got %v", early)
	}
	const waitMost = 5 * time.Minute
	f.respond(http.StatusNoContent)
	second := f.look(waitMost, long)
	if len(second) != 1 || second[0].id != first[0].id {
		t.Errorf("after the wait: got %v, want the message %s", second, first[0].id)
	}
	if more := f.look(2*waitMost, long); len(more) > 0 {
		t.Errorf("after a success: got %v", more)
	}
	log := f.log.String()
	if strings.Count(log, "\n") != 2 || !strings.Contains(log, "level=WARN") || !strings.Contains(log, "status 500") ||
		!strings.Contains(log, "level=INFO") || strings.Contains(log, "secret-path") {
		t.Errorf("log: got\n%s\nwant a warning and its end, without the URL", log)
	}
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	notable, critical := warning("credential-expires", admin.Notable), warning("commits-fail", admin.Critical)
	for name, row := range map[string]struct {
		receiver string
		warnings []admin.Warning
		after    time.Duration // since the start of the warnings
		want     bool
	}{
		"well":                      {want: true},
		"critical":                  {warnings: []admin.Warning{notable, critical}},
		"critical, with a receiver": {receiver: "/receiver", warnings: []admin.Warning{critical}},
		"short warning":             {warnings: []admin.Warning{notable}, after: 15 * time.Minute, want: true},
		"lasting warning":           {warnings: []admin.Warning{notable}, after: 16 * time.Minute},
		"lasting warning, with a receiver": {
			receiver: "/receiver", warnings: []admin.Warning{notable}, after: time.Hour, want: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, "/ping", row.receiver)
			got := slices.ContainsFunc(f.look(row.after, row.warnings...), func(r request) bool {
				return r.method == http.MethodGet && r.path == "/ping"
			})
			if got != row.want {
				t.Errorf("heartbeat: got %t, want %t", got, row.want)
			}
		})
	}
}

// A heartbeat follows five minutes after the last one, and soon after one that failed. Heartbeats end while the
// receiver of the warnings fails for long, and continue after that.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "/ping", "/receiver")
	count := func(after time.Duration, warnings ...admin.Warning) (n int) {
		for _, r := range f.look(after, warnings...) {
			if r.path == "/ping" {
				n++
			}
		}
		return n
	}
	warned := []admin.Warning{warning("backups-fail", admin.Notable)}
	for _, step := range []struct {
		after    time.Duration
		status   int
		warnings []admin.Warning
		want     int
	}{
		{0, 200, nil, 1},
		{5*time.Minute - 1, 200, nil, 0},
		{5 * time.Minute, 503, nil, 1},
		{5*time.Minute + 5*time.Second, 200, nil, 1},
		{11 * time.Minute, 503, warned, 1},
		{27 * time.Minute, 503, warned, 0},
		{28 * time.Minute, 503, nil, 1},    // no message waits
		{40 * time.Minute, 200, warned, 0}, // the receiver gets it
		{41 * time.Minute, 200, warned, 1},
	} {
		f.respond(step.status)
		if got := count(step.after, step.warnings...); got != step.want {
			t.Errorf("after %s: got %d heartbeats, want %d", step.after, got, step.want)
		}
	}
}

// The end of the server ends a call without a line in the log.
func TestClose(t *testing.T) {
	t.Parallel()
	called := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(called)
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	var log bytes.Buffer
	n := notify.New(notify.Config{
		WarningURL: server.URL, Client: webhook.NewClient(webhook.Config{AllowPrivate: true, Timeout: time.Hour}),
		Warnings: func(context.Context) []admin.Warning {
			return []admin.Warning{warning("disk-fills", admin.Critical), warning("queue-full", admin.Notable)}
		},
		Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	n.Start(t.Context())
	<-called
	n.Retire()
	n.Close()
	if log.Len() > 0 {
		t.Errorf("log: got %s, want nothing", &log)
	}
}
