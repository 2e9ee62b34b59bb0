package webhook

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"plantstore/internal/store"
)

const (
	expireEvery = time.Minute
	countEvery  = 15 * time.Second
	countShare  = 50 // pauses between counts take this many times as long as a count, which reads every delivery

	deadTimeMax = 30 * 24 * time.Hour // age at which a dead letter is removed
)

// maintain makes old deliveries dead letters, removes old dead letters, and counts the deliveries for the metrics.
func (s *Sender) maintain() {
	expire, count := time.NewTimer(expireEvery), time.NewTimer(0)
	defer expire.Stop()
	defer count.Stop()
	for {
		select {
		case <-s.sending.Done():
			return
		case <-expire.C:
			s.expire()
			expire.Reset(expireEvery)
		case <-count.C:
			start := time.Now()
			s.count()
			count.Reset(max(countEvery, countShare*time.Since(start)))
		}
	}
}

// EndRemoved makes the pending deliveries to removed webhooks dead letters. After each transaction it pauses for as
// long as that took, because creates may have waited for it.
func EndRemoved(ctx context.Context, o Outbox, log *slog.Logger) {
	var all int64
	for {
		start := time.Now()
		limited, cancel := context.WithTimeout(ctx, roundTimeMax)
		n, err := o.EndDeliveries(limited)
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				log.Warn("could not end the deliveries to removed webhooks; a running server retries within a minute", "error", err)
			}
			break
		}
		if all += n; n < store.ChangeMax {
			break
		}
		select {
		case <-time.After(time.Since(start)):
		case <-ctx.Done():
		}
	}
	warnDead(log, all)
}

func warnDead(log *slog.Logger, events int64) {
	if events > 0 {
		log.Warn("webhook events became dead letters; see plantstore webhook list", "events", events)
	}
}

// expire repeats ExpireDeliveries until no delivery is too old.
func (s *Sender) expire() {
	const reason = "not delivered within 3 days" // GiveUp
	var all store.Expired
	for s.sending.Err() == nil {
		now := time.Now()
		ctx, cancel := context.WithTimeout(s.sending, roundTimeMax)
		n, err := s.config.Outbox.ExpireDeliveries(ctx, store.Expiry{
			PendingBefore: now.Add(-GiveUp), DeadBefore: now.Add(-deadTimeMax), Reason: reason,
		})
		cancel()
		all.Dead += n.Dead
		all.Removed += n.Removed
		if err != nil || n == (store.Expired{}) {
			break // the dispatcher logs an error
		}
	}
	warnDead(s.config.Log, all.Dead)
	if all.Removed > 0 {
		s.config.Log.Warn("removed old dead letters of webhooks", "dead_letters", all.Removed)
	}
}

// count sets the gauges, Status.Dead and Status.Oldest.
func (s *Sender) count() {
	totals, err := s.config.Outbox.OutboxTotals(s.sending)
	if err != nil {
		return // the dispatcher logs it
	}
	for id, r := range s.receivers {
		t := totals[id]
		s.metrics.set(r, t)
		r.mu.Lock()
		r.status.Dead, r.status.Oldest = t.Dead, t.Oldest
		r.mu.Unlock()
	}
}

// metrics are the metrics of a Sender. The addresses are settings, so their number is bounded.
type metrics struct {
	attempts *prometheus.CounterVec
	dead     *prometheus.CounterVec
	took     *prometheus.HistogramVec

	pending, oldest, deadLetters *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer, receivers map[int64]*receiver) *metrics {
	to, address := promauto.With(registerer), []string{"address"}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return to.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, address)
	}
	m := &metrics{
		attempts: to.NewCounterVec(prometheus.CounterOpts{
			Name: "plantstore_webhook_attempts_total",
			Help: "Attempts of this server to deliver an event, by result: delivered or failed.",
		}, []string{"address", "result"}),
		dead: to.NewCounterVec(prometheus.CounterOpts{
			Name: "plantstore_webhook_deliveries_given_up_total",
			Help: "Deliveries that became dead letters after a failed attempt.",
		}, address),
		took: to.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "plantstore_webhook_attempt_duration_seconds",
			Help:    "Time from the request of an attempt to the end of its response.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, address),
		pending: gauge("plantstore_webhook_pending_events",
			"Events that were not delivered to the address, without dead letters, when they were counted last."),
		oldest: gauge("plantstore_webhook_oldest_event_timestamp_seconds",
			"Time of the oldest event that was not delivered to the address; 0 without one."),
		deadLetters: gauge("plantstore_webhook_dead_letters",
			"Dead letters of the address, when they were counted last."),
	}
	for _, r := range receivers {
		for _, result := range []string{"delivered", "failed"} {
			m.attempts.WithLabelValues(r.webhook.Address(), result)
		}
		m.dead.WithLabelValues(r.webhook.Address())
		m.set(r, store.OutboxTotals{})
	}
	return m
}

// attempt counts an attempt with a result: delivered or failed.
func (m *metrics) attempt(r result, name string) {
	address := r.receiver.webhook.Address()
	m.attempts.WithLabelValues(address, name).Inc()
	m.took.WithLabelValues(address).Observe(r.took.Seconds())
}

func (m *metrics) set(r *receiver, t store.OutboxTotals) {
	address, oldest := r.webhook.Address(), 0.0
	if !t.Oldest.IsZero() {
		oldest = float64(t.Oldest.UnixMicro()) / 1e6
	}
	m.pending.WithLabelValues(address).Set(float64(t.Pending))
	m.oldest.WithLabelValues(address).Set(oldest)
	m.deadLetters.WithLabelValues(address).Set(float64(t.Dead))
}
