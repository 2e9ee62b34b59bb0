// Package notify tells the operator of a server without a monitoring system how the server is: it calls one URL while
// all is well, so that a service there notices when the calls end, and sends each warning that starts or ends to
// another.
package notify

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"plantstore/internal/admin"
	"plantstore/internal/webhook"
)

// Config configures a Notifier. Client, Warnings and Log are required.
type Config struct {
	HeartbeatURL string // that is called while all is well; empty: none
	WarningURL   string // that receives the warnings; empty: none
	Client       *webhook.Client
	Warnings     func(context.Context) []admin.Warning // the most urgent ones first
	Server       string                                // name of the machine in the messages
	ConsoleURL   string                                // without a path
	Log          *slog.Logger
}

const (
	// every is the interval between two looks at the warnings. A look sends at most one message about them, so neither a
	// slow receiver nor many warnings delay a heartbeat.
	every = 10 * time.Second

	heartbeatEvery = 5 * time.Minute

	// patience is the age of a warning, or of the failure of WarningURL, that ends the heartbeats.
	patience = 15 * time.Minute

	// changeEvery is the least time between two messages about a warning, so that one that comes and goes is no flood.
	changeEvery = time.Minute

	waitMost = 5 * time.Minute // between two attempts

	started, ended = "warning.started", "warning.ended"
)

// message is the body of a request. Chats show the text.
type message struct {
	Type    string        `json:"type"` // started or ended
	Time    time.Time     `json:"time"`
	Server  string        `json:"server"`
	Text    string        `json:"text"`
	URL     string        `json:"url"` // page of the console
	Warning admin.Warning `json:"warning"`
}

// Notifier sends heartbeats and warnings. Its goroutine owns the fields before cancel.
type Notifier struct {
	config    Config
	heartbeat target
	receiver  target
	sent      map[string]message // last message by id of the warning

	cancel  context.CancelFunc
	running sync.WaitGroup
}

// New returns a Notifier. Start starts it, and the caller closes it.
func New(c Config) *Notifier {
	return &Notifier{
		config: c, sent: map[string]message{}, cancel: func() {},
		heartbeat: target{setting: "heartbeat-url", url: c.HeartbeatURL, log: c.Log},
		receiver:  target{setting: "warning-url", url: c.WarningURL, log: c.Log},
	}
}

// Start starts the goroutine that sends, unless there is no URL.
func (n *Notifier) Start(ctx context.Context) {
	if n.heartbeat.url+n.receiver.url == "" {
		return
	}
	ctx, n.cancel = context.WithCancel(context.WithoutCancel(ctx))
	n.running.Go(func() {
		for ctx.Err() == nil {
			n.look(ctx, time.Now())
			select {
			case <-ctx.Done():
			case <-time.After(every):
			}
		}
	})
}

// Retire ends the messages, also one that is being sent. It does not wait. A server calls it before it stops accepting
// plants, which is no warning then.
func (n *Notifier) Retire() { n.cancel() }

// Close is Retire, and waits for the end of the goroutine.
func (n *Notifier) Close() {
	n.cancel()
	n.running.Wait()
	n.config.Client.Close()
}

// look sends what is due.
func (n *Notifier) look(ctx context.Context, now time.Time) {
	warnings := n.config.Warnings(ctx)
	m, waits := n.due(warnings, now)
	if n.heartbeat.isDue(now) && n.isWell(warnings, waits, now) {
		n.heartbeat.called(ctx, now, heartbeatEvery, n.config.Client.Get(ctx, n.heartbeat.url))
	}
	if waits && n.receiver.isDue(now) {
		n.send(ctx, m, now)
	}
}

// isWell reports whether heartbeats continue. Without a receiver of the warnings each lasting one ends them, because
// the operator learns of it in no other way. So does a message that waits for long.
func (n *Notifier) isWell(warnings []admin.Warning, waits bool, now time.Time) bool {
	ends := func(w admin.Warning) bool {
		return w.Severity == admin.Critical || n.receiver.url == "" && now.Sub(w.Since) > patience
	}
	unsent := waits && n.receiver.failures > 0 && now.Sub(n.receiver.failing) > patience
	return !unsent && !slices.ContainsFunc(warnings, ends)
}

// due returns the most urgent message whose warning differs from what the receiver has. A change that it has missed and
// that is over is no message.
func (n *Notifier) due(warnings []admin.Warning, now time.Time) (message, bool) {
	current := map[string]bool{}
	for _, w := range warnings {
		current[w.ID] = true
		last := n.sent[w.ID]
		if (last.Type != started || last.Warning.Severity != w.Severity) && now.Sub(last.Time) >= changeEvery {
			return message{Type: started, Warning: w}, true
		}
	}
	for id, last := range n.sent {
		if !current[id] && last.Type == started && now.Sub(last.Time) >= changeEvery {
			return message{Type: ended, Warning: last.Warning}, true
		}
	}
	return message{}, false
}

// send sends a message. Its id is the same for each attempt.
func (n *Notifier) send(ctx context.Context, m message, now time.Time) {
	w := m.Warning
	m.Time, m.Server, m.URL = now.UTC(), n.config.Server, n.config.ConsoleURL+w.Page
	switch {
	case m.Type == ended:
		m.Text = fmt.Sprintf("Ended on %s: %s", m.Server, w.Text)
	case w.Severity == admin.Critical:
		m.Text = fmt.Sprintf("Critical on %s: %s %s", m.Server, w.Text, w.Remedy)
	default:
		m.Text = fmt.Sprintf("Warning on %s: %s %s", m.Server, w.Text, w.Remedy)
	}
	body, _ := json.Marshal(m) //nolint:errchkjson // texts and times
	id := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %s %d", m.Server, m.Type, w.ID, w.Severity, w.Since.UnixNano()))
	if n.receiver.called(ctx, now, 0, n.config.Client.Post(ctx, n.receiver.url, fmt.Sprintf("wrn_%x", id[:16]), body)) {
		n.sent[w.ID] = m
	}
}

// target is a URL and the state of its calls.
type target struct {
	setting  string
	url      string // empty: none
	log      *slog.Logger
	failures int       // since the last call that succeeded
	failing  time.Time // time of the first of them
	next     time.Time // no call before then
}

func (t *target) isDue(now time.Time) bool { return t.url != "" && !now.Before(t.next) }

// called records a call, and reports whether it succeeded. The next one is due after a wait, or sooner after a failure.
// A failure that the end of the Notifier has caused is not logged.
func (t *target) called(ctx context.Context, now time.Time, wait time.Duration, f *webhook.Failure) bool {
	switch {
	case ctx.Err() != nil:
	case f != nil:
		if t.failures++; t.failures == 1 {
			t.failing = now
			t.log.Warn("could not call an address; the server tries again", "setting", t.setting, "reason", f.Reason)
		}
		wait = max(f.RetryAfter, min(waitMost, webhook.WaitAfter(t.failures)))
	case t.failures > 0:
		t.log.Info("an address accepts calls again", "setting", t.setting, "failures", t.failures)
		t.failures = 0
	}
	t.next = now.Add(wait)
	return f == nil
}
