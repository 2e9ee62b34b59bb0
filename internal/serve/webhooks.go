package serve

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plantstore/internal/audit"
	"plantstore/internal/config"
	"plantstore/internal/webhook"
)

// eventSender delivers the events of a store by the settings in force.
type eventSender struct {
	outbox    webhook.Outbox
	by        audit.Origin // of changes of the webhooks
	userAgent string
	log       *slog.Logger
	metrics   *prometheus.Registry

	closing sync.WaitGroup // senders that a reload has replaced

	mu      sync.Mutex // guards current
	current sender
}

// sender delivers events by some settings; the zero value delivers none.
type sender struct {
	*webhook.Sender

	metrics *prometheus.Registry
}

// openWebhooks makes the URLs of the settings the webhooks of the store.
func (v *instance) openWebhooks(ctx context.Context) error {
	e := &eventSender{
		outbox: v.engine, by: v.By, userAgent: "plantstore/" + v.Version, log: v.log, metrics: v.metrics,
	}
	first, err := e.open(ctx, &v.Settings.Webhook)
	if err != nil {
		return err
	}
	e.replace(first)
	v.events = e
	v.onStart(func(context.Context) { e.start() })
	v.onRetire(e.retire)
	v.onClose(e.close)
	return nil
}

// open makes the URLs of settings the webhooks of the store.
func (e *eventSender) open(ctx context.Context, w *config.Webhook) (next sender, err error) {
	if len(w.URLs) == 0 {
		removed, err := webhook.Off(ctx, e.outbox, e.by)
		if removed > 0 {
			e.log.Warn("webhooks are off: new plants have no events any more", "removed", removed)
		}
		return next, err
	}
	next.metrics = prometheus.NewRegistry()
	next.Sender, err = webhook.New(ctx, webhook.Config{
		Outbox: e.outbox, URLs: w.URLs, Secrets: w.Secrets, AllowPrivate: w.AllowPrivate,
		Rate: w.Rate, GiveUp: w.GiveUp,
		UserAgent: e.userAgent, By: e.by, Log: e.log, Metrics: next.metrics,
	})
	return next, err
}

// replace makes a sender the current one, and returns the one before.
func (e *eventSender) replace(next sender) (old sender) {
	e.mu.Lock()
	defer e.mu.Unlock()
	old, e.current = e.current, next
	if old.metrics != nil {
		e.metrics.Unregister(old.metrics)
	}
	if next.metrics != nil {
		e.metrics.MustRegister(next.metrics)
	}
	return old
}

// reload replaces the sender if its settings have changed. The old one ends in the background: a claim keeps both from
// sending the same delivery at the same time.
func (e *eventSender) reload(ctx context.Context, old, next *config.Settings) error {
	if reflect.DeepEqual(next.Webhook, old.Webhook) {
		return nil
	}
	const storeTimeMax = 10 * time.Second
	ctx, cancel := context.WithTimeout(ctx, storeTimeMax)
	defer cancel()
	opened, err := e.open(ctx, &next.Webhook)
	if err != nil {
		return err
	}
	replaced := e.replace(opened)
	e.start()
	if replaced.Sender != nil {
		e.closing.Go(replaced.Close)
	}
	return nil
}

func (e *eventSender) sender() *webhook.Sender {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.current.Sender
}

// status returns the state of the deliveries by id of the webhook.
func (e *eventSender) status() map[int64]webhook.Status { return e.sender().Status() }

func (e *eventSender) start() {
	if s := e.sender(); s != nil {
		s.Start()
	}
}

// retire ends the claims; close waits for the running attempts.
func (e *eventSender) retire() {
	if s := e.sender(); s != nil {
		s.Retire()
	}
}

func (e *eventSender) close() {
	if s := e.sender(); s != nil {
		s.Close()
	}
	e.closing.Wait()
}
