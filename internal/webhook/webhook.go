// Package webhook delivers an event for each created plant to configured addresses, at least once. The engine writes
// the events into an outbox, in the transactions that create the plants. A Sender claims deliveries in the outbox,
// sends them, and stores the results.
//
// A delivery is a POST of the plant, signed as Standard Webhooks defines
// (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
package webhook

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/audit"
	"plantstore/internal/store"
)

// Config configures a Sender.
type Config struct {
	Outbox       Outbox                // required
	URLs         []string              // distinct, and accepted by CheckURL; at least one
	Secrets      []Secret              // at least one
	AllowPrivate bool                  // deliver to addresses that are not public, and over http
	Timeout      time.Duration         // for an attempt; 0: 10 s
	Concurrency  int                   // attempts to one webhook at the same time; 0: 16
	Rate         int                   // attempts a second; required
	UserAgent    string                // sent with each attempt
	By           audit.Origin          // recorded in the audit log with a change of the webhooks
	Log          *slog.Logger          // nil: no log
	Metrics      prometheus.Registerer // nil: no metrics
}

func (c *Config) setDefaults() {
	c.Timeout = cmp.Or(c.Timeout, 10*time.Second)
	c.Concurrency = cmp.Or(c.Concurrency, 16)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
}

// GiveUp is the age of an event at which it becomes a dead letter.
const GiveUp = 3 * 24 * time.Hour

// Sender delivers the events of a store.
type Sender struct {
	config  Config
	client  *Client
	metrics *metrics

	receivers map[int64]*receiver // by Webhook.ID

	sending context.Context    // for the attempts, the rounds and the maintenance
	cancel  context.CancelFunc // ends sending
	retired context.Context    // ends with Retire
	retire  context.CancelFunc // ends retired
	running sync.WaitGroup     // the dispatcher and the maintenance
	results chan result        // from the attempts; buffers all of them
}

// claimsEach is the number of deliveries that a Sender claims for each attempt to a webhook at the same time: the next
// ones wait in memory while results are stored.
const claimsEach = 4

// New makes the URLs the webhooks of the store: plants that are created after it returns get events. Start delivers
// them. The caller closes the Sender.
func New(ctx context.Context, c Config) (*Sender, error) {
	if c.Outbox == nil || len(c.URLs) == 0 || len(c.URLs) > URLsMax || len(c.Secrets) == 0 {
		return nil, errors.New("webhook.Config lacks an Outbox, a secret or a URL, or has too many URLs")
	}
	c.setDefaults()
	all, err := c.Outbox.SetWebhooks(ctx, c.URLs, c.By)
	if err != nil {
		return nil, err
	}
	s := &Sender{
		config: c, client: NewClient(c), receivers: map[int64]*receiver{},
		results: make(chan result, len(c.URLs)*c.Concurrency*claimsEach),
	}
	s.sending, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.retired, s.retire = context.WithCancel(s.sending)
	for _, w := range all {
		if w.Active {
			s.receivers[w.ID] = &receiver{
				webhook: w, slots: make(chan struct{}, c.Concurrency), log: c.Log, status: Status{Address: w.Address()},
			}
		}
	}
	s.metrics = newMetrics(c.Metrics, s.receivers)
	return s, nil
}

// Off deactivates all webhooks of a store, so that its plants get no events, and returns the number of webhooks that
// were active. It writes nothing if there are none.
func Off(ctx context.Context, o Outbox, by audit.Origin) (removed int, err error) {
	before, err := o.Webhooks(ctx)
	if err != nil {
		return 0, err
	}
	for _, w := range before {
		if w.Active {
			removed++
		}
	}
	_, err = o.SetWebhooks(ctx, nil, by)
	return removed, err
}

// Start starts the deliveries.
func (s *Sender) Start() {
	s.running.Go(func() { (&dispatcher{Sender: s}).run() }) // ends with Close, which waits for it
	s.running.Go(s.maintain)                                // so does this one
}

// Retire ends the claims of deliveries, and after closeTimeMax the running attempts. It does not wait.
func (s *Sender) Retire() {
	s.retire()
	time.AfterFunc(closeTimeMax, s.cancel)
}

// Close claims no more deliveries, waits a short time for the running attempts, and stores their results. The claims of
// attempts that have not ended by then expire.
func (s *Sender) Close() {
	s.Retire()
	s.running.Wait()
	s.cancel()
	s.client.Close()
}

// receiver is a webhook to which a Sender delivers. Only the dispatcher uses the fields before mu, except for webhook
// and slots, and changes status.
type receiver struct {
	webhook store.Webhook
	slots   chan struct{} // semaphore of the attempts
	log     *slog.Logger

	claimed  int       // deliveries without a stored result
	pauses   int       // since the last attempt that succeeded
	warned   bool      // the failures are logged
	warnedAt time.Time // last warning

	mu     sync.Mutex
	status Status // guarded by mu
}

const (
	failuresBeforePause = 10
	pauseFirst          = time.Second
	pauseMost           = time.Minute

	warnEvery = time.Minute
)

// room returns the number of deliveries to claim now. After a pause it is a single one, which shows whether the
// receiver is back.
func (r *receiver) room(now time.Time, most int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.status.Gone || now.Before(r.status.PausedUntil):
		return 0
	case r.status.Failures >= failuresBeforePause:
		return max(0, 1-r.claimed)
	}
	return most - r.claimed
}

// succeeded records a delivered event.
func (r *receiver) succeeded(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.warned {
		r.log.Info("webhook deliveries succeed again", "address", r.status.Address, "failures", r.status.Failures)
	}
	r.pauses, r.warned = 0, false
	r.status.DeliveredAt, r.status.Failures, r.status.PausedUntil = now, 0, time.Time{}
}

// failed records an attempt that failed. A receiver that answers no attempt gets fewer of them: each would wait for the
// timeout.
func (r *receiver) failed(now time.Time, f Failure) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.status
	s.FailedAt, s.Reason = now, f.Reason
	s.Failures++
	if f.Gone && !s.Gone {
		s.Gone = true
		r.log.Error("webhook disabled: the receiver answered 410 Gone; correct webhook-url, or restart to try it again",
			"address", s.Address)
		return
	}
	if !r.warned && now.Sub(r.warnedAt) >= warnEvery {
		r.warned, r.warnedAt = true, now
		r.log.Warn("webhook deliveries fail; they are repeated", "address", s.Address, "reason", f.Reason)
	}
	wait := f.RetryAfter
	if s.Failures >= failuresBeforePause && !now.Before(s.PausedUntil) {
		wait = max(wait, min(pauseMost, pauseFirst<<min(r.pauses, 10)))
		r.pauses++
	}
	if until := now.Add(wait); until.After(s.PausedUntil) {
		s.PausedUntil = until
	}
}
